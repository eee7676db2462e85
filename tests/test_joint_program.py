"""Routing and eviction together: the programs, their bounds and certificates, against search."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.offline import belady, integer_solver
from kvtheory.offline import solver as solvers
from kvtheory.offline.equal_workers import classes, query_order, renamed
from kvtheory.offline.fixed_routing import best_for_routing
from kvtheory.offline.grain import grain_of, step_of
from kvtheory.offline.interval_lp import solve_interval_lp
from kvtheory.offline.joint_certificate import JointCertificate, check_joint_certificate
from kvtheory.offline.joint_gaps import joint_gaps
from kvtheory.offline.joint_mip import rounded, solve_joint
from kvtheory.offline.joint_program import joint_program
from kvtheory.offline.objective import OBJECTIVES, loads, value
from kvtheory.offline.pooled import lower_bounds, pooled_misses
from kvtheory.offline.weighted_routing import best_weighted_for_routing
from kvtheory.oversize import path_units
from kvtheory.testing.exhaustive_joint import joint_by_search

ADMISSIONS = ("forced", "bypass")
PROBLEMS = tuple(itertools.product(OBJECTIVES, ADMISSIONS))
GSP = shared_prefix(groups=8, prompts=3, lengths=(1024, 2048), block_size=64)
TWO = Cluster([36, 36], alpha_miss=0.016)  # too small for the 96 units that are shared


def random_problem(seed, *, depth=False):
    """Up to 6 queries on 2 or 3 workers, which differ in everything or in nothing."""
    rng = np.random.default_rng([7, seed])
    n, workers = int(rng.integers(1, 7)), int(rng.integers(2, 4))
    pool = [tuple(rng.integers(0, 2 + seed % 2, rng.integers(0, 4)).tolist()) for _ in range(4)]
    sequences = [pool[i] for i in rng.integers(0, 4, n)]
    longest = max(1, *map(len, sequences))
    if rng.random() < 0.5:
        capacity = rng.integers(max(1, longest - 1), longest + 3, workers)
        capacity[rng.integers(workers)] = max(capacity.max(), longest)
        costs = {
            "alpha_cached": rng.choice([0, 0.25], workers),
            "alpha_miss": rng.choice([0.5, 1, 2], workers),
            "alpha_out": rng.choice([0, 0.5], workers),
            "overhead": rng.choice([0, 0.3], workers),
            "speed": rng.choice([0.5, 1, 3], workers),
        }
        if depth:
            costs["alpha_depth"] = rng.choice([0, 0.25, 1], workers)
    else:
        capacity = np.full(workers, rng.integers(longest, longest + 3))
        costs = {"alpha_depth": 0.5} if depth else {}
    output = rng.integers(0, 3, n)
    instance = Instance.from_tokens([list(s) for s in sequences], output_length=output)
    return sequences, instance, Cluster(capacity, **costs), output.tolist()


def random_prices(like, seed):
    rng = np.random.default_rng(seed)
    fields = {}
    for name in ("space", "load", "link", "nested"):
        shape = np.shape(getattr(like, name))
        fields[name] = rng.exponential(0.3, shape) * (rng.random(shape) < 0.4)
    return dataclasses.replace(like, **fields, bound=-math.inf)


def check_against_search(seed, objective, admission, *, depth=False):
    sequences, instance, cluster, output = random_problem(seed, depth=depth)
    problem = (instance, cluster, objective, admission)
    best = joint_by_search(sequences, cluster, objective, admission, output=output)
    found = solve_joint(*problem)
    assert found.ending.status == "optimal"
    assert found.exact_model
    assert found.lower == pytest.approx(best, rel=1e-6, abs=1e-6)
    if depth and objective != "misses":
        evictions = best_weighted_for_routing(instance, cluster, found.routing, admission)
        assert evictions.exact
        hits = evictions.hits
    else:
        _, hits = best_for_routing(instance, cluster, found.routing, admission)
    reached = value(objective, instance, cluster, found.routing, hits)
    assert reached == pytest.approx(best, rel=1e-9, abs=1e-9)

    relaxed = solve_joint(*problem, integral=False)
    assert relaxed.ending.status == "optimal"
    assert relaxed.lower <= best + 1e-6
    check = check_joint_certificate(relaxed.certificate, *problem)
    assert check.ok
    assert check.bound <= relaxed.lower + 1e-6
    prices = random_prices(relaxed.certificate, seed)
    assert check_joint_certificate(prices, *problem).bound <= best + 1e-9
    for bound in lower_bounds(*problem):
        assert bound.value <= best + 1e-9


# -- against exhaustive search ------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_the_program_finds_what_search_finds(part):
    for seed in range(part * 60, part * 60 + 60):
        check_against_search(seed, *PROBLEMS[seed % len(PROBLEMS)])


def test_the_program_finds_what_search_finds_with_depth():
    for seed in range(36):
        check_against_search(seed, *PROBLEMS[seed % len(PROBLEMS)], depth=True)


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "admission"), PROBLEMS)
@pytest.mark.parametrize("depth", [False, True])
def test_the_program_finds_what_search_finds_everywhere(objective, admission, depth):
    for seed in range(1000, 1100):
        check_against_search(seed, objective, admission, depth=depth)


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_one_worker_is_the_interval_program_and_belady(admission):
    for seed in range(12):
        rng = np.random.default_rng([3, seed])
        pool = [rng.integers(0, 3, rng.integers(1, 6)).tolist() for _ in range(8)]
        instance = Instance.from_tokens([pool[i] for i in rng.integers(0, 8, 20)])
        capacity = int(path_units(instance).max()) + int(rng.integers(0, 6))
        _, hits = belady(instance, capacity, admission)
        misses = instance.units_requested - int(hits.sum())
        interval = solve_interval_lp(instance, capacity, admission)
        assert interval.certificate.kept.sum() == hits.sum()
        for integral in (True, False):
            for objective in OBJECTIVES:
                found = solve_joint(
                    instance, Cluster(capacity), objective, admission, integral=integral
                )
                assert found.lower == misses


def test_the_relaxation_is_the_pooled_bound_with_equal_workers():
    """Every query can be shared evenly: one cache of all the space, and a load of a half each."""
    for admission in ADMISSIONS:
        pooled = pooled_misses(GSP, TWO, admission)
        misses = solve_joint(GSP, TWO, "misses", admission, integral=False)
        assert misses.certificate.bound == pytest.approx(pooled)
        makespan = solve_joint(GSP, TWO, "makespan", admission, integral=False)
        assert makespan.certificate.bound == pytest.approx(0.016 * pooled / 2)


def test_unequal_capacities_bind():
    """The long query fits one worker only; misses of the cut part are always charged."""
    instance = Instance.from_tokens([[1, 2, 3], [1, 2], [1, 2, 3], [4]])
    cluster = Cluster([2, 3])
    for objective, admission in PROBLEMS:
        found = solve_joint(instance, cluster, objective, admission)
        assert found.routing[[0, 2]].tolist() == [1, 1]
    cut = instance.truncate(2)
    assert solve_joint(cut, cluster, "misses").lower == 3 + 2


def test_nothing_to_do():
    empty = Instance.from_tokens([])
    assert solve_joint(empty, TWO, "makespan").lower == 0
    blank = Instance.from_tokens([[], []])
    for integral in (True, False):
        found = solve_joint(blank, TWO, "makespan", integral=integral)
        assert found.lower == 0
        assert found.ending.status == "optimal"


# -- hardness -----------------------------------------------------------------------------------


def can_be_split(numbers):
    sums = {0}
    for number in numbers:
        sums |= {s + number for s in sums}
    return 2 * (sum(numbers) // 2) == sum(numbers) and sum(numbers) // 2 in sums


def test_partition():
    """Distinct queries used once, with the numbers as lengths: half of the sum iff they split."""
    split = 0
    for seed in range(50):
        rng = np.random.default_rng([5, seed])
        numbers = rng.integers(1, 30, rng.integers(3, 8)).tolist()
        sequences = [[100 * k + d for d in range(a)] for k, a in enumerate(numbers)]
        instance = Instance.from_tokens(sequences)
        found = solve_joint(instance, Cluster([30, 30]), "makespan")
        assert found.ending.status == "optimal"
        assert (found.lower == sum(numbers) / 2) == can_be_split(numbers)
        split += can_be_split(numbers)
    assert 5 < split < 45


# -- structure ----------------------------------------------------------------------------------


def test_edges_with_a_common_future_are_one_column():
    # a conversation: each turn extends the one before, so what is cached has one future
    turns = Instance.from_tokens([list(range(k)) for k in (2, 4, 6, 8)])
    gaps = joint_gaps(turns)
    assert gaps.enter.tolist() == [0, 1, 2]
    assert gaps.leave.tolist() == [1, 2, 3]
    assert gaps.units.tolist() == [2, 4, 6]
    assert gaps.following.tolist() == [1, 2, -1]
    deep = joint_gaps(turns, deep=True)
    assert len(deep.enter) == 6
    assert (deep.enter[deep.above] >= deep.enter[deep.below]).all()
    assert (deep.leave[deep.above] <= deep.leave[deep.below]).all()


def test_the_program_is_sparse():
    n = 300
    instance = Instance.from_tokens([[0, t % 20, t % 7] for t in range(n)])
    program = joint_program(instance, Cluster([20, 20, 20]), "makespan", "forced")
    gaps = len(program.gaps.enter)
    assert program.sizes["nonzeros"] <= 3 * (14 * gaps + 8 * n)
    assert program.sizes["whole"] == 3 * n + 1


def test_equal_workers_are_told_apart():
    cluster = Cluster([4, 6, 4, 4], speed=[1, 1, 1, 2])
    assert [c.tolist() for c in classes(cluster, "misses")] == [[0, 2, 3], [1]]
    assert [c.tolist() for c in classes(cluster, "cost")] == [[0, 2], [3], [1]]
    instance = Instance.from_tokens([[1], [2, 3], [4, 5, 6], [7]])
    assert query_order(instance).tolist() == [2, 1, 0, 3]
    routing = np.array([3, 2, 2, 0])
    assert renamed(routing, instance, cluster, "misses").tolist() == [2, 0, 0, 3]
    assert renamed(routing, instance, cluster, "cost").tolist() == [3, 0, 0, 2]


def test_grains():
    assert step_of(GSP, TWO) == 4
    assert grain_of(GSP, TWO, "misses", 4) == 4
    assert grain_of(GSP, TWO, "cost", 4) == pytest.approx(0.064)
    mixed = Cluster([40, 40], alpha_miss=[0.5, 0.75], overhead=0.1)
    assert grain_of(GSP, mixed, "cost", 4) == pytest.approx(0.1)
    assert rounded(7.3, 0.5) == 7.5
    assert rounded(7.0000001, 0.5) == 7.0
    assert 6.9 < rounded(7, 0) < 7
    assert rounded(-math.inf, 1) == 0


def test_the_grain_of_every_routing():
    for seed in range(60):
        _, instance, cluster, _ = random_problem(seed)
        rng = np.random.default_rng(seed)
        fits = path_units(instance)[:, None] <= cluster.capacity
        routing = np.array([rng.choice(np.flatnonzero(row)) for row in fits])
        _, hits = best_for_routing(instance, cluster, routing)
        grain = grain_of(instance, cluster, "makespan", step_of(instance, cluster))
        steps = loads(instance, cluster, routing, hits) / grain
        assert np.abs(steps - np.rint(steps)).max() < 1e-6


# -- limits and failures ------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY", "scipy"])
def test_solvers_agree(solver):
    small = GSP.prefix(14)
    for objective, admission in PROBLEMS:
        best = solve_joint(small, TWO, objective, admission).lower
        found = solve_joint(small, TWO, objective, admission, solver=solver)
        assert found.lower == pytest.approx(best)
        relaxed = solve_joint(small, TWO, objective, admission, solver=solver, integral=False)
        check = check_joint_certificate(relaxed.certificate, small, TWO, objective, admission)
        assert check.ok
        assert relaxed.lower <= best + 1e-6


@pytest.mark.parametrize("integral", [True, False])
@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_a_time_limit_keeps_a_bound(solver, integral):
    hard = shared_prefix(groups=10, prompts=8, lengths=(512, 1024, 2048), block_size=64)
    cluster = Cluster([40, 40, 40])
    least = lower_bounds(hard, cluster, "makespan")[0].value
    found = solve_joint(
        hard, cluster, "makespan", solver=solver, time_limit=1e-4, integral=integral
    )
    assert found.ending.status == "time limit"
    assert least <= found.lower <= hard.units_requested
    with pytest.raises(InputError, match="time_limit = 0"):
        solve_joint(hard, cluster, "makespan", solver=solver, time_limit=0)


def test_what_was_proved_when_the_search_stopped_is_kept():
    """The bound at a node limit lies between the relaxation and the optimum."""
    best = solve_joint(GSP, TWO, "makespan").lower
    relaxed = solve_joint(GSP, TWO, "makespan", integral=False).lower
    stopped = solve_joint(GSP, TWO, "makespan", solver_options={"mip_max_nodes": 1})
    assert stopped.ending.status in ("limit", "optimal")
    assert relaxed - 1e-6 <= stopped.lower <= best + 1e-6


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_the_bound_survives_where_there_is_no_solution(solver, monkeypatch):
    """cvxpy raises when the time is up before there is a solution; the bound must not go too."""
    from cvxpy import Problem
    from cvxpy.error import SolverError

    def raising(*_):
        raise SolverError("no solution yet")

    best = solve_joint(GSP, TWO, "misses")
    monkeypatch.setattr(Problem, "unpack_results", raising)
    found = solve_joint(GSP, TWO, "misses", solver=solver)
    assert found.ending.status == "failed: no solution yet"
    assert found.routing is None
    assert found.lower == best.lower > pooled_misses(GSP, TWO) - 1


def test_a_failing_solver_leaves_the_other_bounds(monkeypatch):
    failing = solvers.Ending("failed: no luck", False)
    least = lower_bounds(GSP, TWO, "makespan")[0].value
    monkeypatch.setattr(
        "kvtheory.offline.joint_mip.search",
        lambda *_, **__: integer_solver.Search(failing, -math.inf),
    )
    found = solve_joint(GSP, TWO, "makespan")
    assert (found.ending, found.routing) == (failing, None)
    assert found.lower >= least
    monkeypatch.setattr(solvers, "solve", lambda *_, **__: failing)
    found = solve_joint(GSP, TWO, "makespan", integral=False)
    assert found.ending == failing
    assert least <= found.lower
    assert check_joint_certificate(found.certificate, GSP, TWO, "makespan").ok


def test_solvers_that_are_not_there_and_options_they_refuse():
    with pytest.raises(InputError, match="solver = 'FOO': is not installed for integer programs"):
        solve_joint(GSP, TWO, "makespan", solver="FOO")
    with pytest.raises(InputError, match=r"for integer programs here: .*HIGHS"):
        solve_joint(GSP, TWO, "makespan", solver="CLARABEL")
    with pytest.raises(InputError, match=r"solver_options.*no_such_option"):
        solve_joint(GSP, TWO, "makespan", solver_options={"no_such_option": 1})


def test_queries_that_fit_nowhere():
    for integral in (True, False):
        instance = Instance.from_tokens([[1], [1, 2], [1, 2, 3]])
        with pytest.raises(InputError, match=r"query 2 has 3 units and the largest cache only 2"):
            solve_joint(instance, Cluster([1, 2]), "cost", integral=integral)


def test_bad_arguments():
    with pytest.raises(InputError, match="unknown objective 'makespam': did you mean makespan"):
        solve_joint(GSP, TWO, "makespam")
    with pytest.raises(InputError, match="admission = 'none'"):
        solve_joint(GSP, TWO, "cost", "none")
    with pytest.raises(InputError, match="worker"):
        solve_joint(GSP, TWO, "cost", incumbent=np.zeros(3, int))
    with pytest.raises(InputError, match="speed_changes"):
        solve_joint(GSP, Cluster([40], speed_changes=((1.0, 0, 2.0),)), "cost")


# -- starts and progress ------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_start_is_used(objective):
    """With all else switched off, what comes back is the start, or better."""
    best = solve_joint(GSP, TWO, objective)
    _, hits = best_for_routing(GSP, TWO, best.routing)
    reached = value(objective, GSP, TWO, best.routing, hits)
    off = {"mip_max_nodes": 0, "mip_heuristic_effort": 0.0, "presolve": "off"}
    start = 1 - best.routing  # equal workers, the other way round
    found = solve_joint(GSP, TWO, objective, incumbent=start, solver_options=off)
    _, hits = best_for_routing(GSP, TWO, found.routing)
    assert value(objective, GSP, TWO, found.routing, hits) == pytest.approx(reached)


def test_a_start_for_a_solver_that_takes_none():
    small = GSP.prefix(12)
    start = np.arange(12) % 2
    found = solve_joint(small, TWO, "makespan", incumbent=start, solver="SCIPY")
    assert found.lower == pytest.approx(solve_joint(small, TWO, "makespan").lower)


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_progress(solver, capfd):
    told = []
    instance = shared_prefix(groups=5, prompts=6, lengths=(512, 1024, 2048), block_size=64)
    found = solve_joint(
        instance,
        Cluster([40, 40, 40]),
        "makespan",
        solver=solver,
        time_limit=3,
        progress=lambda *line: told.append(line),
    )
    assert told
    seconds, values, bounds = zip(*told, strict=True)
    assert list(seconds) == sorted(seconds)
    assert values[-1] is not None
    assert max(bounds) <= values[-1] + 1e-6
    assert bounds[-1] <= found.lower + 1e-6
    assert capfd.readouterr() == ("", "")


def test_lines_of_a_log(tmp_path):
    log = tmp_path / "log"
    assert integer_solver._latest(log) is None
    log.write_text(
        "Src  Proc. InQueue |  Leaves   Expl. | BestBound       BestSol              Gap |\n"
        "         0       0         0   0.00%   456             inf                  inf        0\n"
        "         0       0         0   0.00%   457.5           inf      inf  0   0   0  9  0.0s\n"
    )
    assert integer_solver._latest(log) == (None, 457.5)
    with log.open("a") as file:
        file.write(" L     0       0         0   0.00%   458   480   4.58%   73  2  0  98  0.1s\n")
        file.write(" L     1       0         0   0.0")
    assert integer_solver._latest(log) == (480, 458)


def test_a_progress_that_raises_is_heard():
    def stop(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        solve_joint(GSP.prefix(6), TWO, "makespan", progress=stop)


# -- certificates -------------------------------------------------------------------------------


def certificates():
    for objective, admission in PROBLEMS:
        problem = (GSP, TWO, objective, admission)
        yield problem, solve_joint(*problem, integral=False).certificate
    slow = Cluster([36, 48], alpha_miss=0.016, alpha_depth=0.001, speed=[1, 2])
    for objective in ("cost", "makespan"):
        problem = (GSP, slow, objective, "forced")
        yield problem, solve_joint(*problem, integral=False).certificate


def relaxation(program):
    """The optimum of the relaxation by scipy alone."""
    from scipy.optimize import linprog

    goal = np.zeros(program.columns)
    goal[-1] = 1
    found = linprog(
        goal,
        A_ub=program.below,
        b_ub=program.at_most,
        A_eq=program.equal,
        b_eq=program.equal_to,
        bounds=np.column_stack([program.lower, program.upper]),
    )
    return found.fun * program.scale


@pytest.mark.parametrize("depth", [False, True])
def test_the_prices_prove_all_that_the_relaxation_can(depth):
    for seed in range(60):
        _, instance, cluster, _ = random_problem(seed, depth=depth)
        problem = (cluster, *PROBLEMS[seed % len(PROBLEMS)])
        found = solve_joint(instance, *problem, integral=False)
        model = instance.uncompressed() if found.certificate.by_unit else instance
        program = joint_program(model, *problem, integral=False)
        assert found.certificate.bound == pytest.approx(relaxation(program), rel=1e-6, abs=1e-7)


def test_long_edges_with_depth_are_relaxed(monkeypatch):
    """Too many units to tell apart: an edge saves its mean, which only lowers the bound."""
    monkeypatch.setattr("kvtheory.offline.joint_mip._MOST_UNITS", 0)
    for seed in range(30):
        sequences, instance, cluster, output = random_problem(seed, depth=True)
        objective, admission = PROBLEMS[seed % len(PROBLEMS)]
        best = joint_by_search(sequences, cluster, objective, admission, output=output)
        found = solve_joint(instance, cluster, objective, admission)
        assert found.lower <= best + 1e-6
        relaxed = solve_joint(instance, cluster, objective, admission, integral=False)
        assert not relaxed.certificate.by_unit
        assert relaxed.lower <= best + 1e-6
        if not found.exact_model:
            assert (instance.tree.length > 1).any()


def test_tampered_certificates_are_refused():
    for problem, best in certificates():
        assert check_joint_certificate(best, *problem).ok
        forged = dataclasses.replace(best, bound=best.bound * 1.001)
        assert not check_joint_certificate(forged, *problem).ok
        nothing = dataclasses.replace(best, bound=math.nan)
        assert not check_joint_certificate(nothing, *problem).ok
        for name in ("space", "link", "load"):
            prices = getattr(best, name)
            if prices.max() <= 0:
                continue
            at = np.unravel_index(prices.argmax(), prices.shape)
            for change in (-prices[at] - 0.1, prices[at] + 0.5):
                other = prices.copy()
                other[at] += change
                check = check_joint_certificate(
                    dataclasses.replace(best, **{name: other}), *problem
                )
                assert check.bound <= best.bound + 1e-9
                assert not check.ok
        nowhere = dataclasses.replace(best, space=np.zeros_like(best.space))
        lower = check_joint_certificate(nowhere, *problem)
        assert lower.ok == (lower.bound >= best.bound - 1e-6 * max(1, best.bound))


def test_a_certificate_of_something_else():
    best = solve_joint(GSP, TWO, "makespan", integral=False).certificate
    for name, wrong in (("space", np.zeros((2, 3))), ("load", np.ones(3))):
        other = dataclasses.replace(best, **{name: wrong})
        with pytest.raises(InputError, match=rf"certificate\.{name}"):
            check_joint_certificate(other, GSP, TWO, "makespan")
    other = dataclasses.replace(best, space=np.full_like(best.space, np.nan))
    with pytest.raises(InputError, match=r"certificate\.space[\s\S]*finite"):
        check_joint_certificate(other, GSP, TWO, "makespan")
    fast = Cluster([36, 36], alpha_miss=0.016, speed=2)
    assert not check_joint_certificate(best, GSP, fast, "makespan").ok
    large = Cluster([60, 60], alpha_miss=0.016)
    assert not check_joint_certificate(best, GSP, large, "makespan").ok
    assert not check_joint_certificate(best, GSP, TWO, "cost").ok


def test_a_bound_that_forgets_the_capacity_is_caught():
    """A mutant of the bound: without what all space costs it would prove too much."""
    best = solve_joint(GSP, TWO, "misses", integral=False).certificate
    paid = float((best.space * TWO.capacity[:, None]).sum())
    assert paid > 1
    mutant = dataclasses.replace(best, bound=best.bound + paid)
    assert not check_joint_certificate(mutant, GSP, TWO, "misses").ok


def test_prices_are_arrays_of_the_instance():
    best = solve_joint(GSP, TWO, "makespan", integral=False).certificate
    assert isinstance(best, JointCertificate)
    assert best.space.shape == (2, GSP.requests)
    assert best.load.tolist() == pytest.approx([0.5, 0.5])


# -- speed --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "workers"), [(8, 2), (12, 2), (8, 3)])
def test_shared_prefixes_are_solved(groups, workers):
    lengths = (512, 1024, 2048, 4096, 8192)
    instance = shared_prefix(groups=groups, prompts=5, lengths=lengths, block_size=64)
    cluster = Cluster([128] * workers)
    found = solve_joint(instance, cluster, "makespan", time_limit=120)
    assert found.ending.status == "optimal"
    _, hits = best_for_routing(instance, cluster, found.routing)
    assert value("makespan", instance, cluster, found.routing, hits) == pytest.approx(found.lower)


@pytest.mark.slow
def test_a_hundred_queries_come_close():
    lengths = (512, 1024, 2048, 4096, 8192)
    instance = shared_prefix(groups=20, prompts=5, lengths=lengths, block_size=64)
    cluster = Cluster([223, 223])
    found = solve_joint(instance, cluster, "makespan", time_limit=60, mip_gap=0.02)
    _, hits = best_for_routing(instance, cluster, found.routing)
    assert value("makespan", instance, cluster, found.routing, hits) <= 1.02 * found.lower
