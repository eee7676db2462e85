"""Slow twins of the routers in use, by the rules of their sources.

Loads are counted in units here and turned into tokens where a constant is in tokens. Comparisons
of rational numbers are exact, so that ties are ties.

References
----------
SGLang router 0.4.6 and its successors (cache_aware); NVIDIA Dynamo; llm-d inference scheduler;
AIBrix gateway (prefix cache).
"""

import math
from fractions import Fraction

from kvtheory.testing.twin_router import Draws, RouterTwin, least, most
from kvtheory.testing.twin_view import Query, View


def exact(x: float) -> Fraction:
    """The decimal that a parameter was written as."""
    return Fraction(str(x))


class CacheAware(RouterTwin):
    """The prefix-tree router of SGLang 0.4.6, baseline of Wu, Silwal and Zhang (2026).

    If the counts n are out of balance (max − min > ``abs_gap`` and max > ``rel``·min): least n.
    Else, if the longest match is more than ``threshold`` of the query: the first worker that has
    it. Else the worker with the smallest tree.

    Parameters
    ----------
    threshold
        Share of the query that the match must exceed.
    abs_gap, rel
        When the counts are out of balance.
    """

    def __init__(
        self,
        workers: int,
        *,
        threshold: float = 0.5,
        abs_gap: float = 32,
        rel: float = 1.0001,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.threshold = exact(threshold)
        self.abs_gap = exact(abs_gap)
        self.rel = exact(rel)

    def propose(self, query: Query, view: View, now: float) -> int:
        """Balance, else affinity, else room."""
        high, low = max(view.n), min(view.n)
        if high - low > self.abs_gap and high > self.rel * low:
            return least(view.n)[0]
        if max(view.hits) > self.threshold * query.length:
            return most(view.hits)[0]
        return self.on_miss(view)

    def on_miss(self, view: View) -> int:
        """The worker with the smallest tree."""
        return least(view.tree)[0]


class CacheAwareMinLoad(CacheAware):
    """`CacheAware` with its misses sent to the fewest queries in flight (SGLang model gateway)."""

    def on_miss(self, view: View) -> int:
        """The worker with the fewest queries in flight."""
        return least(view.n)[0]


class CacheAwareSpill(RouterTwin):
    """`CacheAware` with a spill per query (SMG, 2026).

    Up to 8 holders of the longest match, in order of index, are candidates if it is more than
    ``threshold`` of the query, else all workers are. The candidate with the least n is taken, but
    if its n > ``rel``·mean and n > mean + ``abs_gap``, least n of all. Equal ones are drawn.
    """

    HOLDERS = 8

    def __init__(
        self,
        workers: int,
        *,
        threshold: float = 0.3,
        abs_gap: float = 64,
        rel: float = 1.5,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.threshold = exact(threshold)
        self.abs_gap = exact(abs_gap)
        self.rel = exact(rel)

    def propose(self, query: Query, view: View, now: float) -> int:
        """The least loaded holder, unless it is much too loaded."""
        n = view.n
        if max(view.hits) <= self.threshold * query.length:
            return self.uniform_among(least(n))
        best = least(n, most(view.hits)[: self.HOLDERS])
        mean = Fraction(sum(n), self.workers)
        if n[best[0]] > self.rel * mean and n[best[0]] > mean + self.abs_gap:
            return self.uniform_among(least(n))
        return self.uniform_among(best)


class Dynamo(RouterTwin):
    """NVIDIA Dynamo's KV router of 2025: blocks to prefill plus blocks to hold, least of all.

    v_i = ``weight``·(units to prefill on i, this query's included) + distinct units in flight on i
    with this query. A block is a unit.

    Parameters
    ----------
    weight
        Of the prefill term.
    temperature
        0: the smallest v, ties drawn. Else worker i with probability in proportion to
        exp(−(v_i − min)/((max − min)·temperature)); all alike if max = min.
    """

    def __init__(
        self,
        workers: int,
        *,
        weight: float = 1.0,
        temperature: float = 0.0,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.weight = exact(weight)
        self.temperature = temperature

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker with the smallest sum, or a draw from the softmax."""
        prefill = self.prefill(query, view)
        value = [p + len(view.units(i) | query.units()) for i, p in enumerate(prefill)]
        low, high = min(value), max(value)
        if self.temperature == 0 or low == high:
            return self.uniform_among(least(value))
        scale = float(high - low) * self.temperature
        return self.draws.pick([math.exp(-float(v - low) / scale) for v in value])

    def prefill(self, query: Query, view: View) -> list[Fraction]:
        """The prefill term of each worker."""
        uncached = [query.length - h for h in view.hits]
        return [self.weight * (p + u) for p, u in zip(view.pending, uncached, strict=True)]


class Dynamo2026(Dynamo):
    """Dynamo's KV router of 2026, which discounts the match on a worker that is behind.

    The prefill term is max(0, ``scale``·(pending_i + L − ``credit``·d_i·h_i)) with
    d_i = 1/(1 + ``delta``·(pending_i − min pending)/L), in units.
    """

    def __init__(
        self,
        workers: int,
        *,
        scale: float = 1.0,
        credit: float = 1.0,
        delta: float = 0.0,
        temperature: float = 0.0,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, temperature=temperature, draws=draws)
        self.scale = exact(scale)
        self.credit = exact(credit)
        self.delta = exact(delta)

    def prefill(self, query: Query, view: View) -> list[Fraction]:
        """The prefill term of each worker."""
        low = min(view.pending)
        terms = []
        for pending, h in zip(view.pending, view.hits, strict=True):
            behind = Fraction(pending - low, query.length) if query.length else Fraction(0)
            decay = 1 / (1 + self.delta * behind)
            term = self.scale * (pending + query.length - self.credit * decay * h)
            terms.append(max(term, Fraction(0)))
        return terms


class LlmD(RouterTwin):
    """The default scorers of llm-d: queue, KV use and prefix, weighted; the largest sum.

    Queue: (max − q)/(max − min) of the queries not started (1 if all are equal). KV: 1 − distinct
    units in flight / capacity. Prefix: h/L. Each is clipped to [0, 1]; ties are drawn.
    """

    def __init__(
        self,
        workers: int,
        *,
        queue: float = 2.0,
        kv: float = 2.0,
        prefix: float = 3.0,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.weights = [exact(queue), exact(kv), exact(prefix)]

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker with the largest score."""
        high, low = max(view.queued), min(view.queued)
        scores = []
        for i in range(self.workers):
            queue = Fraction(high - view.queued[i], high - low) if high > low else Fraction(1)
            use = Fraction(len(view.units(i)), view.costs.capacity[i])
            match = Fraction(view.hits[i], query.length) if query.length else Fraction(0)
            parts = [queue, 1 - use, match]
            clipped = [min(max(part, Fraction(0)), Fraction(1)) for part in parts]
            scores.append(sum(w * p for w, p in zip(self.weights, clipped, strict=True)))
        return self.uniform_among(most(scores))


class AibrixPrefix(RouterTwin):
    """AIBrix's prefix-cache router.

    If max n − min n > ``gap`` only the workers with the least n are candidates. They are put in
    random order, then sorted by ⌊100·h/L⌋ from high to low and by n from low to high; the first
    with n <= mean + ``deviations``·(sample deviation over all workers) is taken, else least n.
    Equivalently the draw is among the best equal ones, which is how it is done here.
    """

    def __init__(
        self,
        workers: int,
        *,
        gap: float = 8,
        deviations: float = 1.0,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.gap = exact(gap)
        self.deviations = exact(deviations)

    def propose(self, query: Query, view: View, now: float) -> int:
        """The longest match that is not too busy."""
        n = view.n
        candidates = list(range(self.workers))
        if max(n) - min(n) > self.gap:
            candidates = least(n)
        mean = Fraction(sum(n), self.workers)
        variance = sum((x - mean) ** 2 for x in n) / max(1, self.workers - 1)
        fit = [
            i
            for i in candidates
            if n[i] <= mean or (n[i] - mean) ** 2 <= self.deviations**2 * variance
        ]
        # a worker with the least n always fits, so the rule's last resort is never needed
        percent = [100 * h // query.length if query.length else 0 for h in view.hits]
        return self.uniform_among(least(n, most(percent, fit)))
