"""One cache whose units differ in value or size, against exhaustive search."""

import dataclasses

import numpy as np
import pytest

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.offline import Schedule, ScheduleError, belady, replay
from kvtheory.offline import solver as solvers
from kvtheory.offline.objective import service
from kvtheory.offline.weighted import depth_values, solve_weighted
from kvtheory.offline.weighted_program import WeightedCertificate, saved_bound, weighted_pairs
from kvtheory.offline.weighted_replay import replay_weighted
from kvtheory.offline.weighted_routing import best_weighted_for_routing
from kvtheory.testing.exhaustive_joint import joint_by_search, saved_by_search

ADMISSIONS = ("forced", "bypass")


def paths_of(instance):
    """The tokens down to each unit: how the slow search names it."""
    tree = instance.uncompressed().tree
    return [tuple(tree.ids_of(unit).tolist()) for unit in range(tree.edges)]


def random_problem(seed):
    """Values, sizes or costs that grow with depth, in turn."""
    rng = np.random.default_rng([9, seed])
    n = int(rng.integers(2, 8))
    pool = [tuple(rng.integers(0, 2, rng.integers(1, 5)).tolist()) for _ in range(4)]
    sequences = [pool[i] for i in rng.integers(0, 4, n)]
    instance = Instance.from_tokens([list(s) for s in sequences])
    names = paths_of(instance)
    if seed % 3 == 2:
        value = depth_values(instance, Cluster(9, alpha_depth=1.0))
    else:
        value = rng.choice([0, 1, 2, 5, 8], len(names)).astype(float)
    size = rng.integers(1, 4, len(names)) if seed % 3 == 1 else None
    given = dict(zip(names, np.ones(len(names), int) if size is None else size, strict=True))
    longest = max(sum(given[s[:d]] for d in range(1, len(s) + 1)) for s in sequences)
    capacity = int(longest + rng.integers(0, 4))
    return sequences, instance, capacity, value, size


def check_against_search(seed, admission, leaf_rule):
    sequences, instance, capacity, value, size = random_problem(seed)
    names = paths_of(instance)
    best = saved_by_search(
        sequences,
        capacity,
        dict(zip(names, value.tolist(), strict=True)),
        admission,
        size=None if size is None else dict(zip(names, size.tolist(), strict=True)),
        leaf_rule=leaf_rule,
    )
    found = solve_weighted(
        instance, capacity, admission, unit_value=value, unit_size=size, leaf_rule=leaf_rule
    )
    assert found.ending.status == "optimal"
    assert found.exact
    assert found.lower == pytest.approx(best)
    assert found.upper == pytest.approx(best, rel=1e-5)
    units = instance.uncompressed()
    if size is None and leaf_rule:
        assert replay(found.schedule, units, capacity).tolist() == found.hits.tolist()
    sizes = np.ones(len(value), np.int64) if size is None else size
    pairs = weighted_pairs(units, capacity, admission, value, sizes, leaf_rule)
    rng = np.random.default_rng(seed)
    prices = WeightedCertificate(
        rng.exponential(2, len(sequences)) * (rng.random(len(sequences)) < 0.5),
        rng.exponential(2, len(pairs.below)) * (rng.random(len(pairs.below)) < 0.5),
    )
    assert saved_bound(prices, pairs) >= best - 1e-9
    assert saved_bound(found.certificate, pairs) >= best - 1e-9


@pytest.mark.parametrize("admission", ADMISSIONS)
@pytest.mark.parametrize("leaf_rule", [True, False])
def test_the_program_saves_what_search_saves(admission, leaf_rule):
    for seed in range(45):
        check_against_search(seed, admission, leaf_rule)


@pytest.mark.slow
@pytest.mark.parametrize("admission", ADMISSIONS)
@pytest.mark.parametrize("leaf_rule", [True, False])
def test_the_program_saves_what_search_saves_everywhere(admission, leaf_rule):
    for seed in range(1000, 1300):
        check_against_search(seed, admission, leaf_rule)


# -- known answers ------------------------------------------------------------------------------


def test_the_leaf_rule_is_not_free():
    sequences = [[1, 3], [6], [6, 7], [1], [1, 3]]
    instance = Instance.from_tokens(sequences)
    worth = {(1,): 1.0, (1, 3): 8.0, (6,): 8.0, (6, 7): 8.0}
    value = np.array([worth[name] for name in paths_of(instance)])
    answers = {("bypass", True): 10, ("bypass", False): 17, ("forced", True): 9}
    answers["forced", False] = 9
    for (admission, leaf_rule), answer in answers.items():
        found = solve_weighted(instance, 2, admission, unit_value=value, leaf_rule=leaf_rule)
        assert (found.lower, found.exact) == (answer, True)
        searched = saved_by_search(sequences, 2, worth, admission, leaf_rule=leaf_rule)
        assert searched == answer


