"""The optimum of one cache as an interval, with a schedule that has been replayed."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kvtheory.cluster import Cluster, capacity_units
from kvtheory.errors import InputError, bad, unknown
from kvtheory.instance import Instance
from kvtheory.offline.belady import belady
from kvtheory.offline.certificate import (
    TOLERANCE,
    Certificate,
    consecutive_uses,
    hits_bound,
    room,
)
from kvtheory.offline.exchange import close, schedule_of
from kvtheory.offline.interval_lp import solve_interval_lp
from kvtheory.offline.layers import optimum_over_time
from kvtheory.offline.objective import Objective
from kvtheory.offline.replay import verify
from kvtheory.offline.schedule import Admission, Schedule, check_admission
from kvtheory.oversize import Oversize, check_oversize, path_units
from kvtheory.rows import check_queries_alone

if TYPE_CHECKING:
    from kvtheory.offline.joint_certificate import JointCertificate

Method = Literal["auto", "belady", "layers", "interval_lp", "lp", "mip", "pooled"]
_METHODS = {
    "auto": "belady",
    "belady": "belady",
    "layers": "layers",
    "interval_lp": "interval_lp",
    "lp": "interval_lp",
}


@dataclass(frozen=True, eq=False)
class Optimum:
    """Fewest misses of one cache: no schedule has fewer than ``lower``, this one has ``upper``.

    Parameters
    ----------
    lower, upper
        Misses in units, those below a cut included. Equal if the optimum is exact.
    schedule
        Replayed from empty caches: it has exactly ``upper`` misses. Its edges are those of
        ``check_oversize(instance, capacity, oversize)``.
    method
        ``"belady"``, ``"layers"`` or ``"interval_lp"``.
    status
        ``"optimal"``; ``"heuristic"`` if queries were skipped; ``"time limit"``, or ``"limit"``
        for another one; ``"failed: …"`` with the solver's reason. The bounds hold in any case.
    seconds
        Wall time, the replay included.
    certificate
        Prices of cache space that prove ``lower`` (`check_certificate`), None without a program.
    admission
        ``"forced"`` or ``"bypass"``: which problem this is the optimum of.
    hits
        int64[n]; hits of each query under the schedule.
    objective, why, trace, instance
        Of a cluster (`kvtheory.offline.joint.joint_optimum`): what is minimised, in units or
        seconds; why the method was chosen; (seconds, lower, upper) as they came; and the instance
        whose edges the schedule names.
    """

    lower: int | float
    upper: int | float
    schedule: Schedule
    method: str
    status: str
    seconds: float
    certificate: "Certificate | JointCertificate | None"
    admission: Admission
    hits: np.ndarray
    objective: str = "misses"
    why: str = ""
    trace: tuple[tuple[float, float, float], ...] = ()
    instance: Instance | None = None

    @property
    def exact(self) -> bool:
        """Whether the bounds meet."""
        return self.lower == self.upper

    @property
    def gap(self) -> float:
        """(upper − lower) / upper, 0 if the bounds meet."""
        return (self.upper - self.lower) / self.upper if self.upper > self.lower else 0.0


def optimum(
    instance: Instance,
    capacity: int | str | Cluster,
    objective: Objective = "misses",
    *,
    admission: Admission = "forced",
    method: Method = "auto",
    oversize: Oversize = "error",
    solver: str | None = None,
    time_limit: float | None = None,
    solver_options: Mapping[str, Any] | None = None,
) -> Optimum:
    """The fewest misses with which one cache can serve the whole sequence, known in advance.

    Parameters
    ----------
    instance
        The request sequence; `Instance.prefix` gives the optimum of its first queries.
    capacity
        Units of the cache, or text as for `kvtheory.cluster.capacity_units`. A `Cluster` asks for
        the optimum of routing and eviction together: `kvtheory.offline.joint.joint_optimum`, which
        also takes the other methods and has more options.
    objective
        ``"misses"``; of a cluster also ``"cost"`` or ``"makespan"``.
    admission
        ``"forced"``: the served path must be cached, as for every policy. ``"bypass"``: any
        units of cache and path may stay, so this bounds every policy from below.
    method
        ``"belady"`` (``"auto"``): exact, O(P log P). ``"layers"``: ``lower`` comes from one online
        pass (`kvtheory.offline.layers`, forced admission only), the schedule is Belady's.
        ``"interval_lp"`` (or ``"lp"``): a linear program that comes with a certificate.
    oversize
        What to do with queries longer than the cache (`kvtheory.oversize`). With ``"skip"``
        Belady's rule is a heuristic, and ``lower`` counts first uses only.
    solver, time_limit, solver_options
        Of the linear program: a cvxpy solver (HiGHS if None), its seconds and its own options.
        If it ends early, the schedule is Belady's and ``lower`` what its prices prove.

    Raises
    ------
    InputError
        For a query longer than the cache with ``oversize="error"``, an unknown method or
        solver, or a combination that has no meaning.

    Notes
    -----
    Guarantee: exact with equal miss costs unless the status says otherwise. The schedule is
    replayed on every call (`verify`), so ``upper`` rests on no solver.

    Examples
    --------
    >>> cycle = Instance.from_blocks([[1], [2], [3], [4]] * 4)
    >>> forced = optimum(cycle, 3)
    >>> forced.lower, forced.upper, forced.status
    (8, 8, 'optimal')
    >>> optimum(cycle, 3, admission="bypass").upper
    7
    """
    began = time.perf_counter()
    if isinstance(capacity, Cluster):
        from kvtheory.offline.joint import joint_optimum

        if solver_options is not None:
            raise bad("solver_options", solver_options, "are for one cache: pass its capacity")
        return joint_optimum(
            instance,
            capacity,
            objective,
            admission=admission,
            method=method,  # type: ignore[arg-type]
            oversize=oversize,  # type: ignore[arg-type]
            solver=solver,
            time_limit=time_limit,
        )
    if objective != "misses":
        raise bad("objective", objective, "needs a Cluster in place of the capacity")
    check_admission(admission)
    if method not in _METHODS:
        raise unknown("method", method, _METHODS)
    method = _METHODS[method]  # type: ignore[assignment]
    if method != "interval_lp":
        for name, value in (("solver", solver), ("solver_options", solver_options)):
            if value is not None:
                raise bad(name, value, f"{method.capitalize()} needs no solver; use 'interval_lp'")
    if method == "layers" and admission != "forced":
        raise bad("admission", admission, "the layers are those of forced admission")
    check_queries_alone(instance, "the optimum")
    size = capacity_units(capacity, instance)
    instance = check_oversize(instance, size, oversize)
    skipped = int((path_units(instance) > size).sum())
    if skipped and method == "interval_lp":
        raise InputError(
            f"{skipped} queries are longer than the cache of {size} units, and the interval LP "
            "has no way to skip them: use method='belady' or oversize='truncate'"
        )

    requested = instance.units_requested
    status, certificate = "optimal", None
    if method != "interval_lp":
        schedule, served = belady(instance, size, admission, skip=oversize == "skip")
        upper = lower = requested - int(served.sum())
        if method == "layers" and instance.requests:
            lower = int(optimum_over_time(instance, size, oversize=oversize)[-1])
        if skipped:
            status = "heuristic"
            lower = requested - int(consecutive_uses(instance, admission).length.sum())
    else:
        solution = solve_interval_lp(
            instance,
            size,
            admission,
            solver=solver,
            time_limit=time_limit,
            solver_options=solver_options,
        )
        status, certificate = solution.ending.status, solution.certificate
        bound = hits_bound(
            certificate.price,
            consecutive_uses(instance, admission),
            room(instance, size, admission),
        )
        lower = requested - int(np.floor(bound + TOLERANCE))
        if solution.whole and certificate.kept is not None:
            kept = close(certificate.kept, instance)
            schedule = schedule_of(kept, instance, admission)
            upper = requested - int(kept.sum())
        else:
            if status == "optimal":
                status = "optimal, but fractional: the schedule is Belady's"
            schedule, served = belady(instance, size, admission)
            upper = requested - int(served.sum())
    hits = verify(schedule, instance, size, upper, oversize=oversize)
    hits.setflags(write=False)
    return Optimum(
        lower=lower,
        upper=upper,
        schedule=schedule,
        method=method,
        status=status,
        seconds=time.perf_counter() - began,
        certificate=certificate,
        admission=admission,
        hits=hits,
    )
