"""The optimum of routing and eviction together, as an interval with a schedule that reaches it."""

import math
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError, bad, unknown
from kvtheory.instance import Instance
from kvtheory.offline import solver as solvers
from kvtheory.offline.fixed_routing import best_for_routing
from kvtheory.offline.joint_mip import JointSolution, solve_joint
from kvtheory.offline.joint_replay import TOLERANCE, verify_joint
from kvtheory.offline.local_search import local_search
from kvtheory.offline.objective import Objective, check_objective, check_plain, value
from kvtheory.offline.optimum import Optimum, optimum
from kvtheory.offline.policy_bounds import policy_bounds
from kvtheory.offline.pooled import lower_bounds
from kvtheory.offline.schedule import Admission, Schedule, check_admission
from kvtheory.offline.weighted_routing import best_weighted_for_routing
from kvtheory.oversize import check_oversize, path_units

JointMethod = Literal["auto", "belady", "interval_lp", "mip", "lp", "pooled"]
METHODS = ("auto", "belady", "interval_lp", "mip", "lp", "pooled")
ALONE = ("belady", "interval_lp")
Progress = Callable[[float, float, float, str], object]
"""Called with seconds, the bound and the best value so far, and what is being done."""

MOST_PLACES = 320  # queries times workers up to which the integer program is tried by itself
SOLVER_TOLERANCE = 1e-6  # relative; what solvers may be off
MOST_UNITS = 20_000  # on all paths, up to which evictions with costs by depth are optimised


class _State:
    """Bounds so far, and their history."""

    def __init__(self, progress: Progress | None) -> None:
        self.began = time.perf_counter()
        self.lower, self.upper = 0.0, math.inf
        self.worker: np.ndarray | None = None
        self.trace: list[tuple[float, float, float]] = []
        self.progress = progress

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def met(self) -> bool:
        return self.lower >= self.upper - TOLERANCE * abs(self.upper)

    def proved(self, what: str, lower: float) -> None:
        """No schedule is below ``lower``."""
        self.lower = max(self.lower, lower)
        self.note(what, self.upper)

    def found(self, what: str, upper: float, worker: np.ndarray) -> None:
        """A routing allows ``upper``."""
        if upper < self.upper:
            self.upper, self.worker = upper, worker
        self.note(what, self.upper)

    def note(self, what: str, upper: float) -> None:
        """Tell how it stands, if ``upper`` has been seen."""
        self.trace.append((self.seconds, self.lower, min(upper, self.upper)))
        if self.progress is not None:
            self.progress(*self.trace[-1], what)


class Plan(NamedTuple):
    """A method, and why it was chosen."""

    method: str
    why: str


