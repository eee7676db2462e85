"""Layers, the optimum of every prefix, and the effective width, against definitions."""

import inspect
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from kvtheory import traces
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances import cyclic_broom
from kvtheory.layers import EdgeLayers, Layers, mask_of, units
from kvtheory.offline import optimum, optimum_over_time
from kvtheory.offline.belady import belady
from kvtheory.ratio.width import effective_width
from kvtheory.testing import optimum_by_search, path_of
from kvtheory.testing.small_cases import random_cases
from kvtheory.testing.strategies import cases
from kvtheory.testing.twins_layered import Dividers
from kvtheory.tree import PrefixTree

Forest = tuple[int, ...]
PREFIX_TRACES = 6


def forests(size: int) -> Iterator[Forest]:
    """The parents of all forests of so many units, −1 at a root; some of them are isomorphic."""
    return itertools.product(*[range(-1, v) for v in range(size)])


def path_to(forest: Forest, unit: int) -> tuple[int, ...]:
    return (*path_to(forest, forest[unit]), unit) if unit >= 0 else ()


def closed_sets(forest: Forest, most: int) -> list[int]:
    """The ancestor-closed sets of at most so many units, as masks."""
    above = [mask_of(path_to(forest, v)) for v in range(len(forest))]
    return [
        m
        for m in range(1 << len(forest))
        if m.bit_count() <= most
        and all(above[v] & ~m == 0 for v in range(len(forest)) if m >> v & 1)
    ]


class WorkFunction:
    """The cheapest cost to serve the queries so far and end in each cache, by definition."""

    def __init__(self, forest: Forest, capacity: int, start: int = 0) -> None:
        self.sets = closed_sets(forest, capacity)
        self.cost = {s: (s & ~start).bit_count() for s in self.sets}

    def serve(self, path: tuple[int, ...]) -> None:
        asked = mask_of(path)
        served = [s for s in self.sets if s & asked == asked]
        self.cost = {
            s: min(self.cost[held] + (s & ~held).bit_count() for held in served) for s in self.sets
        }


def disagreement(layers: Layers, forest: Forest, start: int, rng: np.random.Generator) -> str:
    """What a random walk of queries finds wrong with layers, empty if nothing."""
    work = WorkFunction(forest, layers.capacity, start)
    optimum = min(work.cost.values())
    nodes = [v for v in range(-1, len(forest)) if len(path_to(forest, v)) <= layers.capacity]
    for v in rng.choice(nodes, 24).tolist():
        path = path_to(forest, v)
        expected = layers.offset(mask_of(path))
        increase, layers = layers.serve(path)
        work.serve(path)
        optimum += increase
        if increase != expected:
            return f"OPT rises by {increase}, the rank formula says {expected}"
        if optimum != min(work.cost.values()):
            return f"OPT is {min(work.cost.values())}, not {optimum}"
        for s, cost in work.cost.items():
            if layers.offset(s) != cost - optimum:
                return f"w({s:b}) − OPT is {cost - optimum}, not {layers.offset(s)}"
            if layers.valid(s) != (cost == optimum):
                return f"{s:b} is valid, or not, by mistake"
    return ""


def problem(kind: type[Layers], sizes: range, seed: int = 0) -> str:
    """The first disagreement on all forests of these sizes, at all capacities."""
    rng = np.random.default_rng(seed)
    for size in sizes:
        for forest in forests(size):
            for capacity in range(1, size + 1):
                start = int(rng.choice([0, *closed_sets(forest, capacity)]))
                cached = [v for v in range(size) if start >> v & 1]
                if found := disagreement(kind.init(capacity, cached), forest, start, rng):
                    return f"{forest}, B = {capacity}: {found}"
    return ""


# The offset function.


def test_layers_are_the_work_function_on_small_forests() -> None:
    assert not problem(Layers, range(1, 5))


@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 6])
def test_layers_are_the_work_function(size: int) -> None:
    assert not problem(Layers, range(size, size + 1))


MUTANTS = {
    "walks from the oldest": ("in reversed(self.layers)", "in self.layers"),
    "dividers go before their units are met": ("if pending:\n", "if pending > 1:\n"),
    "a path unit removes no divider": ("pending += (layer & asked).bit_count()", "pass"),
    "forgets the free dividers": ("self.capacity - len(self.layers)", "0"),
    "wrapping costs nothing": ("return new + wrapped", "return new"),
    "wrapping removes units and not dividers": ("left[: wrapped + 1]", "left[:wrapped]"),
    "the path stays where it was": ("layer & ~asked", "layer"),
    "bounds are off by one": ("inside - i)", "inside - i - 1)"),
    "outside counts as a layer": ("excess = [inside]", "excess = [inside - 1]"),
}


