"""Carry out a schedule of one cache whose units differ in value or size, step by step."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.offline.schedule import Schedule, ScheduleError


def replay_weighted(
    schedule: Schedule,
    instance: Instance,
    capacity: int,
    *,
    unit_value: np.ndarray,
    unit_size: np.ndarray | None = None,
    leaf_rule: bool = True,
) -> tuple[float, np.ndarray]:
    """Serve every query as the schedule says, with one cache that is empty at the start.

    Parameters
    ----------
    schedule
        Of the uncompressed instance: its edges are units, its kept lengths 0 or 1.
    instance
        The uncompressed instance.
    capacity
        Total size that the cache holds.
    unit_value
        float64[units].
    unit_size
        int64[units], or None for 1.
    leaf_rule
        Whether a unit may only stay while the one above it does.

    Returns
    -------
    saved, hits
        The value of all hits, and int64[n] how many units of each query hit.

    Raises
    ------
    ScheduleError
        Naming the first step that evicts what is not there or what is on the served path (forced
        admission), keeps a unit below one that is gone, or exceeds the capacity.

    Notes
    -----
    Plain sets, unit by unit, on purpose: this is what the programs are checked against.
    """
    tree = instance.tree
    if (tree.length != 1).any():
        raise ScheduleError("the instance is compressed: replay on instance.uncompressed()")
    if schedule.steps != instance.requests:
        raise ScheduleError(f"{schedule.steps} steps for {instance.requests} queries")
    size = [1] * tree.edges if unit_size is None else np.asarray(unit_size).tolist()
    value, parent = np.asarray(unit_value).tolist(), tree.parent.tolist()
    forced = schedule.admission == "forced"
    cache: set[int] = set()
    saved, used = 0.0, 0
    hits = np.zeros(instance.requests, np.int64)
    for t, query in enumerate(instance.query.tolist()):
        path = tree.path(query)
        there = [unit for unit in path if unit in cache]
        hits[t] = len(there)
        saved += sum(value[unit] for unit in there)
        if not forced:
            used += sum(size[unit] for unit in path if unit not in cache)
            cache.update(path)
        changes = slice(schedule.start[t], schedule.start[t + 1])
        gone = schedule.edge[changes].tolist()
        if schedule.kept[changes].any():
            raise ScheduleError(f"step {t}: a unit is kept or goes, nothing in between")
        for unit in gone:
            if unit not in cache:
                raise ScheduleError(f"step {t}: unit {unit} goes, but is not cached")
            if forced and unit in path:
                raise ScheduleError(f"step {t}: unit {unit} goes, but is on the path being served")
            cache.remove(unit)
            used -= size[unit]
        if forced:
            used += sum(size[unit] for unit in path if unit not in cache)
            cache.update(path)
        if used > capacity:
            raise ScheduleError(f"step {t}: size {used} is cached, but the cache holds {capacity}")
        if leaf_rule and gone:
            lost = set(gone) - cache
            orphan = [unit for unit in cache if parent[unit] in lost]
            if orphan:
                raise ScheduleError(
                    f"step {t}: unit {min(orphan)} stays, but {parent[min(orphan)]} above it goes"
                )
    return saved, hits
