"""Slow twins of routers from papers: Preble's E2, LMetric, DualMap, GORGO.

References
----------
Srivatsa, He, Abhyankar, Li and Zhang, "Preble: Efficient Distributed Prompt Scheduling for LLM
Serving", ICLR 2025.
Ricci Toniolo, Dinesh and Thorstenson, "GORGO: Maximizing KV-Cache Reuse While Minimizing Network
Latency in Cross-Region LLM Load Balancing", arXiv:2602.11688.
"""

from collections import Counter, deque
from collections.abc import Sequence
from fractions import Fraction

from kvtheory.errors import bad
from kvtheory.testing.twin_router import Draws, RouterTwin, least, most
from kvtheory.testing.twin_view import Query, View
from kvtheory.testing.twins_routing_load import Hash, digest


class PrebleE2(RouterTwin):
    """Exploit a match of more than half of the query, else explore by recent load.

    Recent load of a worker: over the queries sent there in the last ``window`` seconds, the
    believed seconds of their misses and of their output. If h > L − h for the longest match h,
    the holder of it with the least recent load; else the worker with the least.
    """

    def __init__(self, workers: int, *, window: float = 180.0, draws: Draws | None = None) -> None:
        super().__init__(workers, draws=draws)
        self.window = window
        self.history: list[deque[tuple[float, float]]] = [deque() for _ in range(workers)]

    def propose(self, query: Query, view: View, now: float) -> int:
        """The cheapest holder, or the cheapest worker."""
        load = [sum(x for when, x in h if when > now - self.window) for h in self.history]
        longest = max(view.hits)
        if longest > query.length - longest:
            return least(load, most(view.hits))[0]
        return least(load)[0]

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Note the work that was sent."""
        costs = view.costs
        missed = costs.misses(worker, view.hits[worker], query.length)
        seconds = missed / costs.speed[worker] + costs.output(worker, query.output)
        self.history[worker].append((now, seconds))


class LMetric(RouterTwin):
    """argmin (units to prefill, this query's included)·(n + 1); ties to the index."""

    def propose(self, query: Query, view: View, now: float) -> int:
        """The smallest product."""
        product = [
            (view.pending[i] + query.length - view.hits[i]) * (view.n[i] + 1)
            for i in range(self.workers)
        ]
        return least(product)[0]


class DualMap(RouterTwin):
    """Two workers by two hashes of the first units; more cached, unless too much is pending.

    The one with more cached units is taken (ties: less pending, then the first hash), unless its
    tokens to prefill, this query's included, exceed ``budget``: then the one with less pending
    (ties: the one with more cached). Every ``window`` queries, a key that had more than 2/M of them
    is made twice as long.

    Parameters
    ----------
    budget
        Tokens.
    prefix
        Units of a key at first.
    window
        Queries over which the share of a key is taken.
    hash_of
        The first worker is ``hash_of(("first", key)) % M``; the second is that far on plus
        ``1 + hash_of(("second", key)) % (M − 1)``, so that the two differ.
    """

    def __init__(
        self,
        workers: int,
        *,
        budget: int = 65_536,
        prefix: int = 4,
        window: int = 1_000,
        hash_of: Hash = digest,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        if prefix < 1:
            raise bad("prefix", prefix, "must be at least 1 unit")
        self.budget = budget
        self.prefix = prefix
        self.window = window
        self.hash_of = hash_of
        self.hot: set[tuple[int, ...]] = set()
        self.seen: Counter[tuple[int, ...]] = Counter()

    def key(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The units that are hashed."""
        length = self.prefix
        while tuple(tokens[:length]) in self.hot and length < len(tokens):
            length *= 2
        return tuple(tokens[:length])

    def pair(self, key: tuple[int, ...]) -> tuple[int, int]:
        """The two workers of a key; the same one twice if M = 1."""
        first = self.hash_of(("first", key)) % self.workers
        if self.workers == 1:
            return first, first
        step = 1 + self.hash_of(("second", key)) % (self.workers - 1)
        return first, (first + step) % self.workers

    def propose(self, query: Query, view: View, now: float) -> int:
        """The better of the two."""
        pair = self.pair(self.key(query.tokens))
        h, pending = view.hits, view.pending
        choice = min(pair, key=lambda i: (-h[i], pending[i]))
        if (pending[choice] + query.length - h[choice]) * query.block_size > self.budget:
            choice = min(pair, key=lambda i: (pending[i], -h[i]))
        return choice

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Count the key, and lengthen the keys that are too common."""
        self.seen[self.key(query.tokens)] += 1
        if self.seen.total() == self.window:
            limit = Fraction(2 * self.window, self.workers)
            self.hot |= {key for key, count in self.seen.items() if count > limit}
            self.seen.clear()


class Gorgo(RouterTwin):
    """Estimated time to the first token with the network's round trip; ties to the index.

    ``seconds_per_token``·(queued + q̂·running + L − h) + ``rtt``_i, in tokens: queued are the
    tokens to prefill of the queries not started on i, running the number of its queries started
    and not finished, q̂ the mean number of tokens to prefill of a running query over all workers
    (none of one whose first token is out).
    """

    def __init__(
        self,
        workers: int,
        *,
        seconds_per_token: float = 0.094e-3,
        rtt: Sequence[float] | None = None,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.seconds_per_token = Fraction(str(seconds_per_token))
        self.rtt = [Fraction(str(x)) for x in rtt] if rtt else [Fraction(0)] * workers
        if len(self.rtt) != workers:
            raise bad("rtt", rtt, f"need one value per worker, {workers}")

    def propose(self, query: Query, view: View, now: float) -> int:
        """The smallest estimate."""
        running = [[f for f in flying if f.started] for flying in view.in_flight]
        unfinished = [0 if f.prefilled else f.uncached for flying in running for f in flying]
        mean = Fraction(sum(unfinished), len(unfinished)) if unfinished else Fraction(0)
        estimate = []
        for i in range(self.workers):
            queued = sum(f.uncached for f in view.in_flight[i] if not f.started)
            units = queued + mean * len(running[i]) + query.length - view.hits[i]
            estimate.append(self.seconds_per_token * units * query.block_size + self.rtt[i])
        return least(estimate)[0]