def mutated(old: str, new: str) -> type[Layers]:
    """The layers with one piece of their source replaced."""
    source = inspect.getsource(units)
    assert source.count(old) == 1
    names: dict = {"__name__": "mutant"}
    exec(source.replace(old, new), names)
    return names["Layers"]


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_layers_are_rejected(name: str) -> None:
    assert problem(mutated(*MUTANTS[name]), range(1, 5))


def test_the_order_inside_a_query_does_not_matter_to_the_offset() -> None:
    # It does to policies, which find a leaf in every over-full prefix for this reason only.
    assert not problem(mutated("in reversed(path)", "in path"), range(1, 5))


@settings(max_examples=60)
@given(case=cases(max_units=10, max_requests=14))
def test_units_edges_and_the_literal_list_agree(case: tuple[list[list[int]], int]) -> None:
    queries, capacity = case
    instance = Instance.from_tokens(queries)
    by_unit, by_edge = Layers.init(capacity), EdgeLayers(instance.tree, capacity)
    literal, number = Dividers(capacity), {}
    total = 0
    for tokens, edge in zip(queries, instance.query.tolist(), strict=True):
        path = [number.setdefault(unit, len(number)) for unit in path_of(tokens)]
        increase, by_unit = by_unit.serve(path)
        assert by_edge.serve(edge) == increase
        literal.serve(path_of(tokens))
        total += increase
        assert literal.optimum == by_edge.optimum == total
        ends = literal.prefixes()
        assert len(ends) == len(by_unit.layers) + 1
        everything = mask_of(number.values())
        for i, prefix in enumerate(ends):
            assert by_unit.prefix(i) & everything == mask_of(number[u] for u in prefix)
        assert sum(count for _, count in by_edge.dividers()) == len(by_unit.layers)


def test_a_prefix_holds_every_unit_that_no_later_layer_has() -> None:
    _, layers = Layers.init(2).serve((0, 1))
    assert layers.prefix(0) & mask_of(range(9)) == mask_of(range(2, 9))
    assert layers.prefix(1) & mask_of(range(9)) == mask_of(range(1, 9))
    assert layers.prefix(2) & mask_of(range(9)) == mask_of(range(9))
    assert layers.support == mask_of([0, 1])
    assert layers.over_full(mask_of([0, 1])) is None
    assert layers.over_full(mask_of([0, 2])) == 0


def test_bad_layers() -> None:
    with pytest.raises(InputError, match="capacity = 0"):
        Layers.init(0)
    with pytest.raises(InputError, match="cached"):
        Layers.init(1, [0, 1])
    with pytest.raises(InputError, match="path = '2 units'"):
        Layers.init(1).serve((0, 1))
    tree = PrefixTree([-1], [2])
    with pytest.raises(InputError, match="capacity = 0"):
        EdgeLayers(tree, 0)
    with pytest.raises(InputError, match="2 units on its path, B = 1"):
        EdgeLayers(tree, 1).serve(0)


# The optimum over time.


def test_the_optimum_of_every_prefix_is_the_least() -> None:
    for case in random_cases(25, 3, units=7, requests=10):
        found = optimum_over_time(case.instance, case.capacity)
        least = [
            optimum_by_search(case.sequences[: t + 1], case.capacity)
            for t in range(len(case.sequences))
        ]
        assert found.tolist() == least


def middle_sized(seed: int, requests: int = 120) -> Instance:
    """Conversations that grow below a few shared prompts."""
    rng = np.random.default_rng(seed)
    live: list[list[int]] = [[root] * (2 + root) for root in range(4)]
    queries = []
    for _ in range(requests):
        base = live[int(rng.integers(max(0, len(live) - 12), len(live)))]
        query = [*base[: int(rng.integers(1, len(base) + 1))], *rng.integers(0, 3, 3).tolist()][:14]
        live.append(query)
        queries.append(query)
    return Instance.from_tokens(queries)


@pytest.mark.parametrize("capacity", [14, 23, 40])
def test_every_prefix_is_that_of_belady(capacity: int) -> None:
    instance = middle_sized(capacity)
    found = optimum_over_time(instance, capacity)
    for t in range(1, instance.requests + 1):
        part = instance.prefix(t)
        _, hits = belady(part, capacity)
        assert found[t - 1] == part.units_requested - hits.sum()


