"""The slow twins against answers worked by hand, exhaustive search and published counts."""

import gzip
import json
import random
import zlib
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.testing import (
    DETERMINISTIC,
    RANDOM,
    TWINS,
    Record,
    Twin,
    Unit,
    distinct_units,
    expected_hits,
    law,
    optimum_by_search,
    path_of,
    true_next_uses,
)
from kvtheory.testing.strategies import cases, instances, sequences
from kvtheory.testing.twins_deterministic import Admission
from kvtheory.testing.twins_random import TokenPhases

PHASES = ["token", "query", "published"]
CYCLIC = [[1], [2], [3], [4]] * 4
VARIANTS = [
    *((name, {}) for name in sorted(DETERMINISTIC)),
    *((name, {}) for name in sorted(RANDOM)),
    ("belady", {"admission": "bypass"}),
    ("node_lru", {"stamp_before_split": False}),
    ("rlt", {"phase": "query"}),
    ("rlt", {"phase": "published"}),
    ("tail_lru", {"xi": 2}),
]
IDS = ["-".join([name, *map(str, parameters.values())]) for name, parameters in VARIANTS]


def run(
    name: str, capacity: int, queries: Sequence[Sequence[int]], **parameters: object
) -> list[int]:
    return TWINS[name](capacity, **parameters).run(queries)


def make(name: str, capacity: int, queries: list[list[int]], **parameters: object) -> Twin:
    if name in RANDOM:
        parameters["choose"] = random.Random(0).randrange
    if name == "marking":
        parameters["predictions"] = true_next_uses(queries)
    if name == "belady":
        parameters["sequences"] = queries
    return TWINS[name](capacity, **parameters)


def flat(text: str) -> list[list[int]]:
    return [[int(token)] for token in text]


# Classic paging first: on single units every rule can be followed by eye.


@pytest.mark.parametrize(
    ("name", "queries", "hits"),
    [
        ("llru", "121312", "001010"),
        ("fifo", "121312", "001000"),
        ("mru", "121312", "001001"),
        ("llru", "11231", "01000"),
        ("lfu", "11231", "01001"),
        ("slru", "11231", "01001"),
        ("lfu", "1112231", "0110101"),
        ("slru", "1112231", "0110100"),
        # Counts are lost on eviction: 1 comes back with a count of 1 and goes again.
        ("lfu", "112223131", "010110000"),
        ("belady", "1231213", "0001010"),
    ],
)
def test_by_hand_on_single_units_with_room_for_two(name: str, queries: str, hits: str) -> None:
    assert run(name, 2, flat(queries)) == [int(h) for h in hits]


def test_fifo_keeps_its_records_per_unit() -> None:
    # Units 1, 2 below 1, 3, 4. Keeping the load time per edge would give 2 hits.
    assert run("fifo", 3, [[1, 2], [3], [4], [1, 2], [3], [4]]) == [0, 0, 0, 1, 0, 0]


def test_hits_are_refreshed_before_anything_is_evicted() -> None:
    # Serving [1, 3] must not count 1 as old while room is made for 3.
    assert run("llru", 3, [[1, 2], [4], [1, 3], [4]]) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("capacity", "queries", "hits"),
    [
        # 3 alone scores 1, the branch 1-2 scores 1/2 although it is newer.
        (3, [[3], [1, 2], [4], [3]], [0, 0, 0, 1]),
        # 2 and 3 below 1: the branching unit is not counted, so all score 1 and 5 is the oldest.
        (4, [[5], [1, 2], [1, 3], [6], [5]], [0, 0, 1, 0, 0]),
        # While room is made for 3 it is not there yet: 1-2 is one branch and scores 1/2.
        (3, [[5], [1, 2], [1, 3], [5]], [0, 0, 1, 1]),
        # The hits of [1, 2] count before 4 is loaded: 2 scores 2/2, a tie, and 3 is older.
        (3, [[3], [1, 2], [1, 2, 4], [3]], [0, 0, 2, 0]),
    ],
)
def test_cost_per_unit_by_hand(capacity: int, queries: list[list[int]], hits: list[int]) -> None:
    assert run("cost_per_unit", capacity, queries) == hits


