"""Queries that two workers can serve at once, in which the more loaded worker goes on."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, whole


def tournament(workers: int = 16, router: str | None = None, seed: int = 0) -> Instance:
    """M − 1 queries at time 0: matches of two workers, of which the more loaded goes on.

    Each query is a chain of its own of log2(M) + 2 units, of which both players hold all but one,
    so it costs 1 on either and log2(M) + 2 elsewhere. Whoever serves it plays the next round.

    Defeats every deterministic router, by log2(M): the champion has served a query in each of
    log2(M) rounds, while the optimum gives each match to the loser, whom nobody asks again, so that
    no worker has more than one.

    Parameters
    ----------
    workers
        M, a power of two, at least 2.
    router
        The router that it is made for, which decides the matches (the text of one, in brackets if
        it has several parameters); None for greedy with ties to the lower index, which ends as
        log2(M) queries on worker 0.
    seed
        Of the router, if it is randomised: the matches are those that it decides with this seed.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range, or for an unknown router.

    Examples
    --------
    >>> instance = tournament(4)
    >>> instance.warm[:, 0].tolist(), tournament_cluster(4).workers
    ([0, 1, 2, 3, 0, 2], 4)

    References
    ----------
    Azar, Naor and Rom, The competitiveness of on-line assignments, J. Algorithms 18 (1995).
    """
    parameters = dict(locals())
    whole(2, workers=workers)
    whole(0, seed=seed)
    if workers & (workers - 1):
        raise bad("workers", workers, "must be a power of two")
    players = list(range(workers))
    matches: list[tuple[int, int]] = []
    while len(players) > 1:
        pairs = list(zip(players[::2], players[1::2], strict=True))
        matches += pairs
        load = _loads(matches, workers, router, seed)
        players = [a if load[a] >= load[b] else b for a, b in pairs]
    return _instance(matches, workers, **named("tournament", parameters))


def tournament_cluster(workers: int = 16, router: str | None = None, seed: int = 0) -> Cluster:
    """The cluster of `tournament`: α_miss = 1, and caches that hold everything."""
    return Cluster(np.full(workers, workers * _length(workers)), alpha_miss=1.0)  # type: ignore[arg-type]


def tournament_makespan(workers: int = 16, router: str | None = None, seed: int = 0) -> float:
    """The least makespan of `tournament`: each query on the loser of its match."""
    return 1.0


def _length(workers: int) -> int:
    return workers.bit_length() + 1


def _instance(matches: list[tuple[int, int]], workers: int, **fields: object) -> Instance:
    n = len(matches)
    both = np.repeat(2 * np.arange(n), 2)  # the first run of the chain, for each player
    flat = np.concatenate([np.arange(2 * n), both])
    start = np.concatenate([2 * np.arange(n), 2 * n + np.arange(2 * n + 1)])
    length = np.tile([_length(workers) - 1, 1], n)
    players = np.array(matches).ravel()
    return from_runs(flat, start, length, False, players, arrival=np.zeros(n), **fields)


def _loads(
    matches: list[tuple[int, int]], workers: int, router: str | None, seed: int
) -> np.ndarray:
    """float64[workers]; the load of each worker after these matches."""
    if router is None:
        load = np.zeros(workers)
        for a, b in matches:
            load[a if load[a] <= load[b] else b] += 1
        return load
    import jax

    from kvtheory.eviction import policy
    from kvtheory.routing import router as parse_router
    from kvtheory.simulate_cluster import simulate_cluster

    # matches that are not known yet change nothing before them, and keep the shape that is compiled
    undecided = [(0, 1)] * (workers - 1 - len(matches))
    result = simulate_cluster(
        _instance([*matches, *undecided], workers),
        tournament_cluster(workers),
        parse_router(router),
        policy("llru"),
        view="oracle",
        key=jax.random.key(seed),
    )
    n = len(matches)
    cost = (result.end - result.start)[0, :n]
    return np.bincount(result.worker[0, :n], weights=cost, minlength=workers)
