"""The prefix-tree routers of SGLang: balance the counts, else follow a long match, else …"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import exceeds, first, first_least, least


class CacheAware(RoutingPolicy):
    """The cache-aware router of SGLang 0.4.6, the paper's baseline.

    With n the queries in flight: if max n − min n > ``abs`` and max n > ``rel``·min n, least n.
    Else, if the longest match is more than ``threshold`` of the query, strictly, the first worker
    that holds it. Else the worker with the smallest tree.

    Parameters
    ----------
    threshold
        Share of the query that the match must exceed.
    abs_gap, rel
        When the counts are out of balance, ``abs`` and ``rel`` of the rule.
    """

    threshold: float = 0.5
    abs_gap: float = 32.0
    rel: float = 1.0001

    name: ClassVar[str] = "cache_aware"
    source: ClassVar[str] = "SGLang router 0.4.6; baseline of Wu, Silwal, Zhang 2026"
    watches_prefill: ClassVar[bool] = False

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        n, longest = seen.in_flight, seen.hits.max()
        uneven = (n.max() - n.min() > self.abs_gap) & exceeds(n.max(), self.rel, n.min())
        match = exceeds(longest, self.threshold, seen.length)
        worker = jnp.where(match, first(seen.hits == longest), self.on_miss(seen))
        return state, jnp.where(uneven, first(least(n)), worker)

    def on_miss(self, seen: Seen) -> Scalar:
        """Where a query without a long match goes."""
        return first_least(seen.tree)


class CacheAwareMinLoad(CacheAware):
    """`CacheAware`, but a query without a long match goes to the fewest queries in flight.

    The smallest tree may belong to the busy worker, which then stays busy.
    """

    name: ClassVar[str] = "cache_aware_min_load"
    source: ClassVar[str] = "SGLang model gateway"

    def on_miss(self, seen: Seen) -> Scalar:
        return first_least(seen.in_flight)


def holders(match: Bool[Array, " workers"], most: int) -> Bool[Array, " workers"]:
    """The first ``most`` of the workers that hold the match."""
    return match & (jnp.cumsum(match) <= most)
