"""The interval LP, its certificate, and the schedule made from it."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.offline import Certificate, belady, check_certificate, optimum, verify
from kvtheory.offline import solver as solvers
from kvtheory.offline.certificate import consecutive_uses, hits_bound, room
from kvtheory.offline.exchange import close, schedule_of
from kvtheory.offline.interval_lp import interval_program, solve_interval_lp
from kvtheory.testing.strategies import cases
from kvtheory.tree import PrefixTree

admissions = st.sampled_from(["forced", "bypass"])
ZIPF = Instance.from_flat(
    np.random.default_rng(0).zipf(1.3, 300) % 40, np.arange(301), ids="global"
)


def bound(price, instance, capacity, admission):
    return hits_bound(
        np.asarray(price, float),
        consecutive_uses(instance, admission),
        room(instance, capacity, admission),
    )


# -- the program --------------------------------------------------------------------------------


@given(cases(max_units=10, max_requests=14), admissions, st.randoms(use_true_random=False))
def test_the_occupancy_form_says_what_the_dense_form_says(case, admission, random):
    """Units kept are feasible for one sum per query iff their occupancies are within bounds."""
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    uses, space = consecutive_uses(instance, admission), room(instance, capacity, admission)
    program = interval_program(uses, space)
    m = program.columns
    z = np.array([random.randint(0, int(u)) for u in program.upper[:m]], float)
    spans = program.group >= 0
    members = np.bincount(program.group[spans], uses.length[spans], minlength=m)
    assert members.tolist() == program.upper[:m].tolist()
    enter, leave = np.zeros(m, int), np.zeros(m, int)
    enter[program.group[spans]] = uses.enter[spans]
    leave[program.group[spans]] = uses.leave[spans]
    r = np.arange(instance.requests)[:, None]
    dense = ((enter <= r) & (r < leave)) @ z
    starts = -(program.balance[:, :m] @ z)  # occ_k − occ_{k−1}
    occupancy = np.cumsum(starts)
    assert (dense <= space).all() == (occupancy <= program.upper[m:]).all()
    assert (program.balance @ np.concatenate([z, occupancy]) == 0).all()


def test_the_program_is_sparse():
    n = 400
    instance = Instance.from_tokens([[0, t % 20, t % 7] for t in range(n)])
    for admission in ("forced", "bypass"):
        uses = consecutive_uses(instance, admission)
        program = interval_program(uses, room(instance, 30, admission))
        dense = int((uses.leave - uses.enter).sum())
        assert program.balance.nnz <= 2 * len(uses.position) + 2 * n < dense / 3


# -- the certificate ----------------------------------------------------------------------------


@given(cases(max_units=8, max_requests=10), admissions, st.data())
def test_any_prices_bound_the_hits(case, admission, data):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    hits = optimum(instance, capacity, admission=admission).hits.sum()
    price = data.draw(
        st.lists(st.sampled_from([0, 0, 0.5, 1, 2, -1]), min_size=len(paths), max_size=len(paths))
    )
    assert hits <= bound(price, instance, capacity, admission) + 1e-9


@given(cases(max_units=12, max_requests=20), admissions)
def test_tampered_certificates_are_refused(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    best = optimum(instance, capacity, admission=admission, method="lp").certificate
    check = check_certificate(best, instance, capacity, admission)
    assert check.ok
    assert check.hits == check.bound == bound(best.price, instance, capacity, admission)

    def tampered(**change):
        other = dataclasses.replace(best, **change)
        return check_certificate(other, instance, capacity, admission)

    kept = best.kept
    for p in np.flatnonzero(kept > 0)[:3]:
        fewer = kept.copy()
        fewer[p] -= 1
        assert not tampered(kept=fewer).ok
    for p in range(min(3, len(kept))):
        more = kept.copy()
        more[p] += 1
        assert not tampered(kept=more).ok
    for r in range(instance.requests):
        dearer, negative = best.price.copy(), best.price.copy()
        dearer[r] += 1
        negative[r] = -1
        other = tampered(price=dearer)
        assert other.bound >= check.bound
        assert other.ok == (other.bound == check.bound)
        assert not tampered(price=negative).ok
    if check.bound < bound(np.zeros(len(paths)), instance, capacity, admission):
        assert not tampered(price=np.zeros(len(paths))).ok


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"price": np.zeros(3)}, "price"),
        ({"kept": np.zeros(3)}, "kept"),
        ({"kept": None}, "kept"),
        ({"price": np.full(300, np.nan)}, "price"),
        ({"kept": np.full(300, np.inf)}, "kept"),
    ],
)
def test_certificates_of_something_else(change, argument):
    best = optimum(ZIPF, 5, method="lp").certificate
    with pytest.raises(InputError, match=rf"certificate\.{argument}"):
        check_certificate(dataclasses.replace(best, **change), ZIPF, 5)


def test_a_certificate_for_another_capacity_or_admission_is_refused():
    best = optimum(ZIPF, 5, method="lp").certificate
    assert check_certificate(best, ZIPF, 5).ok
    assert not check_certificate(best, ZIPF, 4).ok
    assert not check_certificate(best, ZIPF, 6).ok
    assert not check_certificate(best, ZIPF, 5, "bypass").ok


# -- the schedule -------------------------------------------------------------------------------


def test_units_move_to_the_ancestor():
    # b below a, and c: b, a, c, b. Two hits with b kept throughout, or with a kept from 1 to 3.
    instance = Instance(PrefixTree([-1, 0, -1], [1, 1, 1]), [1, 0, 2, 1])
    assert instance.log.edge.tolist() == [1, 0, 0, 2, 1, 0]
    kept = np.array([1, 1, 0, 0, 0, 0])
    closed = close(kept, instance)
    assert closed.tolist() == [0, 1, 1, 0, 0, 0]
    hits = verify(schedule_of(closed, instance, "forced"), instance, 2, 4)
    assert hits.tolist() == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="step 2: edge 1 keeps units, but edge 0 above it is not"):
        verify(schedule_of(kept, instance, "forced"), instance, 2, 4)


@given(cases(max_units=14, max_requests=20, max_depth=6), admissions, st.data())
def test_closing_loses_nothing_and_takes_no_room(case, admission, data):
    """For any feasible choice of kept units, not only an optimal one."""
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    uses, space = consecutive_uses(instance, admission), room(instance, capacity, admission)
    free = space.copy()
    kept = np.zeros(len(instance.log.edge), np.int64)
    order = data.draw(st.permutations(range(len(uses.position))))
    for i in order:
        span = slice(uses.enter[i], uses.leave[i])
        units = min(int(uses.length[i]), int(free[span].min(initial=uses.length[i])))
        kept[uses.position[i]] = units
        free[span] -= units
    closed = close(kept, instance)
    gain = int(closed.sum() - kept.sum())
    assert gain >= 0
    check = check_certificate(
        Certificate(np.zeros(len(paths)), closed.astype(float)), instance, capacity, admission
    )
    assert check.primal == 0
    misses = instance.units_requested - int(closed.sum())
    verify(schedule_of(closed, instance, admission), instance, capacity, misses)
    assert misses >= instance.units_requested - belady(instance, capacity, admission)[1].sum()


# -- solvers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("admission", ["forced", "bypass"])
@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY", "scipy", "CLARABEL"])
def test_other_solvers(solver, admission):
    exact = optimum(ZIPF, 5, admission=admission).upper
    best = optimum(ZIPF, 5, admission=admission, method="lp", solver=solver)
    assert best.lower == best.upper == exact
    assert best.status.startswith("optimal")


@pytest.mark.parametrize("options", [{"solver": "ipm"}, {"presolve": "off"}])
def test_solver_options_reach_the_solver(options):
    best = optimum(ZIPF, 5, method="lp", solver_options=options)
    assert best.exact
    with pytest.raises(InputError, match=r"solver_options.*no_such_option"):
        optimum(ZIPF, 5, method="lp", solver_options={"no_such_option": 1})


def test_a_solver_that_is_not_there():
    with pytest.raises(InputError, match=r"solver = 'FOO': is not installed here: .*HIGHS.*SCIPY"):
        optimum(ZIPF, 5, method="lp", solver="FOO")
    with pytest.raises(InputError, match=r"for integer programs here: .*HIGHS"):
        solvers.choose("CLARABEL", integer=True)
    assert solvers.choose() == "HIGHS"


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY", "CLARABEL"])
def test_a_time_limit_gives_an_interval(solver):
    exact = optimum(ZIPF, 5).upper
    best = optimum(ZIPF, 5, method="lp", solver=solver, time_limit=1e-6)
    assert best.status == "time limit"
    assert ZIPF.tree.units <= best.lower <= exact == best.upper
    with pytest.raises(InputError, match="time_limit = 0"):
        optimum(ZIPF, 5, method="lp", solver=solver, time_limit=0)


def test_another_limit_and_a_failure_give_an_interval(monkeypatch):
    best = optimum(ZIPF, 5, method="lp", solver_options={"simplex_iteration_limit": 3})
    assert best.status == "limit"
    assert best.lower <= best.upper == optimum(ZIPF, 5).upper
    failing = solvers.Ending("failed: no luck", False)
    monkeypatch.setattr(solvers, "solve", lambda *_, **__: failing)
    best = optimum(ZIPF, 5, method="lp")
    assert best.status == "failed: no luck"
    assert (best.lower, best.upper) == (ZIPF.tree.units, optimum(ZIPF, 5).upper)
    assert best.certificate.kept is None


def test_a_fractional_optimum_is_said_to_be_one(monkeypatch):
    cycle = Instance.from_blocks([[1], [2], [3], [4]] * 4)
    exact = solve_interval_lp(cycle, 3)
    assert exact.whole

    def between(*args):
        values, dual, ending = solve(*args)
        return np.full_like(values, 0.5), dual, ending

    from kvtheory.offline import interval_lp

    solve = interval_lp._run
    monkeypatch.setattr(interval_lp, "_run", between)
    assert not solve_interval_lp(cycle, 3).whole
    best = optimum(cycle, 3, method="lp")
    assert best.status == "optimal, but fractional: the schedule is Belady's"
    assert best.exact


def test_wrong_duals_only_widen_the_interval(monkeypatch):
    from kvtheory.offline import interval_lp

    def nonsense(*args):
        values, dual, ending = solve(*args)
        return values, np.random.default_rng(1).normal(size=dual.shape), ending

    solve = interval_lp._run
    monkeypatch.setattr(interval_lp, "_run", nonsense)
    best = optimum(ZIPF, 5, method="lp")
    assert ZIPF.tree.units <= best.lower <= best.upper == optimum(ZIPF, 5).upper


def test_wrong_units_are_caught_by_the_replay(monkeypatch):
    from kvtheory.offline import interval_lp

    def greedy(program, *args):
        _, dual, ending = solve(program, *args)
        return program.upper.copy(), dual, ending

    solve = interval_lp._run
    monkeypatch.setattr(interval_lp, "_run", greedy)
    with pytest.raises(ValueError, match="the cache holds 5"):
        optimum(ZIPF, 5, method="lp")


def test_solving_prints_nothing(capfd):
    solvers._without_banner.cache_clear()
    optimum(ZIPF, 5, method="lp")
    assert capfd.readouterr() == ("", "")
