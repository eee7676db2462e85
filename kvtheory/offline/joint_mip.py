"""Lower bounds on routing and eviction together, and routings, from a linear or integer program."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline import solver as solvers
from kvtheory.offline.equal_workers import renamed
from kvtheory.offline.fixed_routing import check_routing, routed_hits
from kvtheory.offline.integer_solver import Progress, Search, search
from kvtheory.offline.joint_certificate import JointCertificate, too_long
from kvtheory.offline.joint_lp import solve_relaxation, variables
from kvtheory.offline.joint_program import JointProgram, joint_program
from kvtheory.offline.objective import (
    Objective,
    alpha_depth,
    check_objective,
    check_plain,
    value,
)
from kvtheory.offline.pooled import lower_bounds
from kvtheory.offline.schedule import Admission, check_admission
from kvtheory.oversize import path_units

# Edges on all paths of the uncompressed tree, times workers, up to which costs that depend on
# depth are modelled unit by unit.
_MOST_UNITS = 20_000


@dataclass(frozen=True, eq=False)
class JointSolution:
    """What a program of routing and eviction gave.

    Parameters
    ----------
    lower
        No schedule has a smaller objective, in seconds or units, but for rounding (1e-6,
        relative): the best of the bounds without a program, what the prices prove (linear program)
        or the solver proved (integer program), rounded up to the grain of the costs.
    routing
        int32[n], who serves each query, or None. Its objective is for
        `kvtheory.offline.fixed_routing.best_for_routing` to say.
    ending
        How the solver ended.
    certificate
        Prices that prove a bound by themselves (`check_joint_certificate`), from the linear
        program; None for the integer program.
    seconds
        Wall time.
    sizes
        Rows, columns, whole columns and nonzeros of the program.
    exact_model
        False if the program is only a relaxation: costs that depend on depth, on long edges.
    """

    lower: float
    routing: np.ndarray | None
    ending: solvers.Ending
    certificate: JointCertificate | None
    seconds: float
    sizes: Mapping[str, int]
    exact_model: bool = True


def solve_joint(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission = "forced",
    *,
    incumbent: np.ndarray | None = None,
    integral: bool = True,
    solver: str | None = None,
    time_limit: float | None = None,
    mip_gap: float = 0.0,
    solver_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> JointSolution:
    """Bound the joint problem from below and look for a good routing.

    Parameters
    ----------
    instance, cluster
        The queries and the workers. A query that is longer than a worker's cache cannot go there.
    objective
        ``"misses"`` in units, ``"cost"`` (the sum of service) or ``"makespan"`` (the largest sum of
        service on a worker) in seconds.
    admission
        ``"forced"`` or ``"bypass"``.
    incumbent
        int[n]; a routing to begin from, or None. Integer program only.
    integral
        True: the integer program. False: its linear relaxation, with prices.
    solver
        A cvxpy solver that takes whole variables (any, for the relaxation); HiGHS if None.
    time_limit
        Seconds for building and solving, or None.
    mip_gap
        Relative gap between bound and solution at which to stop.
    solver_options
        Options of the solver under its own names.
    progress
        Called with seconds, the best objective of the program so far or None, and the bound so far.

    Raises
    ------
    InputError
        For a query longer than every cache, an incumbent that cannot be carried out, a solver that
        is not there or refuses an option, and what
        `kvtheory.offline.objective.check_plain` refuses.

    Notes
    -----
    Guarantee: ``lower`` holds however the solver ended, up to its tolerances; with
    ``integral=False`` up to rounding alone. ``ending.status == "optimal"`` and ``exact_model`` mean
    that ``routing``, with the best evictions for it, is within ``mip_gap`` of the optimum. That it
    is NP-hard even with distinct queries (PARTITION) shows in the time.

    The value of the linear program is the pooled bound or better; with workers that share every
    query evenly it charges each unit once for all of them, so with equal workers it is seldom
    more. Where α_cached > α_miss, hits cost, and the program, which need not take a hit, only
    gives a bound.

    Cost: 2 M (n + G) columns for G gaps, G <= P. Measured on 2 cores with shared prefixes and the
    makespan: 40 queries on 2 workers under a second, 60 on 2 from 1 to 20 s, 40 on 3 from 1 to 4 s,
    100 on 2 within 10 s, to 2 % in 2 s.

    References
    ----------
    Huangfu and Hall (2018), Parallelizing the dual revised simplex method (HiGHS).
    """
    began = time.perf_counter()
    check_objective(objective)
    check_admission(admission)
    check_plain(instance, cluster)
    name = solvers.choose(solver, integer=integral)
    nowhere = np.flatnonzero(path_units(instance) > cluster.capacity.max())
    if len(nowhere):
        raise too_long(instance, cluster, int(nowhere[0]))
    if incumbent is not None:
        incumbent = check_routing(instance, cluster, incumbent)
    if instance.requests == 0:
        routing, done = np.zeros(0, np.int32), solvers.Ending("optimal", True)
        return JointSolution(0.0, routing, done, None, 0.0, {})
    least = float(lower_bounds(instance, cluster, objective, admission)[0].value)
    model = instance
    if objective != "misses" and np.any(alpha_depth(cluster)):
        units = int(path_units(instance).sum())
        if units * cluster.workers <= _MOST_UNITS:
            model = instance.uncompressed()
    exact = model is not instance or objective == "misses" or not np.any(alpha_depth(cluster))
    exact |= bool((instance.tree.length == 1).all())
    program = joint_program(model, cluster, objective, admission, integral=integral, least=least)
    if time_limit is not None and time_limit > 0:
        time_limit = max(time_limit - (time.perf_counter() - began), 1e-3)

    if integral:
        found, routing = _integer(
            program,
            instance,
            cluster,
            objective,
            admission,
            name,
            incumbent,
            time_limit,
            mip_gap,
            solver_options,
            progress,
        )
        certificate, ending, bound = None, found.ending, found.bound * program.scale
    else:
        certificate, ending, routing = solve_relaxation(
            program,
            model,
            cluster,
            objective,
            admission,
            name,
            time_limit,
            solver_options,
            model is not instance,
        )
        bound = certificate.bound
        if progress is not None:
            progress(time.perf_counter() - began, None, bound)
    lower = max(least, rounded(max(bound, least), program.grain))
    return JointSolution(
        lower,
        routing,
        ending,
        certificate,
        time.perf_counter() - began,
        program.sizes,
        exact,
    )


def rounded(bound: float, grain: float) -> float:
    """A bound on a multiple of ``grain`` (0: on any number), less what solvers may be off."""
    if not math.isfinite(bound):
        return 0.0
    if not grain:
        return bound - 1e-7 * abs(bound)
    steps = bound / grain
    return math.ceil(steps - max(1e-3, 1e-7 * abs(steps))) * grain


def _integer(
    program: JointProgram,
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission,
    name: str,
    incumbent: np.ndarray | None,
    time_limit: float | None,
    mip_gap: float,
    options: Mapping[str, Any] | None,
    progress: Progress | None,
) -> tuple[Search, np.ndarray | None]:
    w, y, _, problem = variables(program)
    places = cluster.workers * instance.requests
    start = None
    if incumbent is not None:
        hits = routed_hits(instance, cluster, incumbent, admission)
        reached = value(objective, instance, cluster, incumbent, hits) / program.scale
        columns = np.zeros(program.columns)
        routing = renamed(incumbent, instance, cluster, objective)
        columns[routing.astype(np.int64) * instance.requests + np.arange(instance.requests)] = 1
        columns[-1] = math.ceil(reached - 1e-6) if program.grain else reached
        rest = np.setdiff1d(np.arange(program.columns), program.whole)
        start = {w: columns[program.whole], y: columns[rest]}

    def tell(seconds: float, best: float | None, bound: float) -> None:
        if progress is not None:
            scale = program.scale
            progress(seconds, None if best is None else best * scale, bound * scale)

    found = search(
        problem,
        name,
        time_limit=time_limit,
        mip_gap=mip_gap,
        options=options,
        start=start,
        progress=None if progress is None else tell,
    )
    routing = None
    if found.ending.solution and w.value is not None:
        share = np.asarray(w.value)[:places].reshape(cluster.workers, instance.requests)
        share = np.where(program.costs.fits, share, -1.0)
        routing = share.argmax(axis=0).astype(np.int32)
    return found, routing
