"""Belady's rule on a prefix tree: the leaf unit whose next use is farthest goes first."""

from array import array
from heapq import heappop, heappush

import numpy as np

from kvtheory.instance import Instance, RequestLog
from kvtheory.next_use import NEVER, next_use, query_of
from kvtheory.offline.schedule import Admission, Schedule, check_admission
from kvtheory.oversize import path_units


def belady(
    instance: Instance, capacity: int, admission: Admission = "forced", *, skip: bool = False
) -> tuple[Schedule, np.ndarray]:
    """Fewest misses of one cache, and how to get them.

    Parameters
    ----------
    instance
        The request sequence.
    capacity
        Units of the cache.
    admission
        ``"forced"``: the served path stays cached. ``"bypass"``: any ``capacity`` units of cache
        and path may stay, ancestors first.
    skip
        Whether a query longer than the cache only counts its hits. Otherwise there must be none
        (`kvtheory.oversize.check_oversize`).

    Returns
    -------
    schedule, hits
        What each step evicts, and int64[n] the hits of each query in units.

    Notes
    -----
    Guarantee: optimal with equal miss costs, unless a query is skipped. A descendant's next use
    is never earlier than its ancestor's, so evicting leaves only costs nothing, and an edge can
    be evicted from its end, as a whole where that is needed.

    Cost: O(P log P) for P edges on all paths, in plain Python. Edges that are never used again
    go first and need no heap: they are a queue in the order of the log, where a descendant comes
    before its ancestors. For the others the heap holds one integer, minus the position of the
    next use in a log with the root first on each path, so that among edges with the same next
    use the deepest comes first. The entry of an edge that has been used again stays: every
    cached edge off the path has a later next use, so it is never reached.

    References
    ----------
    Belady (1966), A study of replacement algorithms for a virtual-storage computer.
    """
    check_admission(admission)
    log, n = instance.log, instance.requests
    units = path_units(instance)
    served = units <= capacity if skip else np.ones(n, bool)
    owner = query_of(log)
    turned = log.start[owner] + log.start[owner + 1] - 1 - np.arange(len(owner), dtype=np.int32)
    down = log.edge[turned]
    following = next_use(RequestLog(log.start, down), served)
    dead = (following == NEVER) & served[owner]
    dead_count = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(owner[dead], minlength=n), out=dead_count[1:])
    # On a path the dead edges are the deepest.
    living = np.where(served, log.start[1:] - np.diff(dead_count), log.start[:-1])
    misses, start, edge, kept = _serve(
        admission == "bypass",
        capacity,
        log.start.tolist(),
        down.tolist(),
        (-following).tolist(),
        instance.tree.length.tolist(),
        served.tolist(),
        living.tolist(),
        log.edge[dead[turned]].tolist(),
        dead_count.tolist(),
    )
    schedule = Schedule(admission, np.zeros(n, np.int32), start, edge, kept)
    return schedule, units - misses


def _serve(
    bypass: bool,
    capacity: int,
    start: list[int],
    down: list[int],
    keys: list[int],
    length: list[int],
    served: list[bool],
    living: list[int],
    dead: list[int],
    dead_count: list[int],
) -> tuple[np.ndarray, ...]:
    misses, change_start, change_edge, change_kept = (array("i") for _ in range(4))
    change_start.append(0)
    cached = [0] * len(length)
    heap: list[int] = []
    used = head = 0
    for t in range(len(served)):
        first, stop = start[t], start[t + 1]
        missing, p = 0, stop
        while p > first:  # upwards, until an edge is whole: so is everything above it
            e = down[p - 1]
            gap = length[e] - cached[e]
            if not gap:
                break
            missing += gap
            p -= 1
        misses.append(missing)
        if served[t]:
            used += missing
            if bypass:
                for e in down[p:stop]:
                    cached[e] = length[e]
                for key in keys[first : living[t]]:
                    heappush(heap, key)
            tail = dead_count[t + bypass]
            while used > capacity:
                idle = head < tail
                e = dead[head] if idle else down[-heap[0]]
                kept = cached[e] - (used - capacity)
                if kept <= 0:
                    kept = 0
                    if idle:
                        head += 1
                    else:
                        heappop(heap)
                used -= cached[e] - kept
                cached[e] = kept
                change_edge.append(e)
                change_kept.append(kept)
            if not bypass:
                for e in down[p:stop]:
                    cached[e] = length[e]
                for key in keys[first : living[t]]:
                    heappush(heap, key)
        change_start.append(len(change_edge))
    out = (misses, change_start, change_edge, change_kept)
    return tuple(np.array(values, np.int32) for values in out)