def test_cost_per_unit_goes_on_with_a_branch_that_shrinks() -> None:
    # Two units go: the first from the branch at 1/4, which then scores 1/3 against 2/7.
    long, short = [2, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0]
    queries = [long, long, short, [3, 0], short[:3]]
    assert run("cost_per_unit", 11, queries)[-1] == 2


def test_cost_per_unit_hits_more_queries_and_fewer_units_than_llru() -> None:
    rng = random.Random(0)
    queries = [
        [rng.randrange(60)] if rng.random() < 0.6 else [60 + rng.randrange(12)] + [0] * 37
        for _ in range(800)
    ]
    full, units = {}, {}
    for name in ("llru", "cost_per_unit"):
        hits = run(name, 125, queries)
        full[name] = sum(h == len(q) for h, q in zip(hits, queries, strict=True))
        units[name] = sum(hits)
    assert full["cost_per_unit"] > 2 * full["llru"]
    assert units["cost_per_unit"] < units["llru"]


@pytest.mark.parametrize(("xi", "hits"), [(0, 2), (1, 3)])
def test_tail_lru_frees_what_a_long_query_would_hardly_miss(xi: int, hits: int) -> None:
    # At [11] the leaf 7, two above the end of a query of 4, is the oldest but not free.
    queries = [[4, 6, 7, 8], [9], [10], [11], [4, 6, 7]]
    assert run("tail_lru", 5, queries, xi=xi)[-1] == hits


@pytest.mark.parametrize(
    ("capacity", "queries", "hits"),
    [
        # A shorter query through 7 does not make it free again.
        (5, [[4, 6, 7, 8], [9], [10], [4, 6, 7], [9], [10], [11], [4, 6, 7]], 3),
        # Nor does the eviction of 2, through which a query of 3 was seen.
        (3, [[1, 2, 3], [7, 8, 9], [1, 2], [5], [1, 2]], 2),
    ],
)
def test_tail_lru_remembers_the_longest_query(
    capacity: int, queries: list[list[int]], hits: int
) -> None:
    assert run("tail_lru", capacity, queries, xi=1)[-1] == hits


@given(cases(max_units=7, max_requests=10))
def test_tail_lru_with_nothing_free_is_llru(case: tuple[list[list[int]], int]) -> None:
    queries, capacity = case
    assert run("tail_lru", capacity, queries, xi=0) == run("llru", capacity, queries)


def test_node_lru_overshoots() -> None:
    queries = [[1, 2, 3, 4], [5], [6], [1, 2, 3, 4]]
    twin = make("node_lru", 5, queries)
    assert [twin.serve(q) for q in queries[:3]] == [0, 0, 0]
    assert twin.cached == {(5,), (6,)}
    assert twin.serve(queries[3]) == 0
    assert run("llru", 5, queries) == [0, 0, 0, 3]


def test_node_lru_splits_where_a_query_ends_or_leaves_a_node() -> None:
    twin = make("node_lru", 6, [])
    assert [twin.serve(q) for q in ([1, 2, 3], [1, 2, 4], [1], [5, 6])] == [0, 2, 1, 0]
    # 3 is the oldest leaf node, then 4, then 2, which is a leaf node by then.
    assert twin.serve([7, 8]) == 0
    assert twin.cached == {*path_of([1, 2, 4]), *path_of([5, 6])} - {(1, 2, 4)} | {*path_of([7, 8])}


