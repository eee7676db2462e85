"""Carry a schedule out and refuse what a cache cannot do."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.offline.events import CHANGE, Events, events_of
from kvtheory.offline.evictions import evictions
from kvtheory.offline.schedule import Schedule, ScheduleError
from kvtheory.oversize import Oversize, path_units


def replay(
    schedule: Schedule,
    instance: Instance,
    capacity: int | np.ndarray,
    *,
    oversize: Oversize = "error",
) -> np.ndarray:
    """Serve every query as the schedule says, starting with empty caches.

    Parameters
    ----------
    schedule
        One step per query.
    instance
        The instance it was made for; already cut if the schedule was made with
        ``oversize="truncate"`` (`kvtheory.oversize.check_oversize`).
    capacity
        Units of the cache, or int[workers].
    oversize
        With ``"skip"`` a query longer than its cache counts its hits and loads nothing; otherwise
        it is an error of the schedule.

    Returns
    -------
    int64[n]
        Hits of each query in units.

    Raises
    ------
    ScheduleError
        Naming the first step that keeps what is not there, changes an edge twice, evicts from the
        path (forced admission), keeps an edge below one that is not whole, or exceeds the
        capacity.

    Notes
    -----
    Cost: one sort of P + k events, in numpy.
    """
    sizes = np.atleast_1d(np.asarray(capacity, np.int64))
    _check_ids(schedule, instance, len(sizes))
    units, room = path_units(instance), sizes[schedule.worker]
    too_long = units > room
    events = events_of(schedule, instance, too_long)
    problems = [
        _too_long(schedule, units, room, oversize),
        _impossible_changes(events, instance, schedule.admission),
        _broken_paths(events, instance, schedule),
        _overfull(events, schedule, sizes),
    ]
    found = [problem for problem in problems if problem is not None]
    if found:
        step, message = min(found, key=lambda problem: problem[0])
        raise ScheduleError(f"step {step}: {message}")
    use = events.kind != CHANGE
    # float64 holds these integers exactly
    hits = np.bincount(events.step[use], weights=events.before[use], minlength=schedule.steps)
    return hits.astype(np.int64)


def verify(
    schedule: Schedule,
    instance: Instance,
    capacity: int | np.ndarray,
    claimed_misses: int,
    *,
    oversize: Oversize = "error",
) -> np.ndarray:
    """Replay the schedule, twice, and insist on the number of misses that is claimed of it.

    Once in numpy (`replay`), and with one worker once more in the driver that runs the policies,
    which must hit the same units query by query. Parameters are those of `replay`; units below a
    cut (`Instance.beyond`) are always missed.

    Returns
    -------
    int64[n]
        Hits of each query.

    Raises
    ------
    ScheduleError
        If a step is impossible, if the two replays differ, or if the misses differ from
        ``claimed_misses``.
    """
    hits = replay(schedule, instance, capacity, oversize=oversize)
    misses = instance.units_requested - int(hits.sum())
    if misses != claimed_misses:
        raise ScheduleError(f"the schedule has {misses} misses, but {claimed_misses} are claimed")
    sizes = np.atleast_1d(capacity)
    if len(sizes) == 1:
        driven = _driven(schedule, instance, int(sizes[0]), oversize)
        wrong = np.flatnonzero(driven != hits)
        if len(wrong):
            t = int(wrong[0])
            raise ScheduleError(
                f"step {t}: the driver hits {int(driven[t])} units, the schedule {int(hits[t])}"
            )
    return hits


def _driven(
    schedule: Schedule, instance: Instance, capacity: int, oversize: Oversize
) -> np.ndarray:
    from kvtheory.eviction.replay import Replay
    from kvtheory.result import PolicyError
    from kvtheory.simulate import simulate

    start, edge, units = evictions(schedule, instance, capacity)
    policy = Replay.of(start, edge, units, bypass=schedule.admission == "bypass")
    try:
        result = simulate(instance, capacity, policy, oversize=oversize)
    except PolicyError as error:
        raise ScheduleError(f"the driver refuses the schedule: {error}") from error
    return result.hits[0].astype(np.int64)


def _check_ids(schedule: Schedule, instance: Instance, workers: int) -> None:
    if schedule.steps != instance.requests:
        raise bad(
            "schedule", f"{schedule.steps} steps", f"the instance has {instance.requests} queries"
        )
    limits = (("worker", workers), ("edge", instance.tree.edges))
    for name, limit in limits:
        ids = getattr(schedule, name)
        wrong = np.flatnonzero((ids < 0) | (ids >= limit))
        if len(wrong):
            i = int(wrong[0])
            t = i if name == "worker" else int(schedule.step_of()[i])
            raise ScheduleError(f"step {t}: {name} {int(ids[i])} is not one of {limit}")


def _too_long(
    schedule: Schedule, units: np.ndarray, room: np.ndarray, oversize: Oversize
) -> tuple[int, str] | None:
    wrong = units > room
    if oversize == "skip":
        wrong &= np.diff(schedule.start) > 0
    if not wrong.any():
        return None
    t = int(np.flatnonzero(wrong)[0])
    message = f"the query has {int(units[t])} units and its cache {int(room[t])}"
    return t, message + (", so nothing may change" if oversize == "skip" else "")


def _impossible_changes(
    events: Events, instance: Instance, admission: str
) -> tuple[int, str] | None:
    change = events.kind == CHANGE
    again = np.zeros(len(change), bool)
    again[1:] = (events.slot[1:] == events.slot[:-1]) & (events.step[1:] == events.step[:-1])
    problems = [
        (
            change & ((events.after > events.before) | (events.after < 0)),
            "keeps {after} units of edge {edge}, but only {before} are cached",
        ),
        (again & change & np.roll(change, 1), "changes edge {edge} twice"),
    ]
    if admission == "forced":
        problems.append(
            (
                again & ~change & np.roll(change, 1),
                "evicts from edge {edge}, which is on the path being served",
            )
        )
    found = []
    for wrong, text in problems:
        at = np.flatnonzero(wrong)
        if len(at):
            i = at[np.argmin(events.step[at])]
            message = text.format(
                edge=int(events.slot[i] % instance.tree.edges),
                before=int(events.before[i]),
                after=int(events.after[i]),
            )
            found.append((int(events.step[i]), message))
    return min(found, key=lambda problem: problem[0], default=None)


def _broken_paths(events: Events, instance: Instance, schedule: Schedule) -> tuple[int, str] | None:
    """An edge with cached units below an edge that is not whole, at the end of some step."""
    tree, span = instance.tree, schedule.steps + 1
    edge = events.slot % max(tree.edges, 1)
    cut = (events.kind == CHANGE) & (events.after < tree.length[edge])
    if not cut.any():
        return None
    # already sorted: events are ordered by slot, then step
    cuts = events.slot[cut] * span + events.step[cut]
    # An edge holds units from its event until the next one of the same slot, or the end.
    until = np.full(len(edge), schedule.steps, np.int64)
    same = events.slot[1:] == events.slot[:-1]
    until[:-1][same] = events.step[1:][same]
    child = np.flatnonzero((events.after > 0) & (tree.parent[edge] >= 0) & (events.step < until))
    above = (events.slot - edge)[child] + tree.parent[edge[child]]
    hit = np.searchsorted(cuts, above * span + events.step[child])
    broken = hit < len(cuts)
    broken[broken] = cuts[hit[broken]] < (above * span + until[child])[broken]
    if not broken.any():
        return None
    steps = cuts[hit[broken]] % span
    i = int(np.argmin(steps))
    lower = int(edge[child[np.flatnonzero(broken)[i]]])
    return int(steps[i]), (
        f"edge {lower} keeps units, but edge {int(tree.parent[lower])} above it is not whole"
    )


def _overfull(events: Events, schedule: Schedule, sizes: np.ndarray) -> tuple[int, str] | None:
    # Within a step the cache only shrinks and then grows (forced), or may be over-full until the
    # changes are made (bypass): what counts is the end of the step.
    delta = np.bincount(
        events.step, weights=events.after - events.before, minlength=schedule.steps
    ).astype(np.int64)
    order = np.argsort(schedule.worker, kind="stable")
    worker = schedule.worker[order]
    used = np.cumsum(delta[order])
    first = np.searchsorted(worker, np.arange(len(sizes)))
    base = np.append(0, used)[first]
    used = used - base[worker]
    over = np.flatnonzero(used > sizes[worker])
    if len(over) == 0:
        return None
    i = over[np.argmin(order[over])]
    return int(order[i]), f"{int(used[i])} units are cached, the cache holds {sizes[worker[i]]}"
