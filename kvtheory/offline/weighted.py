"""One cache whose units differ in value or size: a linear program, then an integer program."""

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance
from kvtheory.next_use import query_of
from kvtheory.offline import solver as solvers
from kvtheory.offline.belady import belady
from kvtheory.offline.exchange import schedule_of
from kvtheory.offline.integer_solver import Progress, search
from kvtheory.offline.objective import alpha_depth
from kvtheory.offline.schedule import Admission, Schedule, ScheduleError, check_admission
from kvtheory.offline.weighted_program import (
    Pairs,
    WeightedCertificate,
    better,
    saved_bound,
    weighted_pairs,
    weighted_program,
)
from kvtheory.offline.weighted_replay import replay_weighted

_WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class WeightedSolution:
    """The most value that a cache can save: at least ``lower``, at most ``upper``.

    Parameters
    ----------
    lower
        Value that ``schedule`` saves, by a replay.
    upper
        No schedule saves more: the smaller of what the certificate and the solver prove.
    schedule
        On the uncompressed instance, one unit an edge.
    hits
        int64[n]; units of each query that hit.
    ending
        How the last solve ended.
    method
        ``"mip"`` if the linear program was fractional, else ``"lp"``.
    certificate
        Prices, from the linear program.
    seconds
        Wall time.
    """

    lower: float
    upper: float
    schedule: Schedule
    hits: np.ndarray
    ending: solvers.Ending
    method: str
    certificate: WeightedCertificate
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether the bounds meet, to 1e-6."""
        return self.upper - self.lower <= 1e-6 * max(1.0, abs(self.upper))


def depth_values(instance: Instance, cluster: Cluster, worker: int = 0) -> np.ndarray:
    """float64[units]; seconds that a hit on each unit saves on a worker.

    A unit at depth d, 1 at the root, costs α_miss + α_depth·d if it is missed and α_cached if it is
    hit, divided by the speed.
    """
    depth = instance.uncompressed().tree.depth
    rate = cluster.alpha_miss[worker] - cluster.alpha_cached[worker]
    return (rate + alpha_depth(cluster)[worker] * depth) / cluster.speed[worker]


def solve_weighted(
    instance: Instance,
    capacity: int,
    admission: Admission = "forced",
    *,
    unit_value: np.ndarray,
    unit_size: np.ndarray | None = None,
    leaf_rule: bool = True,
    solver: str | None = None,
    time_limit: float | None = None,
    mip_gap: float = 0.0,
    solver_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> WeightedSolution:
    """The most value that one cache can save, everything known in advance.

    Parameters
    ----------
    instance
        The request sequence.
    capacity
        Total size of the units that the cache holds.
    admission
        ``"forced"``: the served path stays. ``"bypass"``: anything of cache and path may stay.
    unit_value
        float64[units], not negative; saved by a hit on each unit of the uncompressed tree, for
        example `depth_values`.
    unit_size
        int64[units], at least 1; None for 1 everywhere.
    leaf_rule
        Whether a unit may only stay while those above it do. Without it a unit counts as a hit
        whatever is above it: no cache of prefixes, but a bound, and a measure of what the rule
        costs.
    solver, time_limit, mip_gap, solver_options
        Of both programs. The solver must take whole variables; HiGHS if None.
    progress
        Called with seconds, the value saved so far or None, and the upper bound.

    Raises
    ------
    InputError
        If the arrays do not fit, or for a query whose path is larger than the cache.

    Notes
    -----
    Model. For each pair s < t of consecutive uses of a unit, z says whether it is kept in between.
    Maximise Σ value·z subject to the room at each query (an occupancy recursion), and z of a unit
    at most z of each pair of the unit above it within s … t. With equal sizes and without the last
    rows the matrix has consecutive ones and the linear program is whole; with them or with sizes
    (a knapsack) it need not be, and then the pairs are made whole.

    Guarantee: ``lower`` is replayed and ``upper`` proved, by the certificate for every set of
    prices, or by the solver up to its tolerances, whatever time there was. With equal values and
    sizes use Belady's rule instead.

    Cost: a column for each pair, a row for each pair of the unit above within another.

    Examples
    --------
    >>> sequence = Instance.from_tokens([[1, 3], [6], [6, 7], [1], [1, 3]])
    >>> value = np.array([1.0, 8.0, 8.0, 8.0])
    >>> for rule in (True, False):
    ...     solve_weighted(sequence, 2, "bypass", unit_value=value, leaf_rule=rule).lower
    10.0
    17.0
    """
    began = time.perf_counter()
    check_admission(admission)
    name = solvers.choose(solver, integer=True)
    units = instance.uncompressed()
    value, size = _checked(units, capacity, unit_value, unit_size)
    pairs = weighted_pairs(units, capacity, admission, value, size, leaf_rule)
    problem, z, limits = weighted_program(pairs, units.requests)

    ending = solvers.Ending("optimal", True)
    certificate = WeightedCertificate(np.zeros(units.requests), np.zeros(len(pairs.below)))
    if problem is not None:
        ending = solvers.solve(problem, name, time_limit=time_limit, options=solver_options)
        certificate = better(certificate, limits, pairs)
    upper = saved_bound(certificate, pairs)
    replayed = partial(
        replay_weighted,
        instance=units,
        capacity=capacity,
        unit_value=value,
        unit_size=size,
        leaf_rule=leaf_rule,
    )

    def carried_out(chosen: np.ndarray | None) -> _Outcome:
        schedule = schedule_of(_kept(chosen, pairs, units), units, admission)
        return _Outcome(*replayed(schedule), schedule)

    best = carried_out(None)
    if leaf_rule and (size == 1).all():
        schedule, _ = belady(units, capacity, admission)
        best = max(best, _Outcome(*replayed(schedule), schedule), key=_saved)
    # what a solver leaves at a limit need not keep to the room
    solved = problem is not None and ending.status == "optimal" and z.value is not None
    if solved:
        best = max(best, carried_out(z.value), key=_saved)
    if progress is not None:
        progress(time.perf_counter() - began, best.saved, upper)
    method = "lp"
    if solved and np.abs(z.value - np.rint(z.value)).max() > _WHOLE:
        method, ending = "mip", solvers.Ending("time limit", True)
        left = None if time_limit is None else time_limit - (time.perf_counter() - began)
        if left is None or left > 0:
            problem, z, _ = weighted_program(pairs, units.requests, integer=True)
            found = search(
                problem,
                name,
                time_limit=left,
                mip_gap=mip_gap,
                options=solver_options,
                progress=None if progress is None else _turned(progress),
            )
            ending = found.ending
            if math.isfinite(found.bound):
                upper = min(upper, -found.bound + 1e-7 * abs(found.bound))
            if ending.solution:
                with contextlib.suppress(ScheduleError):
                    best = max(best, carried_out(z.value), key=_saved)
    return WeightedSolution(
        best.saved,
        max(upper, best.saved),
        best.schedule,
        best.hits,
        ending,
        method,
        certificate,
        time.perf_counter() - began,
    )


def _checked(
    units: Instance, capacity: int, value: np.ndarray, size: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    count = units.tree.edges
    value = np.asarray(value, np.float64)
    given = np.ones(count, np.int64) if size is None else np.asarray(size)
    for name, array in (("unit_value", value), ("unit_size", given)):
        if array.shape != (count,):
            raise bad(name, f"shape {array.shape}", f"need one for each of {count} units")
    if not (np.isfinite(value).all() and (value >= 0).all()):
        raise bad("unit_value", value, "must be finite and not negative")
    if not np.issubdtype(given.dtype, np.integer) or (given < 1).any():
        raise bad("unit_size", given, "must hold integers, at least 1")
    given = given.astype(np.int64)
    log = units.log
    path = np.bincount(query_of(log), given[log.edge], units.requests).astype(np.int64)
    long = np.flatnonzero(path > capacity)
    if len(long):
        t = int(long[0])
        raise InputError(
            f"query {t} has a path of size {int(path[t])} and the cache only {capacity}: use a "
            "larger capacity, or cut the instance"
        )
    return value, given


class _Outcome(NamedTuple):
    saved: float
    hits: np.ndarray
    schedule: Schedule


def _saved(outcome: _Outcome) -> float:
    return outcome.saved


def _kept(chosen: np.ndarray | None, pairs: Pairs, units: Instance) -> np.ndarray:
    """int64[P]; 1 where a pair is kept whole, and those above it too: rounding down is feasible."""
    whole = pairs.enter == pairs.leave  # from one query to the next: never in the way
    if chosen is not None:
        whole = whole | (np.asarray(chosen) >= 1 - _WHOLE)
    while (orphan := whole[pairs.below] & ~whole[pairs.above]).any():
        whole[pairs.below[orphan]] = False
    kept = np.zeros(len(units.log.edge), np.int64)
    kept[pairs.position[whole]] = 1
    return kept


def _turned(progress: Progress) -> Progress:
    """For a search that minimises what is not saved."""

    def tell(seconds: float, value: float | None, bound: float) -> None:
        progress(seconds, None if value is None else -value, -bound)

    return tell