@pytest.mark.parametrize(("stamp_before_split", "hits"), [(True, 0), (False, 1)])
def test_node_lru_stamps_the_part_that_it_splits_off(stamp_before_split: bool, hits: int) -> None:
    queries = [[1, 2, 3], [9], [1, 2], [8], [9]]
    assert run("node_lru", 4, queries, stamp_before_split=stamp_before_split)[-1] == hits


# The offline optimum.


def test_forced_and_bypass_admission_differ() -> None:
    assert sum(run("belady", 3, CYCLIC)) == 8
    assert sum(run("belady", 3, CYCLIC, admission="bypass")) == 9
    assert 16 - optimum_by_search(CYCLIC, 3) == 8
    assert 16 - optimum_by_search(CYCLIC, 3, "bypass") == 9


def test_the_optimum_keeps_part_of_an_edge() -> None:
    a, b = [3, 4], [0, 1, 2]
    queries = [a, a, a, a, b, a, b, a, b, a]
    assert sum(run("belady", 3, queries)) == 8
    assert sum(map(len, queries)) - optimum_by_search(queries, 3) == 8


@pytest.mark.parametrize("admission", ["forced", "bypass"])
@settings(max_examples=60)
@given(case=cases(max_units=6, max_requests=8))
def test_belady_is_the_optimum(case: tuple[list[list[int]], int], admission: Admission) -> None:
    queries, capacity = case
    misses = sum(map(len, queries)) - sum(run("belady", capacity, queries, admission=admission))
    assert misses == optimum_by_search(queries, capacity, admission)


@pytest.mark.parametrize("admission", ["forced", "bypass"])
@settings(max_examples=40)
@given(case=cases(max_units=6, max_requests=7, oversize=True))
def test_belady_is_the_optimum_of_truncated_queries(
    case: tuple[list[list[int]], int], admission: Admission
) -> None:
    queries, capacity = case
    hits = run("belady", capacity, queries, admission=admission, oversize="truncate")
    misses = sum(map(len, queries)) - sum(hits)
    assert misses == optimum_by_search(queries, capacity, admission, "truncate")


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
@settings(max_examples=15)
@given(case=cases(max_units=6, max_requests=8))
def test_no_policy_beats_the_optimum(
    case: tuple[list[list[int]], int], name: str, parameters: dict[str, object]
) -> None:
    queries, capacity = case
    hits = make(name, capacity, queries, **parameters).run(queries)
    misses = sum(map(len, queries)) - sum(hits)
    assert misses >= optimum_by_search(queries, capacity, "bypass")


# What every twin keeps.


@pytest.mark.parametrize("oversize", ["truncate", "skip"])
@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
@settings(max_examples=20)
@given(case=cases(max_units=9, max_requests=14, oversize=True))
def test_invariants(
    case: tuple[list[list[int]], int], name: str, parameters: dict[str, object], oversize: str
) -> None:
    queries, capacity = case
    twin = make(name, capacity, queries, oversize=oversize, **parameters)
    for query in queries:
        before = twin.cached
        hits = twin.serve(query)
        after = twin.cached
        path = path_of(query)
        fits = len(query) <= capacity
        assert hits == sum(unit in before for unit in path)
        assert path[:hits] == [unit for unit in path if unit in before]
        assert len(after) <= capacity
        assert all(unit[:-1] in after for unit in after if len(unit) > 1)
        assert after <= before | set(path[:capacity])
        if not fits and oversize == "skip":
            assert after == before
        elif parameters.get("admission") != "bypass":
            assert after >= set(path[:capacity])
        if name != "node_lru" and (fits or oversize == "truncate"):
            assert len(after) == min(capacity, len(before | set(path[:capacity])))


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
@settings(max_examples=15)
@given(case=cases(max_units=8, max_requests=10, oversize=True))
def test_truncation_cuts_the_tree(
    case: tuple[list[list[int]], int], name: str, parameters: dict[str, object]
) -> None:
    queries, capacity = case
    cut = [query[:capacity] for query in queries]
    whole = make(name, capacity, queries, oversize="truncate", **parameters).run(queries)
    assert whole == make(name, capacity, cut, **parameters).run(cut)


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
def test_a_query_that_does_not_fit_is_named(name: str, parameters: dict[str, object]) -> None:
    queries = [[1], [1, 2, 3, 4]]
    with pytest.raises(InputError, match=r"sequences\[1\] = '4 units'.* capacity, 3 units"):
        make(name, 3, queries, **parameters).run(queries)


