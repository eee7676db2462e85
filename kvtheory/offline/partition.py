"""A routing that keeps prefixes together and loads even: subtrees, the largest first."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.next_use import query_of
from kvtheory.offline.certificate import consecutive_uses
from kvtheory.offline.objective import Objective, check_objective
from kvtheory.offline.pooled import unavoidable
from kvtheory.oversize import path_units


def partition(
    instance: Instance, cluster: Cluster, objective: Objective = "makespan", *, grain: int = 1
) -> np.ndarray:
    """Cut the tree into subtrees and spread them over the workers, most work first.

    Parameters
    ----------
    instance, cluster
        The queries and the workers.
    objective
        A subtree goes where the load is then smallest (``"makespan"``), or where misses or cost
        rise least and, if that is nowhere, where the cache is least full.
    grain
        A subtree with more than 1/grain of the mean load of a worker is cut into those below it
        and the queries that end at its top.

    Returns
    -------
    int32[n]
        A worker for each query, all with caches that it fits in.

    Notes
    -----
    A heuristic. A load is the unavoidable work and an estimate of what a full cache adds: if the
    units that wait for their next use take more space, on average over time, than the cache has
    beside a path, the same share of the hits is lost. While nothing is lost subtrees share only the
    units above the cuts, so this is list scheduling of their work, within 4/3 − 1/(3M) of the best
    makespan for them on equal workers (Graham 1969, Bounds on multiprocessing timing anomalies).

    Cost: O(P log P), and O(M) for each subtree.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [1, 3], [4, 5], [4, 6]])
    >>> partition(instance, Cluster([4, 4])).tolist()
    [0, 0, 1, 1]
    """
    check_objective(objective)
    work = unavoidable(instance, cluster)
    group = subtrees(instance, work.least.min(axis=0), cluster.workers * grain)
    count = int(group.max(initial=-1)) + 1
    seconds = np.stack([np.bincount(group, row, count) for row in work.least])
    lost = np.stack([np.bincount(group, row * work.again, count) for row in work.extra])
    if objective == "misses":
        # where a query fits counts, what it costs does not
        seconds = np.where(np.isfinite(seconds), 0.0, np.inf)
        lost = np.tile(np.bincount(group, work.again, count), (cluster.workers, 1))
    space = _space(instance, group, count)
    room = np.maximum(cluster.capacity - path_units(instance).mean(), 1) if count else 1
    base, at_stake, taken, load = np.zeros((4, cluster.workers))
    place = np.zeros(count, np.int32)
    largest = np.bincount(group, work.least.min(axis=0), count)
    for g in np.argsort(-largest, kind="stable").tolist():
        full = taken + space[g]
        share = 1 - np.minimum(1, room / np.maximum(full, 1))
        then = base + seconds[:, g] + (at_stake + lost[:, g]) * share
        score = then if objective == "makespan" else then - load
        ties = np.flatnonzero(score <= score.min() + 1e-9 * abs(score.min()))
        i = int(ties[np.argmin((full / room)[ties])])
        place[g] = i
        base[i] += seconds[i, g]
        at_stake[i] += lost[i, g]
        taken[i], load[i] = full[i], then[i]
    return place[group]


def _space(instance: Instance, group: np.ndarray, count: int) -> np.ndarray:
    """float64[groups]; units of each group that wait for their next use, on average over time."""
    uses = consecutive_uses(instance, "forced")
    earlier = group[query_of(instance.log)[uses.position]]
    waiting = uses.length * (uses.leave - uses.enter) * (earlier == group[uses.leave])
    return np.bincount(earlier, waiting, count) / max(1, instance.requests)


def subtrees(instance: Instance, seconds: np.ndarray, parts: int) -> np.ndarray:
    """int64[n]; a group of each query: queries of one subtree, with 1/parts of all work at most.

    A group with more work is a single edge, or one query. ``seconds`` float64[n] is the work.
    """
    tree, query = instance.tree, instance.query
    at = query.astype(np.int64)
    below = np.bincount(at[at >= 0], seconds[at >= 0], tree.edges)
    for e in range(tree.edges - 1, 0, -1):
        if tree.parent[e] >= 0:
            below[tree.parent[e]] += below[e]
    whole = below <= seconds.sum() / parts
    # the topmost edge above each one whose subtree is small enough
    top = np.arange(tree.edges)
    for e in range(tree.edges):
        up = tree.parent[e]
        if up >= 0 and whole[up]:
            top[e] = top[up]
    # a query that ends above all of those is a group of its own
    alone = (at < 0) | ~np.append(whole, False)[at]
    label = np.where(alone, tree.edges + np.arange(len(at)), np.append(top, 0)[at])
    return np.unique(label, return_inverse=True)[1]
