"""The default scorers of llm-d: queue, KV use and prefix."""

from typing import ClassVar

import jax.numpy as jnp

from kvtheory.cache import Scalar, Tape
from kvtheory.router import Seen
from kvtheory.routing.in_flight_units import BookkeepingRouter, BookState
from kvtheory.routing.ties import near_least, uniform


class LlmD(BookkeepingRouter):
    """The largest weighted sum of three scores, each clipped to [0, 1]; equal ones are drawn.

    Queue: (max − q)/(max − min) of the queries not started, 1 if all are equal. KV: 1 − distinct
    units in flight over the capacity. Prefix: h/L.

    Parameters
    ----------
    queue, kv, prefix
        Weights of the scores.
    """

    queue: float = 2.0
    kv: float = 2.0
    prefix: float = 3.0

    name: ClassVar[str] = "llm_d"
    source: ClassVar[str] = "llm-d inference scheduler"

    def propose(self, state: BookState, tape: Tape, seen: Seen) -> tuple[BookState, Scalar]:
        q = seen.queued
        spread = q.max() - q.min()
        queue = jnp.where(spread > 0, (q.max() - q) / jnp.maximum(spread, 1), 1.0)
        kv = jnp.clip(1.0 - state.flying.units / seen.capacity, 0.0, 1.0)
        prefix = jnp.clip(seen.hits / jnp.maximum(seen.length, 1), 0.0, 1.0)
        score = self.queue * queue + self.kv * kv + self.prefix * prefix
        most = self.queue + self.kv + self.prefix
        stream, worker = uniform(state.stream, near_least(most - score))
        return BookState(state.flying, stream), worker