def test_bad_arguments_are_named() -> None:
    for make_it, message in [
        (lambda: TWINS["llru"](0), "capacity = 0"),
        (lambda: TWINS["llru"](1, oversize="cut"), "unknown oversize 'cut'"),
        (lambda: TWINS["belady"](1, admission="free"), "unknown admission 'free'"),
        (lambda: TWINS["tail_lru"](1, xi=-1), "xi = -1"),
        (lambda: TWINS["rlt"](1, choose=min, phase="unit"), "unknown phase 'unit'"),
        (lambda: run("marking", 1, [[1]], choose=min, predictions=[]), "predictions = 0"),
        (lambda: optimum_by_search([[1, 2]], 1), r"sequences\[0\] = '2 units'"),
    ]:
        with pytest.raises(InputError, match=message):
            make_it()


# The randomised rules, by their exact laws.


def harmonic(n: int) -> Fraction:
    return sum((Fraction(1, i) for i in range(1, n + 1)), Fraction(0))


def misses_of(
    name: str, queries: list[list[int]], capacity: int, last: int, **parameters: object
) -> Fraction:
    """The expected misses of the last ``last`` queries."""
    hits = expected_hits(partial(TWINS[name], **parameters), queries, capacity)
    return sum(map(len, queries[-last:])) - sum(hits[-last:], Fraction(0))


@pytest.mark.parametrize("phase", ["token", "query"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_rlt_on_a_star_misses_harmonic_numbers(k: int, phase: str) -> None:
    # Filling the cache, then one phase of k distinct units, the first of them new.
    queries = [[u] for u in range(k)] + [[k]] + [[u] for u in range(k - 1)]
    assert misses_of("rlt", queries, k, last=k, phase=phase) == harmonic(k)


@pytest.mark.parametrize(("capacity", "shared"), [(3, 1), (4, 1), (4, 2), (5, 2)])
def test_rlt_on_a_broom_misses_harmonic_numbers(capacity: int, shared: int) -> None:
    # A path of `shared` units and one leaf more than fits below it.
    k = capacity - shared
    queries = [[0] * shared + [u] for u in [*range(k), k, *range(k - 1)]]
    assert misses_of("rlt", queries, capacity, last=k) == harmonic(k)


def test_rlt_runs_where_the_literal_rule_stalls() -> None:
    class Literal(TokenPhases):
        """A new phase keeps only the most recent token, not the path above it."""

        def begin_phase(self, above: list[Unit]) -> None:
            self.marked = set()

        def victim_for(self, v: Unit) -> Record:
            above = path_of(v)
            return self.draw([r for r in self.unmarked_leaves() if r.unit not in above])

    queries = [[2], [1, 3], [2]]
    assert law(TWINS["rlt"], queries, 2) == {(0, 0, 0): 1}
    with pytest.raises(RuntimeError, match="query 2 stalls"):
        law(Literal, queries, 2)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 4).map(lambda u: [u]), max_size=8), st.integers(1, 3))
def test_token_and_query_phases_are_one_on_single_units(
    queries: list[list[int]], capacity: int
) -> None:
    token, query = (law(partial(TWINS["rlt"], phase=p), queries, capacity) for p in PHASES[:2])
    assert token == query


