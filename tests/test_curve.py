"""Curves over all capacities against single runs, single optima and literal stacks."""

from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtheory import traces
from kvtheory.cache import tape_of
from kvtheory.curve import HitCurve, leaf_lru_curve, leaf_lru_hits, optimum_curve, optimum_hits
from kvtheory.curve.concave import concave
from kvtheory.curve.points import curve, spread
from kvtheory.curve.stack_distance import distances
from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix, zipf
from kvtheory.offline import optimum, optimum_over_time
from kvtheory.oversize import Oversize
from kvtheory.simulate import simulate, simulate_capacities
from kvtheory.testing import TWINS, twin_stack
from kvtheory.testing.compiled import in_the_loop_over_queries, whole_arrays
from kvtheory.testing.small_cases import random_cases
from kvtheory.testing.strategies import instances, sequences

LLRU = policy("llru")
SKIPPED = [[1], [0, 2], [1]]


def every_capacity(curve: HitCurve, lanes: int = 32) -> list[int]:
    """All capacities of a curve and some above, as many for each curve: one compilation."""
    assert len(curve.hits) < lanes
    return list(range(curve.smallest, curve.smallest + lanes))


@settings(max_examples=30, deadline=None)
@given(sequences(max_units=12, max_requests=16))
def test_stacks_hold_the_caches_of_all_capacities(queries: list[list[int]]):
    """The literal stacks, against literal caches that know nothing of each other."""
    longest = max(1, *map(len, queries))
    lru, best = twin_stack.leaf_lru_hits(queries), twin_stack.optimum_hits(queries)
    for capacity in range(longest, len(lru) + 1):
        assert lru[capacity - 1] == TWINS["llru"](capacity).run(queries)
        least = optimum(Instance.from_tokens(queries), capacity).upper
        assert sum(best[capacity - 1]) == sum(map(len, queries)) - least


@settings(max_examples=30, deadline=None)
@given(sequences(max_units=12, max_requests=16))
def test_curves_are_the_beginnings_of_the_stacks(queries: list[list[int]]):
    instance = Instance.from_tokens(queries)
    lru, best = leaf_lru_curve(instance), optimum_curve(instance)
    assert lru.capacities.tolist() == best.capacities.tolist()
    assert lru.capacities[0] == max(1, *map(len, queries))
    assert lru.capacities[-1] == max(1, instance.tree.units)
    expected = np.array(twin_stack.leaf_lru_hits(queries)).reshape(-1, len(queries))
    expected = expected[lru.smallest - 1 :]
    if len(expected):
        assert (leaf_lru_hits(instance, lru.capacities.tolist()) == expected).all()
        assert (lru.hits == expected.sum(axis=1)).all()
        assert best.hits.tolist() == [
            sum(hits) for hits in twin_stack.optimum_hits(queries)[best.smallest - 1 :]
        ]
    else:
        assert lru.hits.tolist() == best.hits.tolist() == [0]


def test_single_runs_agree_at_every_capacity():
    for case in random_cases(12, 3, units=15):
        instance = case.instance
        lru, best = leaf_lru_curve(instance), optimum_curve(instance)
        capacities = every_capacity(lru)
        runs = simulate_capacities(instance, capacities, LLRU)
        assert (leaf_lru_hits(instance, capacities) == [run.hits[0] for run in runs]).all()
        assert lru.at(capacities).tolist() == [int(run.total_hits[0]) for run in runs]
        least = [optimum(instance, capacity).upper for capacity in capacities]
        assert best.misses_at(capacities).tolist() == least
        assert (optimum_hits(instance, capacities) == best.at(capacities)).all()
        assert lru.hit_rate[-1] == pytest.approx(float(runs[-1].hit_rate_units[0]))


def test_the_order_inside_a_query_matters():
    """A stack with the deeper unit in front, as if it had been used last, is not leaf LRU."""

    def wrong(queries: list[list[int]]) -> list[list[int]]:
        return twin_stack.hits(queries, lambda t, last: lambda unit: (-last[unit], -len(unit)))

    queries = [[1, 2], [3], [1]]
    assert wrong(queries)[1] != twin_stack.leaf_lru_hits(queries)[1]
    assert twin_stack.leaf_lru_hits(queries)[1] == TWINS["llru"](2).run(queries)


