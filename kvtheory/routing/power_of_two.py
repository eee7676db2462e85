"""Power of two choices: of two random workers the one with fewer queries."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.router import RoutingPolicy, Seen


class PowerOfTwo(RoutingPolicy):
    """Of two distinct uniform workers the one with fewer queries in flight; ties to the first."""

    name: ClassVar[str] = "power_of_two"
    source: ClassVar[str] = "Mitzenmacher 2001"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "queues of log log length for equal services; heuristic here"
    randomised: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> RandomWords:
        return random_words.init(key)

    def propose(self, state: RandomWords, tape: Tape, seen: Seen) -> tuple[RandomWords, Scalar]:
        workers = seen.workers
        state, one = random_words.uniform(state, workers)
        if workers == 1:
            return state, one
        state, other = random_words.uniform(state, workers - 1)
        other = other + (other >= one)
        n = seen.in_flight
        return state, jnp.where(n[other] < n[one], other, one)