@pytest.mark.parametrize(
    ("phase", "expected"),
    # As published, the miss on 1 clears the mark of 3, which then goes half of the time.
    [("token", Fraction(1)), ("query", Fraction(1)), ("published", Fraction(3, 4))],
)
def test_the_published_phase_ends_early(phase: str, expected: Fraction) -> None:
    hits = expected_hits(partial(TWINS["rlt"], phase=phase), flat("12313"), 2)
    assert hits == [0, 0, 0, Fraction(1, 2), expected]


def test_the_published_phase_ends_if_too_few_can_go() -> None:
    # At the fourth query only 6 is off the path and it is marked, with 1 or without.
    queries = [[1], [2, 3, 4], [6], [2, 3, 4, 7], [6]]
    assert law(partial(TWINS["rlt"], phase="published"), queries, 4) == {
        (0, 0, 0, 2, 0): Fraction(1, 2),
        (0, 0, 0, 3, 0): Fraction(1, 2),
    }


def test_query_phases_differ_from_token_phases_on_trees() -> None:
    # At [1, 2] the marks of 3 and 5 go by queries at once, by tokens only at 2, where 3 is inner.
    queries = [[1], [4], [3, 5], [1, 2], [3]]
    token, query = (expected_hits(partial(TWINS["rlt"], phase=p), queries, 3) for p in PHASES[:2])
    assert token == [0, 0, 0, Fraction(1, 2), 1]
    assert query == [0, 0, 0, Fraction(1, 2), Fraction(7, 8)]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [(name, parameters) for name, parameters in VARIANTS if name in RANDOM],
    ids=[i for i, (name, _) in zip(IDS, VARIANTS, strict=True) if name in RANDOM],
)
@settings(max_examples=15)
@given(case=cases(max_units=5, max_requests=6))
def test_laws_sum_to_one_and_contain_every_run(
    case: tuple[list[list[int]], int], name: str, parameters: dict[str, object]
) -> None:
    queries, capacity = case
    if name == "marking":
        parameters = parameters | {"predictions": true_next_uses(queries)}
    exact = law(partial(TWINS[name], **parameters), queries, capacity)
    assert sum(exact.values()) == 1
    hits = make(name, capacity, queries, **parameters).run(queries)
    assert exact[tuple(hits)] > 0


def test_random_leaf_by_hand() -> None:
    # Leaf units are 2 and 3; if 3 goes then 2 or the new 4, so 1 stays until 2 has gone.
    assert law(TWINS["random_leaf"], [[1, 2], [3], [4], [1, 2]], 3) == {
        (0, 0, 0, 1): Fraction(1, 2),
        (0, 0, 0, 2): Fraction(1, 2),
    }


@pytest.mark.parametrize(
    ("capacity", "queries", "expected"),
    [
        # H_3 < 2: 4 takes 1 by prediction; the second eviction of its chain is uniform.
        (3, "123412", [0, 0, 0, 0, 0, Fraction(1, 2)]),
        # H_4 > 2: the second is by prediction too, the third is uniform among 3 and 4.
        (4, "12345123", [0, 0, 0, 0, 0, 0, 0, Fraction(1, 2)]),
    ],
)
def test_marking_leaves_the_predictions_after_a_harmonic_number(
    capacity: int, queries: str, expected: list[Fraction]
) -> None:
    units = flat(queries)
    wrong = [[100.0 - unit] for (unit,) in units]
    assert expected_hits(partial(TWINS["marking"], predictions=wrong), units, capacity) == expected


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3).map(lambda u: [u]), max_size=12))
def test_marking_with_perfect_predictions_is_twice_the_optimum_at_worst(
    queries: list[list[int]],
) -> None:
    # Lykouris and Vassilvitskii: no predicted leaf comes back in its phase on k + 1 units.
    predictions = true_next_uses(queries)
    hits = run("marking", 3, queries, choose=lambda n: 0, predictions=predictions)
    assert len(queries) - sum(hits) <= 2 * optimum_by_search(queries, 3)


def test_true_next_uses() -> None:
    inf = float("inf")
    assert true_next_uses([[1, 2], [], [1], [1, 2]]) == [[2, 3], [], [3], [inf, inf]]


