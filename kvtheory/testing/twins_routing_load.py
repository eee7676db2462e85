"""Slow twins of the routers that look at load or at affinity only.

References
----------
Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 2001.
Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018; the
constants are those of KubeAI.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Literal

from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_router import Draws, RouterTwin, least
from kvtheory.testing.twin_view import Query, View

Hash = Callable[[Hashable], int]


def digest(key: Hashable) -> int:
    """64 bits of a key, the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little")


class RoundRobin(RouterTwin):
    """Worker t mod M for query t."""

    def __init__(self, workers: int, *, draws: Draws | None = None) -> None:
        super().__init__(workers, draws=draws)
        self.turn = 0

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker whose turn it is."""
        return self.turn

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Pass the turn on."""
        self.turn = (self.turn + 1) % self.workers


class RandomWorker(RouterTwin):
    """A uniform worker."""

    def propose(self, query: Query, view: View, now: float) -> int:
        """A uniform worker."""
        return self.draws.choose(self.workers)


class JoinShortestQueue(RouterTwin):
    """Fewest queries in flight; ties to the smallest believed total so far, then the index."""

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker with the fewest queries in flight."""
        return least(view.total, least(view.n))[0]


class LeastWorkLeft(RouterTwin):
    """Least unfinished work in seconds; ties to the smallest believed total, then the index.

    Parameters
    ----------
    work
        ``"believed"``: the estimates of all queries not known to be finished, one that runs
        counting whole. ``"true"``: the time until the worker is idle.
    """

    def __init__(
        self,
        workers: int,
        *,
        work: Literal["believed", "true"] = "believed",
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        if work not in ("believed", "true"):
            raise unknown("work", work, ("believed", "true"))
        self.work = work

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker with the least work left."""
        return least(view.total, least(view.true_work if self.work == "true" else view.work))[0]


class PowerOfTwo(RouterTwin):
    """Of two distinct uniform workers the one with fewer queries in flight; ties to the first.

    The first draw is among M workers, the second among the M − 1 others in order of index.
    """

    def propose(self, query: Query, view: View, now: float) -> int:
        """The better of two."""
        if self.workers == 1:
            return 0
        first = self.draws.choose(self.workers)
        second = [i for i in range(self.workers) if i != first][self.draws.choose(self.workers - 1)]
        return second if view.n[second] < view.n[first] else first


class ConsistentHashBounded(RouterTwin):
    """Consistent hashing with bounded loads, on a ring of virtual nodes.

    Clockwise from the hash of the first units of the query, the first worker i with
    n_i <= factor·(total + 1)/M; if there is none, the first on the ring.

    Parameters
    ----------
    factor
        Load bound over the mean.
    replicas
        Virtual nodes of a worker: node r of worker i stands at ``hash_of(("node", i, r))``.
    prefix
        Units of the key, at most: a query stands at ``hash_of(("key", units))``.
    count_itself
        Compare n_i + 1: with few queries per worker that bound can refuse every worker.
    hash_of
        Hash of a key.
    """

    def __init__(
        self,
        workers: int,
        *,
        factor: float = 1.25,
        replicas: int = 256,
        prefix: int = 8,
        count_itself: bool = False,
        hash_of: Hash = digest,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        if replicas < 1:
            raise bad("replicas", replicas, "must be at least 1")
        self.factor = Fraction(str(factor))
        self.prefix = prefix
        self.count_itself = count_itself
        self.hash_of = hash_of
        self.ring = sorted(
            (hash_of(("node", i, r)), i) for i in range(workers) for r in range(replicas)
        )

    def clockwise(self, tokens: Sequence[int]) -> Iterator[int]:
        """The workers in the order in which the ring meets them, from the key of a query on."""
        at = self.hash_of(("key", tuple(tokens[: self.prefix])))
        begin = bisect_left(self.ring, (at, 0))
        met: set[int] = set()
        for k in range(len(self.ring)):
            worker = self.ring[(begin + k) % len(self.ring)][1]
            if worker not in met:
                met.add(worker)
                yield worker
            if len(met) == self.workers:
                return

    def propose(self, query: Query, view: View, now: float) -> int:
        """The first worker on the ring that is not too busy."""
        n = view.n
        bound = self.factor * (sum(n) + 1) / self.workers
        first = None
        for i in self.clockwise(query.tokens):
            if n[i] + self.count_itself <= bound:
                return i
            first = i if first is None else first
        return first or 0


class MaxHit(RouterTwin):
    """Most hits; ties to fewer queries in flight, then the index."""

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker with the longest match."""
        return least(view.n, least([-h for h in view.hits]))[0]
