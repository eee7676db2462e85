"""The joint program as a cvxpy problem, and its linear relaxation with prices."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline import solver as solvers
from kvtheory.offline.joint_certificate import JointCertificate, joint_bound
from kvtheory.offline.joint_program import JointProgram
from kvtheory.offline.objective import Objective
from kvtheory.offline.schedule import Admission

# Interior points and a crossover are several times faster than simplex on larger relaxations.
_MANY = 2_000


def variables(program: JointProgram) -> tuple[Any, Any, Any, Any]:
    """The whole columns (None if there are none), the others, the constraints, the problem."""
    import cvxpy as cp

    whole, lower, upper = program.whole, program.lower, program.upper
    rest = np.setdiff1d(np.arange(program.columns), whole)
    y = cp.Variable(len(rest), bounds=[lower[rest], upper[rest]])
    equal, below = program.equal[:, rest] @ y, program.below[:, rest] @ y
    w: Any = None
    if len(whole):
        w = cp.Variable(len(whole), integer=True, bounds=[lower[whole], upper[whole]])
        equal = equal + program.equal[:, whole] @ w
        below = below + program.below[:, whole] @ w
    goal, last = y, rest
    if program.columns - 1 in whole:
        goal, last = w, whole
    goal = goal[int(np.flatnonzero(last == program.columns - 1)[0])]
    constraints = [equal == program.equal_to, below <= program.at_most]
    return w, y, constraints, cp.Problem(cp.Minimize(goal), constraints)


def solve_relaxation(
    program: JointProgram,
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission,
    name: str,
    time_limit: float | None,
    options: Mapping[str, Any] | None,
    by_unit: bool,
) -> tuple[JointCertificate, solvers.Ending, np.ndarray | None]:
    """Prices from the relaxation, how it ended, and the routing that rounds its solution.

    The prices are valid if the solver failed: zeros. ``instance`` is the one that ``program`` was
    made for, uncompressed if ``by_unit``.
    """
    _, y, constraints, problem = variables(program)
    defaults = None
    if name == solvers.DEFAULT and program.columns > _MANY:
        defaults = {"solver": "ipm"}
    ending = solvers.solve(problem, name, time_limit=time_limit, options=options, defaults=defaults)
    workers, n, count = cluster.workers, instance.requests, len(program.gaps.enter)
    unit, scale = program.scale / program.step, program.scale
    dual = constraints[1].dual_value
    if dual is None or not np.isfinite(dual).all():
        dual = np.zeros(len(program.at_most))
    dual = np.maximum(np.asarray(dual), 0)

    def price(block: str, shape: tuple[int, ...]) -> np.ndarray:
        return dual[program.rows[block]].reshape(shape)

    load = np.ones(workers)
    if objective == "makespan":
        load = price("load", (workers,))
        load = load / load.sum() if load.sum() > 0 else np.full(workers, 1 / workers)
    certificate = JointCertificate(
        space=price("space", (workers, n)) * unit,
        load=load,
        link=price("link", (workers, count)) * unit,
        nested=price("nested", (workers, len(program.gaps.below))) * scale,
        bound=-math.inf,
        by_unit=by_unit,
    )
    gaps, costs = program.gaps, program.costs
    bound = joint_bound(certificate, instance, cluster, gaps, costs, objective, admission)
    object.__setattr__(certificate, "bound", bound)
    routing = None
    if y.value is not None:
        share = np.asarray(y.value)[: workers * n].reshape(workers, n)
        routing = np.where(costs.fits, share, -1.0).argmax(axis=0).astype(np.int32)
    return certificate, ending, routing