def plan(instance: Instance, cluster: Cluster, method: str) -> Plan:
    """The method to use: the one asked for, or the strongest that fits the size."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    equal = not cluster.alpha_depth.any() and (cluster.alpha_miss >= cluster.alpha_cached).all()
    alone = cluster.workers == 1 and bool(equal)
    if method in ALONE and not alone:
        rule = "is for one worker with equal miss costs, at least those of hits"
        raise bad("method", method, f"{rule}: use 'auto', 'mip', 'lp' or 'pooled'")
    if method != "auto":
        return Plan(method, "as asked")
    if alone:
        return Plan("belady", "one worker with equal miss costs: Belady's rule is exact")
    places = instance.requests * cluster.workers
    if places <= MOST_PLACES:
        return Plan("mip", f"{places} places for queries: small enough for the integer program")
    return Plan(
        "pooled",
        f"{places} places for queries, more than {MOST_PLACES}: bounds and local search",
    )


def joint_optimum(
    instance: Instance,
    cluster: Cluster,
    objective: Objective = "makespan",
    *,
    admission: Admission = "forced",
    method: JointMethod = "auto",
    oversize: Literal["error", "truncate"] = "error",
    solver: str | None = None,
    time_limit: float | None = 60.0,
    mip_gap: float = 0.0,
    seed: int = 0,
    routers: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Optimum:
    """The least misses, cost or makespan with which a cluster can serve a sequence known ahead.

    Parameters
    ----------
    instance, cluster
        The queries, whose arrival times play no part, and the workers. A query that is longer than
        a worker's cache cannot go there.
    objective
        ``"misses"`` in units, ``"cost"`` (Σ Cost) or ``"makespan"`` (max_i P_i) in seconds.
    admission
        ``"forced"``, as for every policy, or ``"bypass"``, which bounds them from below.
    method
        ``"belady"`` or ``"interval_lp"``: one worker with equal miss costs, exact. ``"mip"``: the
        integer program, begun from the best routing found. ``"lp"``: its relaxation, with prices
        as a certificate. ``"pooled"``: bounds without a program, and local search. ``"auto"``: the
        strongest that fits the size; ``why`` says which and why.
    oversize
        A query longer than every cache: an ``"error"``, or cut (``"truncate"``, equal caches).
    solver, mip_gap
        A cvxpy solver (HiGHS if None), and the relative gap at which it may stop.
    time_limit
        Seconds in all, or None. When they are over, the best interval so far is the result.
    seed
        Of the local search.
    routers
        Routers that are simulated for more routings to begin from; each is compiled for seconds.
    progress
        Called with seconds, the bound, the best value, and what is being done.

    Returns
    -------
    Optimum
        No schedule is below ``lower``; ``schedule`` has exactly ``upper``, which the driver has
        confirmed (`kvtheory.offline.joint_replay.verify_joint`).

    Raises
    ------
    InputError
        For a query longer than every cache, an unknown method or solver, or what has no meaning.
    ScheduleError
        If the replay differs from what is claimed: a defect of this library.

    Notes
    -----
    NP-hard even for distinct queries (PARTITION). The lower bound is the best of: pooled caches
    with prices of time, longest queries, the linear or the integer program. The upper bound comes
    from partitions of the tree, routers if named, local search and the program's routing, each with
    the best evictions for it.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [1, 3], [4, 5], [4, 6], [1, 2]])
    >>> best = joint_optimum(instance, Cluster([3, 3], alpha_miss=1.0), "makespan")
    >>> best.lower, best.upper, best.schedule.worker.tolist(), best.method
    (3.0, 3.0, [0, 0, 1, 1, 0], 'pooled')
    """
    check_objective(objective)
    check_admission(admission)
    if oversize not in ("error", "truncate"):
        raise bad("oversize", oversize, "must be 'error' or 'truncate'")
    if cluster.block_size != instance.block_size:
        rule = f"must be that of the instance, {instance.block_size}"
        raise bad("cluster.block_size", cluster.block_size, rule)
    if time_limit is not None and not time_limit > 0:
        raise bad("time_limit", time_limit, "must be a positive number of seconds")
    check_plain(instance, cluster)
    if oversize == "truncate":
        if len(set(cluster.capacity.tolist())) > 1:
            raise bad("oversize", oversize, "cuts the tree at one depth: capacities must be equal")
        instance = check_oversize(instance, int(cluster.capacity[0]), "truncate")
    check_oversize(instance, int(cluster.capacity.max()), "error")
    chosen, why = plan(instance, cluster, method)
    if chosen in ("mip", "lp", "interval_lp"):
        solvers.choose(solver, integer=chosen == "mip")
    elif solver is not None:
        raise bad("solver", solver, f"method {chosen!r} needs none; pass method='mip' or 'lp'")

    state = _State(progress)
    status, certificate = "interval", None
    if chosen in ALONE:
        one = optimum(
            instance,
            int(cluster.capacity[0]),
            admission=admission,
            method=chosen,  # type: ignore[arg-type]
            solver=solver,
            time_limit=time_limit if chosen == "interval_lp" else None,
        )
        worker, status, certificate = one.schedule.worker, one.status, one.certificate
        reached = float(value(objective, instance, cluster, worker, one.hits))
        # every unit saves the same, wherever it hits
        saved = 1.0
        if objective != "misses":
            saved = float(((cluster.alpha_miss - cluster.alpha_cached) / cluster.speed)[0])
        state.found(chosen, reached, worker)
        state.proved(chosen, reached - saved * (one.upper - one.lower))
    else:
        used = "pooled"
        _bounds_and_search(
            instance, cluster, objective, admission, chosen, time_limit, seed, routers, state
        )
        if chosen != "pooled" and not state.met:
            used = chosen
            found = _program(
                instance, cluster, objective, admission, chosen, solver, time_limit, mip_gap, state
            )
            status, certificate = found.ending.status, found.certificate
        if used != chosen:
            why += "; the bounds met before the program was needed"
            chosen = used
    assert state.worker is not None
    schedule, whole = _schedule(instance, cluster, objective, admission, state)
    gap = (state.upper - state.lower) / max(abs(state.upper), 1e-300)
    if state.met or (status == "optimal" and gap <= SOLVER_TOLERANCE):
        status = "optimal"
    elif status == "optimal":
        status = "interval"
    if status == "interval" and time_limit is not None and state.seconds >= time_limit:
        status = "time limit"
    hits = verify_joint(schedule, whole, cluster, objective, state.upper)
    hits.setflags(write=False)
    lower, upper = min(state.lower, state.upper), state.upper
    exact = state.met
    return Optimum(
        lower=_number(objective, upper if exact else lower, math.ceil),
        upper=_number(objective, upper, round),
        schedule=schedule,
        method=chosen,
        status=status,
        seconds=state.seconds,
        certificate=certificate,
        admission=admission,
        hits=hits,
        objective=objective,
        why=why,
        trace=tuple(state.trace),
        instance=whole,
    )


def _number(objective: str, number: float, whole: Callable[[float], int]) -> int | float:
    return (
        whole(number - 1e-6 if whole is math.ceil else number) if objective == "misses" else number
    )


def _left(state: _State, time_limit: float | None, share: float = 1.0) -> float | None:
    return None if time_limit is None else max(0.01, share * (time_limit - state.seconds))


def _bounds_and_search(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission,
    method: str,
    time_limit: float | None,
    seed: int,
    routers: tuple[str, ...],
    state: _State,
) -> None:
    """Bounds without a program, routings to begin from, and local search."""
    bound = lower_bounds(instance, cluster, objective, admission)[0]
    state.proved(f"bound: {bound.name}", float(bound.value))
    for start in policy_bounds(
        instance,
        cluster,
        objective,
        admission,
        routers=routers,
        seed=seed,
        time_limit=_left(state, time_limit, 0.5),
    ):
        state.found(f"routing: {start.name}", float(start.value), start.worker)
    if state.met or instance.requests == 0:
        return
    assert state.worker is not None
    # a program finds routings itself, so that the search is but a good start for it
    seconds = _left(state, time_limit, 0.1 if method != "pooled" else 0.9) or 20.0
    found = local_search(
        instance,
        cluster,
        objective,
        state.worker,
        admission,
        seed=seed,
        time_limit=min(seconds, 2.0) if method != "pooled" else seconds,
        steps=max(2000, 50 * instance.requests * cluster.workers),
        target=state.lower * (1 + TOLERANCE),
        progress=lambda _, best: state.note("local search", float(best)),
    )
    state.found("local search", float(found.value), found.worker)


def _program(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission,
    method: str,
    solver: str | None,
    time_limit: float | None,
    mip_gap: float,
    state: _State,
) -> JointSolution:
    name = "integer program" if method == "mip" else "linear program"
    found = solve_joint(
        instance,
        cluster,
        objective,
        admission,
        incumbent=state.worker if method == "mip" else None,
        integral=method == "mip",
        solver=solver,
        time_limit=_left(state, time_limit),
        mip_gap=mip_gap,
        progress=lambda seconds, best, bound: state.proved(name, bound),
    )
    state.proved(name, found.lower)
    if found.routing is not None:
        hits = best_for_routing(instance, cluster, found.routing, admission)[1]
        reached = float(value(objective, instance, cluster, found.routing, hits))
        state.found(f"routing of the {name}", reached, found.routing)
    return found


def _schedule(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission,
    state: _State,
) -> tuple[Schedule, Instance]:
    """The best schedule for the routing found, and the instance whose edges it names."""
    worker: Any = state.worker
    schedule, hits = best_for_routing(instance, cluster, worker, admission)
    state.upper = float(value(objective, instance, cluster, worker, hits))
    if objective == "misses" or not cluster.alpha_depth.any():
        return schedule, instance
    if (
        int(path_units(instance).sum()) > MOST_UNITS
        or (cluster.alpha_miss < cluster.alpha_cached).any()
    ):
        return schedule, instance
    # deeper units cost more, so Belady's evictions are not the best
    try:
        better = best_weighted_for_routing(instance, cluster, worker, admission)
    except InputError:
        return schedule, instance
    units = instance.uncompressed()
    reached = float(value(objective, units, cluster, worker, better.hits))
    if reached >= state.upper:
        return schedule, instance
    state.found("evictions by depth", reached, worker)
    return better.schedule, units