def test_below_the_longest_path_caches_are_not_nested():
    """A larger cache can hit less if queries are skipped, so there is no stack."""
    hits = [sum(TWINS["llru"](b, oversize="skip").run(SKIPPED)) for b in (1, 2)]
    assert hits == [1, 0]
    instance = Instance.from_tokens(SKIPPED)
    for refused in (
        lambda: leaf_lru_hits(instance, [3, 1]),
        lambda: optimum_hits(instance, [1]),
        lambda: leaf_lru_curve(instance).at([1, 2]),
        lambda: optimum_curve(instance).misses_at(1),
    ):
        with pytest.raises(InputError, match="capacities = 1: must be at least 2 units"):
            refused()


def test_warm_paths_and_output_units():
    rng = np.random.default_rng(5)
    for _ in range(4):
        queries = [rng.integers(0, 2, rng.integers(0, 4)).tolist() for _ in range(14)]
        ends = [q + rng.integers(0, 2, rng.integers(0, 3)).tolist() for q in queries]
        warm = [(0, rng.integers(0, 3, 3).tolist()) for _ in range(3)]
        instance = Instance.from_tokens(queries, ends=ends, warm=warm)
        lru = leaf_lru_curve(instance)
        capacities = every_capacity(lru)
        runs = simulate_capacities(instance, capacities, LLRU)
        assert lru.at(capacities).tolist() == [int(run.total_hits[0]) for run in runs]
        with pytest.raises(InputError, match="warm caches or end nodes"):
            optimum_curve(instance)


def test_units_below_a_cut_are_missed():
    instance = Instance.from_tokens([[1, 2, 3], [1, 2, 4], [5], [1, 2, 3]])
    cut = instance.truncate(2)
    assert leaf_lru_curve(cut).smallest == 2
    run = simulate(instance, 2, LLRU, oversize="truncate")
    assert leaf_lru_curve(cut).misses_at(2) == run.misses[0]
    assert optimum_curve(cut).misses_at(2) == optimum(instance, 2, oversize="truncate").upper


def test_sequences_without_units():
    for instance in (Instance.from_tokens([[], []]), Instance.from_tokens([])):
        for of in (leaf_lru_curve, optimum_curve):
            assert of(instance).hits.tolist() == [0]
            assert of(instance).hit_rate.tolist() == [0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=12))
def test_concave_functions_from_few_values(parts: list[tuple[int, int]]):
    slopes = sorted((slope for slope, times in parts for _ in range(times)), reverse=True)
    values = np.cumsum([-3, *slopes])
    asked: list[int] = []
    found = concave(lambda x: asked.append(x) or int(values[x - 7]), 7, 7 + len(slopes))  # type: ignore[func-returns-value]
    assert found.tolist() == values.tolist()
    assert len(asked) == len(set(asked)) <= 6 * len(set(slopes))


