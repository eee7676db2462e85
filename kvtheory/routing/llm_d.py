"""The default scorers of llm-d: queue, KV use and prefix."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction import random_words
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing import in_flight_units
from kvtheory.routing.dynamo import DynamoState
from kvtheory.routing.ties import near_least, uniform


class LlmD(RoutingPolicy):
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
    randomised: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> DynamoState:
        return DynamoState(in_flight_units.init(tape, workers), random_words.init(key))

    def propose(self, state: DynamoState, tape: Tape, seen: Seen) -> tuple[DynamoState, Scalar]:
        q = seen.queued
        spread = q.max() - q.min()
        queue = jnp.where(spread > 0, (q.max() - q) / jnp.maximum(spread, 1), 1.0)
        kv = jnp.clip(1.0 - state.flying.units / seen.capacity, 0.0, 1.0)
        prefix = jnp.clip(seen.hits / jnp.maximum(seen.length, 1), 0.0, 1.0)
        score = self.queue * queue + self.kv * kv + self.prefix * prefix
        most = self.queue + self.kv + self.prefix
        stream, worker = uniform(state.stream, near_least(most - score))
        return DynamoState(state.flying, stream), worker

    def dispatch(self, state: DynamoState, tape: Tape, seen: Seen, worker: Scalar) -> DynamoState:
        flying = in_flight_units.change(state.flying, tape, seen.first, seen.stop, worker, 1)
        return state._replace(flying=flying)

    def complete(self, state: DynamoState, tape: Tape, event: Event) -> DynamoState:
        first, stop = tape.start[event.t], tape.start[event.t + 1]
        flying = in_flight_units.change(state.flying, tape, first, stop, event.worker, -1)
        return state._replace(flying=flying)