@pytest.mark.parametrize("place", range(PREFIX_TRACES))
def test_real_traces_to_the_unit(shared_traces: Path, place: int) -> None:
    reference = json.loads((shared_traces / "reference.json").read_text())
    entry = list(reference["prefix_traces"].values())[place]
    instance = traces.read(shared_traces / entry["file"].removeprefix("files/"))
    for cell in entry["cells"]:
        found = optimum_over_time(instance, cell["capacity"], oversize="truncate")
        assert instance.units_requested - int(found[-1]) == cell["belady_forced_hits"]


def test_an_optimum_by_layers_has_a_schedule() -> None:
    instance = cyclic_broom(capacity=6, length=2, rounds=40)
    found = optimum(instance, 6, method="layers")
    assert found.exact
    assert found.method == "layers"
    assert found.upper == optimum(instance, 6).upper == optimum_over_time(instance, 6)[-1]
    assert optimum(Instance.from_tokens([]), 3, method="layers").upper == 0


def test_units_below_a_cut_are_missed() -> None:
    instance = Instance.from_tokens([[1, 2, 3], [4], [1, 2, 3]])
    assert optimum_over_time(instance, 2, oversize="truncate").tolist() == [3, 4, 6]
    assert optimum_over_time(instance, "3").tolist() == [3, 4, 5]


def test_queries_without_units_cost_nothing() -> None:
    assert optimum_over_time(Instance.from_tokens([]), 2).tolist() == []
    assert optimum_over_time(Instance.from_tokens([[], [1], []]), 2).tolist() == [0, 1, 1]


def test_what_the_layers_do_not_take() -> None:
    instance = Instance.from_tokens([[1, 2, 3], [4]])
    with pytest.raises(InputError, match="query 0 has 3 units"):
        optimum_over_time(instance, 2)
    with pytest.raises(InputError, match="no way to skip them"):
        optimum_over_time(instance, 2, oversize="skip")
    with pytest.raises(InputError, match="forced admission"):
        optimum(instance, 3, method="layers", admission="bypass")
    warm = Instance.from_tokens([[1]], warm=[(0, [1])])
    with pytest.raises(InputError, match="warm caches"):
        optimum_over_time(warm, 2)


# The effective width.


def width_by_definition(forest: Forest, capacity: int) -> int:
    deep = mask_of(v for v in range(len(forest)) if len(path_to(forest, v)) > capacity)
    most = 0
    for s in closed_sets(forest, capacity + 1):
        if s.bit_count() == capacity + 1 and not s & deep:
            inner = mask_of(forest[v] for v in range(len(forest)) if s >> v & 1 and forest[v] >= 0)
            most = max(most, (s & ~inner).bit_count())
    return max(1, most - 1)


@pytest.mark.parametrize("size", range(1, 7))
def test_width_by_definition(size: int) -> None:
    for forest in forests(size):
        tree = PrefixTree(forest, [1] * size)
        for capacity in range(1, size + 1):
            assert effective_width(tree, capacity) == width_by_definition(forest, capacity)


def test_width_of_stars_brooms_and_chains() -> None:
    assert effective_width(PrefixTree([-1] * 40, [1] * 40), 17) == 17
    for length in (1, 4, 9):
        broom = PrefixTree([-1, *[0] * 40], [length, *[1] * 40])
        assert effective_width(broom, 20) == 20 - (length + 1) + 1
    # 3 chains of 2 and of 3 units
    assert [effective_width(PrefixTree([-1] * 3, [2] * 3), b) for b in (2, 3, 4, 5)] == [2, 2, 2, 2]
    assert effective_width(PrefixTree([-1] * 3, [3] * 3), 6) == 2
    # everything fits, or nothing else does
    assert effective_width(PrefixTree([-1] * 3, [2] * 3), 6) == 1
    assert effective_width(PrefixTree([-1], [9]), 4) == 1
    assert effective_width(PrefixTree([], []), 4) == 1
    with pytest.raises(InputError, match="capacity = 0"):
        effective_width(PrefixTree([-1], [1]), 0)


def test_width_of_edges_is_that_of_their_units() -> None:
    for seed in range(6):
        instance = middle_sized(seed)
        for capacity in (5, 14, 40, 90):
            units_alone = effective_width(instance.uncompressed().tree, capacity)
            assert effective_width(instance.tree, capacity) == units_alone
