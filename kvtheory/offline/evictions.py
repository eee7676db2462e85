"""Schedules as lists of evictions, and back."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.offline.events import CHANGE, LOAD, events_of, latest
from kvtheory.offline.schedule import Admission, Schedule, ScheduleError
from kvtheory.oversize import path_units


def evictions(
    schedule: Schedule, instance: Instance, capacity: int | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The units that each step evicts, in an order in which only leaf units ever go.

    Takes a schedule that `replay` accepts (with ``oversize="skip"`` if need be).

    Returns
    -------
    start, edge, units
        int64[n + 1] the evictions of each step, int32[k'] the edges, int32[k'] how many units go
        from the end of each, at least 1; deeper edges first.
    """
    sizes = np.atleast_1d(np.asarray(capacity, np.int64))
    units = path_units(instance)
    events = events_of(schedule, instance, units > sizes[schedule.worker])
    gone = (events.kind == CHANGE) & (events.after < events.before)
    step, edge = events.step[gone], events.slot[gone] % max(instance.tree.edges, 1)
    count = (events.before - events.after)[gone]
    order = np.lexsort((-instance.tree.level[edge], step))
    start = np.zeros(schedule.steps + 1, np.int64)
    np.cumsum(np.bincount(step, minlength=schedule.steps), out=start[1:])
    return start, edge[order].astype(np.int32), count[order].astype(np.int32)


def from_evictions(
    instance: Instance,
    admission: Admission,
    start: np.ndarray,
    edge: np.ndarray,
    units: np.ndarray,
    worker: np.ndarray | None = None,
    skipped: np.ndarray | None = None,
) -> Schedule:
    """The schedule that evicts ``units[i]`` units from the end of ``edge[i]``, step by step.

    The inverse of `evictions`: ``start`` int[n + 1], ``edge`` and ``units`` int[k]; an edge may
    occur several times in a step. ``worker`` int[n] is 0 everywhere if left out, and ``skipped``
    bool[n], the queries that load nothing, False.

    Raises
    ------
    ScheduleError
        If more units are evicted from an edge than it has since its last load.
    """
    n, edges = instance.requests, max(instance.tree.edges, 1)
    worker = np.zeros(n, np.int32) if worker is None else np.asarray(worker, np.int32)
    step = np.repeat(np.arange(n), np.diff(start))
    pair, which = np.unique(step * edges + np.asarray(edge, np.int64), return_inverse=True)
    total = np.bincount(which, weights=units, minlength=len(pair)).astype(np.int64)
    step, edge = pair // edges, pair % edges
    bounds = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(step, minlength=n), out=bounds[1:])
    shape = Schedule(admission, worker, bounds, edge, np.zeros(len(edge), np.int32))
    events = events_of(shape, instance, np.zeros(n, bool) if skipped is None else skipped)
    # Units gone since the last load of the slot: a running sum, less its value at that load.
    change = events.kind == CHANGE
    lost = np.zeros(len(change), np.int64)
    lost[change] = total[events.source[change] - len(instance.log.edge)]
    gone = np.cumsum(lost)
    since = latest(events.kind == LOAD)
    loaded = (since >= 0) & (events.slot[np.maximum(since, 0)] == events.slot)
    full = np.where(loaded, instance.tree.length[events.slot % edges], 0) if len(gone) else gone
    left = full - (gone - np.where(loaded, gone[since], 0))
    wrong = np.flatnonzero(change & (left < 0))
    if len(wrong):
        i = wrong[np.argmin(events.step[wrong])]
        raise ScheduleError(
            f"step {int(events.step[i])}: edge {int(events.slot[i] % edges)} loses more units "
            "than are cached of it"
        )
    kept = np.empty(len(edge), np.int64)
    kept[events.source[change] - len(instance.log.edge)] = left[change]
    return Schedule(admission, worker, bounds, edge, kept)
