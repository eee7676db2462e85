"""Random routing: a uniform worker."""

from typing import ClassVar

from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.router import RoutingPolicy, Seen


class RandomWorker(RoutingPolicy):
    """Every query goes to a uniform worker."""

    name: ClassVar[str] = "random"
    source: ClassVar[str] = "every load balancer"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "none; the load of a worker exceeds the mean by O(√(load·log M))"
    randomised: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> RandomWords:
        return random_words.init(key)

    def propose(self, state: RandomWords, tape: Tape, seen: Seen) -> tuple[RandomWords, Scalar]:
        return random_words.uniform(state, seen.workers)