def test_belady_is_not_optimal_when_costs_grow_with_depth():
    sequences = [[0], [0], [1, 0], [1, 1, 0, 1], [0], [0], [1, 0]]
    instance = Instance.from_tokens(sequences)
    value = depth_values(instance, Cluster(5, alpha_miss=1.0, alpha_depth=1.0))
    best = solve_weighted(instance, 5, unit_value=value)
    assert best.lower == 11
    _, hits = belady(instance, 5)
    saved = np.concatenate([[0], np.cumsum(np.arange(2, 7))])  # by the first h units of a path
    assert saved[hits].sum() == 10
    assert best.hits.sum() <= hits.sum()


def test_the_linear_program_can_be_fractional():
    """Two units of value 2 + 3 + 4 compete for one place, as halves of both: 7.5 against 7."""
    instance = Instance.from_tokens([[0, 0, 1], [0, 1, 0], [0, 0, 1]])
    value = depth_values(instance, Cluster(4, alpha_depth=1.0))
    best = solve_weighted(instance, 4, unit_value=value)
    assert best.method == "mip"
    assert best.lower == 7
    assert best.exact
    pairs = weighted_pairs(
        instance.uncompressed(), 4, "forced", value, np.ones(len(value), np.int64), True
    )
    assert saved_bound(best.certificate, pairs) == pytest.approx(7.5)


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_equal_values_are_belady(admission):
    for seed in range(12):
        rng = np.random.default_rng([4, seed])
        pool = [rng.integers(0, 3, rng.integers(1, 6)).tolist() for _ in range(8)]
        instance = Instance.from_tokens([pool[i] for i in rng.integers(0, 8, 20)])
        capacity = 5 + int(rng.integers(0, 6))
        hits = belady(instance, capacity, admission)[1].sum()
        ones = np.ones(instance.tree.units)
        best = solve_weighted(instance, capacity, admission, unit_value=ones)
        assert best.lower == best.hits.sum() == hits
        assert best.exact


def test_a_knapsack():
    """Units of one query each between two uses: which of them fit is a knapsack."""
    rng = np.random.default_rng(1)
    size = rng.integers(2, 12, 8)
    value = rng.integers(3, 30, 8).astype(float)
    instance = Instance.from_tokens([[k] for k in range(8)] + [[99]] + [[k] for k in range(8)])
    capacity = 20
    gap = capacity - 12  # what the query in the middle leaves
    best = max(
        sum(v for k, v in enumerate(value) if mask >> k & 1)
        for mask in range(1 << 8)
        if sum(s for k, s in enumerate(size) if mask >> k & 1) <= gap
    )
    found = solve_weighted(
        instance,
        capacity,
        unit_value=np.append(value, 0.0),
        unit_size=np.append(size, 12),
    )
    assert found.exact
    assert 0 < found.lower <= best


# -- a routing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_the_best_evictions_of_a_routing(admission):
    for seed in range(20):
        rng = np.random.default_rng([6, seed])
        pool = [tuple(rng.integers(0, 2, rng.integers(0, 4)).tolist()) for _ in range(4)]
        sequences = [pool[i] for i in rng.integers(0, 4, 6)]
        instance = Instance.from_tokens([list(s) for s in sequences])
        cluster = Cluster([4, 3], alpha_depth=[0.5, 0.25], speed=[1, 2], overhead=0.5)
        routing = rng.integers(0, 2, 6)
        found = best_weighted_for_routing(instance, cluster, routing, admission)
        assert found.exact
        seconds = service(instance, cluster, routing, found.hits).sum()
        best = joint_by_search(
            sequences, cluster, "cost", admission, routings=[tuple(routing.tolist())]
        )
        assert seconds == pytest.approx(best)
        assert found.schedule.worker.tolist() == routing.tolist()


# -- limits and errors --------------------------------------------------------------------------

HARD = Instance.from_tokens(
    [np.random.default_rng(k).integers(0, 3, 6).tolist() for k in np.arange(24) % 9]
)


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_a_time_limit_gives_an_interval(solver):
    value = depth_values(HARD, Cluster(20, alpha_depth=1.0))
    best = solve_weighted(HARD, 20, unit_value=value)
    found = solve_weighted(HARD, 20, unit_value=value, solver=solver, time_limit=1e-5)
    assert found.ending.status == "time limit"
    assert found.lower <= best.lower
    assert found.upper >= best.lower - 1e-6
    again = solve_weighted(HARD, 20, unit_value=value, solver=solver)
    assert again.lower == pytest.approx(best.lower)


def test_a_failing_solver_gives_an_interval(monkeypatch):
    failing = solvers.Ending("failed: no luck", False)
    monkeypatch.setattr(solvers, "solve", lambda *_, **__: failing)
    value = np.ones(HARD.tree.units)
    found = solve_weighted(HARD, 20, unit_value=value)
    assert found.ending == failing
    hits = belady(HARD, 20)[1].sum()
    assert 0 <= found.lower <= hits <= found.upper


