"""AIBrix's prefix-cache router: the longest match that is not too busy."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import MARGIN, least, uniform


class AibrixPrefix(RoutingPolicy):
    """Most matched per cent among the workers whose n is at most the mean and a deviation.

    If max n − min n > ``gap`` only the workers with the fewest queries in flight n are candidates.
    Of those with n <= mean + ``deviations``·(sample deviation over all workers) the one with the
    largest ⌊100·h/L⌋ is taken, then the smallest n; equal ones are drawn.

    Parameters
    ----------
    gap
        Difference of the counts from which only they matter.
    deviations
        Sample standard deviations above the mean that are still accepted.
    """

    gap: float = 8.0
    deviations: float = 1.0

    name: ClassVar[str] = "aibrix_prefix"
    source: ClassVar[str] = "AIBrix gateway (prefix cache)"
    watches_prefill: ClassVar[bool] = False
    randomised: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> RandomWords:
        return random_words.init(key)

    def propose(self, state: RandomWords, tape: Tape, seen: Seen) -> tuple[RandomWords, Scalar]:
        n = seen.in_flight
        among = least(n) | (n.max() - n.min() <= self.gap)
        # n − mean times M is whole, and so is M² times the sum of squares
        above = n * seen.workers - n.sum(dtype=jnp.int32)
        squares = (above.astype(float) ** 2).sum() / max(1, seen.workers - 1)
        limit = self.deviations**2 * squares
        fits = (above <= 0) | (above.astype(float) ** 2 <= limit + MARGIN * limit)
        percent = jnp.where(seen.length > 0, 100 * seen.hits // jnp.maximum(seen.length, 1), 0)
        return uniform(state, least(n, least(-percent, among & fits)))