def test_optimum_has_few_corners():
    """The optimum is concave in the capacity, and few passes find its corners; leaf LRU is not."""
    instance = shared_prefix(groups=16, prompts=8, block_size=64)
    passes: list[int] = []
    best = optimum_curve(instance, progress=passes.append)
    assert (np.diff(best.hits, 2) <= 0).all()
    assert len(passes) < len(best.hits) / 10
    assert (np.diff(leaf_lru_curve(instance).hits, 2) > 0).any()
    some = best.capacities[:: len(best.hits) // 20].tolist()
    least = [int(optimum_over_time(instance, capacity)[-1]) for capacity in some]
    assert best.misses_at(some).tolist() == least


def test_no_step_of_the_pass_touches_a_whole_array():
    tape = jax.tree.map(lambda x: x[None], tape_of(zipf(documents=600, requests=900, levels=2)))
    lanes = jax.jit(lambda tape: jax.lax.map(distances, tape)).lower(tape).compile().as_text()
    least = min(tape.length.shape[1], tape.query_length.shape[1])
    assert any(op.size >= least for op in in_the_loop_over_queries(lanes))
    assert not whole_arrays(lanes, least)


def test_an_instance_of_similar_size_does_not_compile_again():
    leaf_lru_curve(zipf(documents=60, requests=40))
    before = distances._cache_size()
    leaf_lru_curve(zipf(documents=60, requests=41))
    assert distances._cache_size() == before


@pytest.mark.parametrize(
    ("oversize", "policies"),
    [
        ("truncate", ["llru"]),
        pytest.param("skip", ["llru", "rlt", "lfu"], marks=pytest.mark.slow),
    ],
)
def test_points_are_single_runs(oversize: Oversize, policies: list[str]):
    instance = shared_prefix(groups=6, prompts=4, lengths=(64, 128, 256), block_size=16)
    capacities = [9, 16, 40]  # the first below the longest path, 16 units
    told: list[str] = []
    points = curve(
        instance,
        policies,
        [16, "9", 40],
        optimum=True,
        seeds=3,
        oversize=oversize,
        finished=lambda some: told.append(some[0].policy),
    )
    assert told == [*policies, "optimum"]
    assert [p.capacity_units for p in points] == capacities * len(told)
    for point in points:
        assert point.hit_rate_low <= point.hit_rate_units <= point.hit_rate_high
        if point.policy == "optimum":
            best = optimum(instance, point.capacity_units, oversize=oversize)
            assert point.misses == best.upper
            assert (1 - point.hit_rate_high) * point.units == pytest.approx(best.lower)
            continue
        run = simulate(
            instance,
            point.capacity_units,
            policy(point.policy),
            seeds=point.seeds,
            oversize=oversize,
        )
        assert point.hits == pytest.approx(run.total_hits.mean())
        assert point.hit_rate_tokens == pytest.approx(run.hit_rate_tokens.mean())
        assert point.hit_rate_requests == pytest.approx(run.hit_rate_requests.mean())
    methods = [p.method for p in points if p.policy == "llru"]
    assert methods == ["lanes", "stack distances", "stack distances"]


def test_bad_points():
    instance = Instance.from_tokens([[1, 2], [3]])
    for match, wrong in {
        "name at least one, or ask": {"policies": []},
        "capacities = \\[\\]": {"capacities": []},
        "points = 0": {"capacities": 0},
        "seeds = 0": {"seeds": 0},
        "confidence = 2": {"confidence": 2},
        "query 0 has 2 units": {"capacities": [1]},
    }.items():
        with pytest.raises(InputError, match=match):
            curve(instance, **wrong)
    with pytest.raises(InputError, match="asks for no units"):
        curve(Instance.from_tokens([[]]))
    assert spread(instance, 1) == [2]


@given(instances(max_units=12, max_requests=8), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_spread_goes_from_the_longest_path_to_all_units(instance: Instance, points: int):
    units = spread(instance, points)
    assert units == sorted(set(units))
    assert len(units) <= points
    assert units[0] == max(1, int(instance.query_length.max()))
    assert points == 1 or units[-1] == max(1, instance.tree.units)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_real_traces(shared_traces: Path, name: str):
    instance = traces.read(shared_traces / "mooncake" / f"{name}_trace.jsonl.gz")
    capacities = spread(instance, 64)
    lru, best = leaf_lru_curve(instance), optimum_curve(instance)
    runs = simulate_capacities(instance, capacities, LLRU)
    assert lru.at(capacities).tolist() == [int(run.total_hits[0]) for run in runs]
    assert (leaf_lru_hits(instance, capacities) == [run.hits[0] for run in runs]).all()
    rng = np.random.default_rng(0)
    corners = best.capacities[1:-1][np.diff(best.hits, 2) != 0]
    some = [*capacities[::8], *rng.choice(corners, 8).tolist()]
    least = [optimum(instance, capacity).upper for capacity in some]
    assert best.misses_at(some).tolist() == least
    assert (best.hits >= lru.hits).all()
