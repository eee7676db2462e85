"""One hot prefix: a router that follows the cache sends everything to one worker."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, whole


def affinity_trap(workers: int = 4, queries: int = 256, shared: int = 16, own: int = 4) -> Instance:
    """Queries at time 0 with one prefix in common and a few units of their own.

    Defeats `max_hit` and whatever follows affinity alone: everything goes where the first query
    went, so the makespan is s + n·o with s units shared, o of its own, n queries. Loading the
    prefix once more on each worker would make it s + ⌈n/M⌉·o. The ratio tends to M as n grows.

    Parameters
    ----------
    workers
        Number of workers, M.
    queries
        n.
    shared, own
        Units that all queries have in common, and units of each query's own.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance = affinity_trap(queries=3)
    >>> instance.tree.length.tolist(), affinity_trap_makespan(queries=256)
    ([16, 4, 4, 4], 272.0)
    """
    parameters = dict(locals())
    whole(1, workers=workers, queries=queries, shared=shared, own=own)
    return from_runs(
        np.column_stack([np.zeros(queries, np.int64), 1 + np.arange(queries)]).ravel(),
        np.arange(0, 2 * queries + 1, 2),
        np.concatenate([[shared], np.full(queries, own)]),
        arrival=np.zeros(queries),
        **named("affinity_trap", parameters),
    )


def affinity_trap_cluster(
    workers: int = 4, queries: int = 256, shared: int = 16, own: int = 4
) -> Cluster:
    """The cluster of `affinity_trap`: α_miss = 1, and caches that hold everything."""
    return Cluster(np.full(workers, shared + queries * own), alpha_miss=1.0)  # type: ignore[arg-type]


def affinity_trap_makespan(
    workers: int = 4, queries: int = 256, shared: int = 16, own: int = 4
) -> float:
    """The least makespan of `affinity_trap`: an equal share of the queries on each worker."""
    return float(shared + -(-queries // workers) * own)
