"""SGLang's cache-aware router with a spill for each query instead of a test of all workers."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.cache_aware import holders
from kvtheory.routing.ties import MARGIN, exceeds, least, uniform


class CacheAwareSpill(RoutingPolicy):
    """The least loaded of up to 8 holders of the longest match, unless it is much too loaded.

    The holders are candidates if the match is more than ``threshold`` of the query, else all
    workers are. The candidate with the fewest queries in flight n is taken; but if its
    n > ``rel``·mean and n > mean + ``abs_gap``, the fewest of all. Equal ones are drawn.

    Parameters
    ----------
    threshold
        Share of the query that the match must exceed.
    abs_gap, rel
        When a holder is too loaded.
    """

    threshold: float = 0.3
    abs_gap: float = 64.0
    rel: float = 1.5

    HOLDERS: ClassVar[int] = 8

    name: ClassVar[str] = "cache_aware_spill"
    source: ClassVar[str] = "SGLang model gateway, August 2026"
    watches_prefill: ClassVar[bool] = False
    randomised: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> RandomWords:
        return random_words.init(key)

    def propose(self, state: RandomWords, tape: Tape, seen: Seen) -> tuple[RandomWords, Scalar]:
        n, longest = seen.in_flight, seen.hits.max()
        match = exceeds(longest, self.threshold, seen.length)
        best = least(n, jnp.where(match, holders(seen.hits == longest, self.HOLDERS), True))
        fewest = jnp.where(best, n, 0).max()
        # both sides times M, so that only whole numbers meet the parameters
        over = exceeds(fewest * seen.workers, self.rel, n.sum(dtype=jnp.int32))
        over &= (fewest - self.abs_gap) * seen.workers - n.sum() > MARGIN
        return uniform(state, jnp.where(over & match, least(n), best))