def test_progress_and_nothing_to_do(capfd):
    told = []
    value = depth_values(HARD, Cluster(20, alpha_depth=1.0))
    found = solve_weighted(HARD, 20, unit_value=value, progress=lambda *line: told.append(line))
    assert told[0][1] <= found.lower <= found.upper <= told[0][2] + 1e-6
    once = Instance.from_tokens([[1, 2], [3]])
    nothing = solve_weighted(once, 2, unit_value=np.ones(3))
    assert (nothing.lower, nothing.upper, nothing.method) == (0, 0, "lp")
    assert solve_weighted(Instance.from_tokens([]), 2, unit_value=np.zeros(0)).upper == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit_value": np.ones(2)}, r"unit_value.*need one for each of 3 units"),
        ({"unit_value": -np.ones(3)}, "unit_value.*not negative"),
        ({"unit_value": np.full(3, np.nan)}, "unit_value.*finite"),
        ({"unit_size": np.zeros(3, int)}, "unit_size.*at least 1"),
        ({"unit_size": np.ones(3)}, "unit_size.*integers"),
        ({"unit_size": np.array([1, 3, 1])}, r"query 1 has a path of size 4 and the cache only 3"),
        ({"solver": "CLARABEL"}, "solver.*integer programs"),
        ({"solver_options": {"no_such_option": 1}}, "solver_options.*no_such_option"),
        ({"time_limit": 0}, "time_limit = 0"),
    ],
)
def test_bad_input(change, message):
    instance = Instance.from_tokens([[1], [1, 2], [3], [1, 2]])
    with pytest.raises(InputError, match=message):
        solve_weighted(instance, 3, **{"unit_value": np.ones(3), **change})


def test_schedules_that_cannot_be_carried_out():
    instance = Instance.from_tokens([[1, 2], [3], [1, 2]]).uncompressed()
    value = np.ones(3)

    def schedule(admission, steps, kept=0):
        start = np.cumsum([0, *map(len, steps)])
        edges = np.array([e for step in steps for e in step], int)
        return Schedule(admission, np.zeros(3, int), start, edges, np.full(len(edges), kept))

    def run(*args, capacity=2, sizes=None, leaf_rule=True):
        return replay_weighted(
            schedule(*args),
            instance,
            capacity,
            unit_value=value,
            unit_size=sizes,
            leaf_rule=leaf_rule,
        )

    saved, hits = run("forced", [[], [1], [2]])
    assert (saved, hits.tolist()) == (1, [0, 0, 1])
    assert run("forced", [[], [], []], capacity=3)[0] == 2
    with pytest.raises(ScheduleError, match="step 1: size 3 is cached, but the cache holds 2"):
        run("forced", [[], [], []])
    with pytest.raises(ScheduleError, match="step 1: unit 1 stays, but 0 above it goes"):
        run("forced", [[], [0], [2]])
    assert run("forced", [[], [0], [2]], leaf_rule=False)[0] == 1
    with pytest.raises(ScheduleError, match="step 1: unit 2 goes, but is not cached"):
        run("forced", [[], [2], []])
    with pytest.raises(ScheduleError, match="step 2: unit 1 goes, but is on the path"):
        run("forced", [[], [], [1]], capacity=3)
    with pytest.raises(ScheduleError, match="step 1: a unit is kept or goes"):
        run("forced", [[], [1], []], 1)
    with pytest.raises(ScheduleError, match="step 0: size 4 is cached"):
        run("forced", [[], [1], [2]], sizes=np.array([2, 2, 2]), capacity=3)
    assert run("bypass", [[], [2], []])[0] == 2
    whole = Instance.from_tokens([[1, 2], [3], [1, 2]])
    with pytest.raises(ScheduleError, match="uncompressed"):
        replay_weighted(schedule("forced", [[], [], []]), whole, 3, unit_value=value)


def test_a_forged_bound_is_not_a_bound():
    """A mutant of the bound, without the room that prices pay for, falls below what is saved."""
    instance = Instance.from_tokens([[1], [2], [3]] * 3)
    value = np.array([1.0, 2.0, 3.0])
    best = solve_weighted(instance, 2, "bypass", unit_value=value)
    pairs = weighted_pairs(instance.uncompressed(), 2, "bypass", value, np.ones(3, np.int64), True)
    assert saved_bound(best.certificate, pairs) == pytest.approx(best.lower)
    mutant = pairs._replace(room=np.zeros_like(pairs.room))
    assert saved_bound(best.certificate, mutant) < best.lower
    cheaper = dataclasses.replace(best.certificate, space=-best.certificate.space)
    assert saved_bound(cheaper, pairs) == value.sum() * 2
