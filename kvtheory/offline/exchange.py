"""From units kept between uses to a schedule that keeps ancestors before descendants."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.next_use import NEVER, next_use, query_of
from kvtheory.offline.schedule import Admission, Schedule


def close(kept: np.ndarray, instance: Instance) -> np.ndarray:
    """Move kept units upwards until no edge is kept below one that is not whole.

    Parameters
    ----------
    kept
        int64[P]; units kept between each use and the next, as in `Certificate`.
    instance
        The request sequence.

    Returns
    -------
    int64[P]
        No fewer units in total, at no time more of them.

    Notes
    -----
    Every use of an edge is a use of its ancestors, so between two consecutive uses of the edge
    an ancestor's uses cut that time into parts. If the ancestor is not whole in some part, units
    of the edge are exchanged for its missing ones: they take no more space and save as many
    misses. Levels are settled from the root down, in each the topmost ancestors first, so what
    is settled stays so.

    Cost: O(P) array work per level where something has to move, and one step per exchange.
    """
    tree, log = instance.tree, instance.log
    kept = kept.astype(np.int64)
    following = next_use(log)
    # `rank` numbers the uses edge by edge in order of time.
    order = np.lexsort((np.arange(len(log.edge)), log.edge))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    level = tree.level[log.edge]
    length = tree.length[log.edge].astype(np.int64)
    below = np.flatnonzero((following != NEVER) & (level > 1))
    start, end = rank[below + 1], rank[following[below] + 1]  # of the edge above, next in the log
    stop = log.start[query_of(log) + 1]
    missing = np.zeros(len(order) + 1, np.int64)
    while True:
        np.cumsum((kept < length)[order], out=missing[1:])
        wrong = below[(kept[below] > 0) & (missing[end] > missing[start])]
        if len(wrong) == 0:
            return kept
        for p in wrong[level[wrong] == level[wrong].min()].tolist():
            q = int(following[p])
            for up in range(int(stop[p]) - 1 - p, 0, -1):
                first, last = rank[p + up], rank[q + up]
                if missing[first] == missing[last]:
                    continue
                parts = order[first:last]
                for part in parts[kept[parts] < length[parts]].tolist():
                    moved = min(kept[p], length[part] - kept[part])
                    kept[part] += moved
                    kept[p] -= moved
                if kept[p] == 0:
                    break


def schedule_of(kept: np.ndarray, instance: Instance, admission: Admission) -> Schedule:
    """The schedule that drops, as soon as it may, all but ``kept`` int64[P] units after each use.

    Bypass drops them in the step of the use itself; forced admission in the next step, unless
    the edge is used there.
    """
    log, n = instance.log, instance.requests
    following, owner = next_use(log), query_of(log)
    drop = kept < instance.tree.length[log.edge]
    step = owner
    if admission == "forced":
        step = owner + 1
        again = following != NEVER
        at_once = np.zeros(len(owner), bool)
        at_once[again] = owner[following[again]] == step[again]
        drop &= (step < n) & ~at_once
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(step[drop], minlength=n), out=start[1:])
    return Schedule(admission, np.zeros(n, np.int32), start, log.edge[drop], kept[drop])
