"""Round robin: the workers take turns."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen


class RoundRobin(RoutingPolicy):
    """Query t goes to worker t mod M."""

    name: ClassVar[str] = "round_robin"
    source: ClassVar[str] = "every load balancer"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "none; even counts"

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> Int[Array, ""]:
        return jnp.zeros((), jnp.int32)

    def propose(self, state: Scalar, tape: Tape, seen: Seen) -> tuple[Scalar, Scalar]:
        return state, state

    def dispatch(self, state: Scalar, tape: Tape, seen: Seen, worker: Scalar) -> Scalar:
        return (state + 1) % seen.workers