# The strategies.


@given(sequences(max_units=7, max_requests=9, alphabet=3, max_depth=3, min_requests=2))
def test_sequences_keep_their_bounds(queries: list[list[int]]) -> None:
    assert 2 <= len(queries) <= 9
    assert len(distinct_units(queries)) <= 7
    assert all(len(query) <= 3 and set(query) <= {0, 1, 2} for query in queries)


@settings(max_examples=20)
@given(instances(max_units=7))
def test_instances_have_the_units_of_their_sequences(instance: Instance) -> None:
    queries = instance.sequences()
    assert len(distinct_units(queries)) == instance.tree.units
    assert sum(map(len, queries)) == instance.units_requested


# Counts of independent programs.


def grouped_prefixes(seed: int, block: int) -> list[list[int]]:
    """128 groups of 32 prompts, half of each shared in its group, in random order."""
    prompts = []
    for group in range(128):
        length = (512, 1024, 2048, 4096, 8192)[group % 5] // block
        half = length // 2
        for prompt in range(32):
            prompts.append([group] + [0] * (half - 1) + [1 + prompt] + [0] * (length - half - 1))
    return [prompts[i] for i in np.random.default_rng(seed).permutation(4096)]


@pytest.mark.parametrize(
    ("seed", "tokens"),
    [
        (0, 2_639_360),
        pytest.param(1, 2_709_248, marks=pytest.mark.slow),
        pytest.param(2, 2_645_248, marks=pytest.mark.slow),
    ],
)
def test_llru_on_grouped_prefixes(seed: int, tokens: int) -> None:
    # Every length is a multiple of 256 and so is the capacity: the block changes nothing.
    assert 256 * sum(run("llru", 192_000 // 256, grouped_prefixes(seed, 256))) == tokens


def test_node_lru_on_grouped_prefixes() -> None:
    queries = grouped_prefixes(0, 64)
    hits = run("node_lru", 192_000 // 64, queries)
    assert round(sum(hits) / sum(map(len, queries)), 3) == 0.192


def reference(traces: Path, group: str, name: str, capacity: int) -> tuple[Path, dict[str, int]]:
    trace = json.loads((traces / "reference.json").read_text())[group][name]
    (cell,) = [cell for cell in trace["cells"] if cell["capacity"] == capacity]
    return traces / trace["file"].removeprefix("files/"), cell


@pytest.mark.parametrize(
    ("name", "capacity"),
    [("oasst_en_100", 28), ("oasst_en_100", 136), ("mooncake_arxiv_first1000", 123)],
)
def test_real_block_traces(shared_traces: Path, name: str, capacity: int) -> None:
    path, cell = reference(shared_traces, "prefix_traces", name, capacity)
    with gzip.open(path, "rt") as file:
        queries = [json.loads(line)["hash_ids"] for line in file]
    hits = run("llru", capacity, queries, oversize="truncate")
    assert sum(hits) == cell["leaf_lru_hits"]
    assert sum(map(len, queries)) - sum(hits) == cell["leaf_lru_misses"]
    assert zlib.crc32(",".join(map(str, hits)).encode()) == cell["leaf_lru_per_request_crc32"]
    for admission in ("forced", "bypass"):
        best = run("belady", capacity, queries, oversize="truncate", admission=admission)
        assert sum(best) == cell[f"belady_{admission}_hits"]


def test_real_paging_trace(shared_traces: Path) -> None:
    path, cell = reference(shared_traces, "flat_traces", "multi1", 131)
    with gzip.open(path, "rt") as file:
        queries = [[int(line)] for line in file if line.strip() not in ("", "*")]
    for name, key in [("llru", "lru_hits"), ("fifo", "fifo_hits"), ("belady", "belady_hits")]:
        assert sum(run(name, 131, queries)) == cell[key]
