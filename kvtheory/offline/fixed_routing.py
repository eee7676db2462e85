"""The best evictions for a given routing: Belady's rule on each worker's own queries."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance, RequestLog
from kvtheory.next_use import NEVER, next_use, query_of
from kvtheory.offline.belady import belady
from kvtheory.offline.objective import check_plain
from kvtheory.offline.replay import replay
from kvtheory.offline.schedule import Admission, Schedule, check_admission
from kvtheory.oversize import path_units


def best_for_routing(
    instance: Instance, cluster: Cluster, worker: np.ndarray, admission: Admission = "forced"
) -> tuple[Schedule, np.ndarray]:
    """Fewest misses on every worker when it is given who serves each query.

    Parameters
    ----------
    instance
        The request sequence.
    cluster
        The workers; only their capacities matter.
    worker
        int[n]; who serves each query.
    admission
        ``"forced"`` or ``"bypass"``, as in `kvtheory.offline.schedule`.

    Returns
    -------
    schedule, hits
        One schedule for the whole cluster, already replayed, and int64[n] the hits of each query.

    Raises
    ------
    InputError
        If ``worker`` does not fit, for a query longer than the cache of its worker, or what
        `kvtheory.offline.objective.check_plain` refuses.

    Notes
    -----
    Guarantee: no schedule with this routing misses less on any worker. A cache sees the queries of
    its worker and nothing else, so the M problems are independent, and Belady's rule solves each.
    The load of a worker with equal miss costs, α_miss >= α_cached and α_depth = 0, rises with its
    misses, so then the schedule is optimal for the sum of costs and for the makespan too. Otherwise
    it is a schedule like any other: an upper bound.

    Cost: Belady's on all workers together, O(P log P), and the replay.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [3, 4], [1, 2], [3, 4]])
    >>> schedule, hits = best_for_routing(instance, Cluster([2, 2]), np.array([0, 1, 0, 1]))
    >>> schedule.worker.tolist(), hits.tolist()
    ([0, 1, 0, 1], [0, 0, 2, 2])
    """
    check_admission(admission)
    check_plain(instance, cluster)
    worker = check_routing(instance, cluster, worker)
    n = instance.requests
    hits, count = np.zeros(n, np.int64), np.zeros(n, np.int64)
    own, parts = [], []
    for i, capacity in enumerate(cluster.capacity.tolist()):
        queries = np.flatnonzero(worker == i)
        part, hits[queries] = belady(_alone(instance, queries), capacity, admission)
        count[queries] = np.diff(part.start)
        own.append(np.repeat(queries, np.diff(part.start)))
        parts.append(part)
    start = np.zeros(n + 1, np.int64)
    np.cumsum(count, out=start[1:])
    # a step belongs to one worker, so a stable sort by step keeps its changes together
    order = np.argsort(np.concatenate(own), kind="stable")
    edge, kept = (np.concatenate([getattr(p, a) for p in parts])[order] for a in ("edge", "kept"))
    schedule = Schedule(admission, worker, start, edge, kept)
    replayed = replay(schedule, instance, cluster.capacity)
    assert np.array_equal(replayed, hits), "Belady and the replay disagree"
    return schedule, hits


def routed_hits(
    instance: Instance, cluster: Cluster, worker: np.ndarray, admission: Admission = "forced"
) -> np.ndarray:
    """int64[n]; the hits of `best_for_routing`, without a schedule and without its replay."""
    worker = check_routing(instance, cluster, worker)
    hits = np.zeros(instance.requests, np.int64)
    for i, capacity in enumerate(cluster.capacity.tolist()):
        queries = np.flatnonzero(worker == i)
        hits[queries] = hits_alone(instance, queries, capacity, admission)
    return hits


def hits_alone(
    instance: Instance, queries: np.ndarray, capacity: int, admission: Admission = "forced"
) -> np.ndarray:
    """Most hits of one cache that serves some of the queries only.

    Parameters
    ----------
    instance
        The request sequence.
    queries
        int64[k], ascending; those that the cache serves, none longer than ``capacity``.
    capacity, admission
        As for `kvtheory.offline.belady.belady`.

    Returns
    -------
    int64[k]
        Hits of each query, in units.

    Notes
    -----
    If at all times there is room for every unit that will be used again, all of them are kept and
    only first uses miss: a few array operations say so, some ten times faster than Belady's rule,
    which sees to the rest.
    """
    log, length = instance.log, instance.tree.length
    k = len(queries)
    first, size = log.start[queries].astype(np.int64), np.diff(log.start)[queries]
    start = np.zeros(k + 1, np.int64)
    np.cumsum(size, out=start[1:])
    edge = log.edge[np.repeat(first - start[:-1], size) + np.arange(start[-1])]
    own = RequestLog(start, edge)
    following, owner = next_use(own), query_of(own)
    again = following != NEVER
    # float64 holds these integers exactly
    units = length[edge[again]].astype(np.float64)
    enter = owner[again] + (admission == "forced")
    leave = owner[following[again]]
    taken = np.bincount(enter, units, k + 1) - np.bincount(leave, units, k + 1)
    room = np.full(k, float(capacity))
    if admission == "forced":
        room -= np.bincount(owner, length[edge], k)  # the path that is served
    if (np.cumsum(taken)[:k] <= room).all():
        return np.bincount(leave, units, k).astype(np.int64)
    return belady(_alone(instance, queries), capacity, admission)[1]


def check_routing(instance: Instance, cluster: Cluster, worker: np.ndarray) -> np.ndarray:
    """The routing as int32[n].

    Raises
    ------
    InputError
        If it does not name one of the workers for each query, or sends a query to a worker with a
        cache that it does not fit in.
    """
    worker = np.asarray(worker)
    if worker.shape != (instance.requests,) or not np.issubdtype(worker.dtype, np.integer):
        raise bad("worker", f"{worker.dtype}{list(worker.shape)}", "need one integer per query")
    wrong = np.flatnonzero((worker < 0) | (worker >= cluster.workers))
    if len(wrong):
        t = int(wrong[0])
        raise bad(f"worker[{t}]", int(worker[t]), f"is not one of {cluster.workers} workers")
    units = path_units(instance)
    long = np.flatnonzero(units > cluster.capacity[worker])
    if len(long):
        t = int(long[0])
        i = int(worker[t])
        raise InputError(
            f"query {t} has {int(units[t])} units and worker {i} a cache of "
            f"{int(cluster.capacity[i])} only: send it to another worker, or cut the instance"
        )
    return worker.astype(np.int32)


def _alone(instance: Instance, queries: np.ndarray) -> Instance:
    """The chosen queries on the same tree, so that edges keep their numbers."""
    return Instance(instance.tree, instance.query[queries])
