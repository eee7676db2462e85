"""Warm caches that lead a greedy router from worker to worker."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, whole


def greedy_trap(workers: int = 8, unit: int = 100) -> Instance:
    """M queries at time 0, each of which is a little cheaper where it should not go.

    Query j of 1, …, M asks for all L = M·u + 1 units of a chain of its own. Worker j mod M holds
    L − j·u of it, worker j − 1 holds L − u − 1, the others none. So it costs j·u on the one and
    u + 1 on the other, and greedy, which minimises load + cost, always takes the first: when query
    j comes the other has (j − 1)·u to do already.

    Defeats greedy routing, LBGR included: its makespan is M·u, the optimum u + 1, so greedy is
    Ω(M)-competitive. Exponential potential has 2·u + 1 for M up to 16 and u = 100.

    Parameters
    ----------
    workers
        M, at least 2.
    unit
        u, at least 2.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance, cluster = greedy_trap(2, 3), greedy_trap_cluster(2, 3)
    >>> instance.query_length.tolist(), len(instance.warm), cluster.workers
    ([7, 7], 4, 2)

    References
    ----------
    Aspnes, Azar, Fiat, Plotkin and Waarts, J. ACM 44 (1997): greedy on unrelated machines.
    """
    parameters = dict(locals())
    whole(2, workers=workers, unit=unit)
    length = workers * unit + 1
    j = np.arange(1, workers + 1)
    held = np.column_stack([length - j * unit, np.full(workers, length - unit - 1)])
    cut = np.sort(held, axis=1)
    runs = np.column_stack([cut[:, 0], cut[:, 1] - cut[:, 0], length - cut[:, 1]]).ravel()
    top = 3 * (j - 1)
    lists = [[t, t + 1, t + 2] for t in top.tolist()]
    lists += [[t, t + 1][: 1 + (h > c)] for t, (h, _), (c, _) in _rows(top, held, cut)]
    lists += [[t, t + 1][: 1 + (h > c)] for t, (_, h), (c, _) in _rows(top, held, cut)]
    return from_runs(
        np.concatenate(lists),
        np.cumsum([0, *map(len, lists)]),
        runs,
        False,
        np.concatenate([j % workers, j - 1]),
        arrival=np.zeros(workers),
        **named("greedy_trap", parameters),
    )


def greedy_trap_cluster(workers: int = 8, unit: int = 100) -> Cluster:
    """The cluster of `greedy_trap`: α_miss = 1, and caches that hold everything."""
    return Cluster(np.full(workers, workers * (workers * unit + 1)), alpha_miss=1.0)  # type: ignore[arg-type]


def greedy_trap_makespan(workers: int = 8, unit: int = 100) -> float:
    """The least makespan of `greedy_trap`: query j on worker j − 1, u + 1 on each of them."""
    return unit + 1.0


def _rows(*arrays: np.ndarray) -> zip:
    return zip(*(a.tolist() for a in arrays), strict=True)
