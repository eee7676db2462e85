"""Families of equal queries that come just so that routing by load never meets a warm cache."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, positive, whole


def load_trap(
    workers: int = 4, rounds: int = 50, length: int = 16, saving: float = 10.0
) -> Instance:
    """Rounds of M queries at time 0, one for each of M chains, shifted by one in every round.

    A cache holds one chain. Query t goes to worker t mod M with any router that only balances
    equal loads, and there it finds the chain of the round before: it never hits. With chain f on
    worker f all but the first round hit.

    Defeats `round_robin`, `join_shortest_queue` and `least_work_left`: their makespan is R·ℓ·α_miss
    for R rounds of ℓ units, the least is ℓ·α_miss + (R − 1)·ℓ·α_cached, and the ratio tends to
    α_miss/α_cached.

    Parameters
    ----------
    workers
        M, at least 2.
    rounds
        Number of rounds, R.
    length
        ℓ, units of a chain and of each cache.
    saving
        α_miss/α_cached of the cluster, at least 1.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> load_trap(workers=3, rounds=3).query.tolist()
    [0, 1, 2, 1, 2, 0, 2, 0, 1]
    """
    parameters = dict(locals())
    whole(2, workers=workers)
    whole(1, rounds=rounds, length=length)
    positive(saving=saving)
    if saving < 1:
        raise bad("saving", saving, "must be at least 1: a hit costs no more than a miss")
    t = np.arange(workers * rounds)
    return from_runs(
        (t + t // workers) % workers,
        np.arange(len(t) + 1),
        np.full(workers, length),
        arrival=np.zeros(len(t)),
        **named("load_trap", parameters),
    )


def load_trap_cluster(
    workers: int = 4, rounds: int = 50, length: int = 16, saving: float = 10.0
) -> Cluster:
    """The cluster of `load_trap`: α_miss = 1, and caches that hold one chain."""
    return Cluster(np.full(workers, length), alpha_miss=1.0, alpha_cached=1 / saving)  # type: ignore[arg-type]


def load_trap_makespan(
    workers: int = 4, rounds: int = 50, length: int = 16, saving: float = 10.0
) -> float:
    """The least makespan of `load_trap`: each chain on a worker of its own.

    No schedule is better: each chain is missed somewhere once, so the total cost is at least M
    times this.
    """
    return length * (1 + (rounds - 1) / saving)
