"""NVIDIA Dynamo's KV routers: blocks to prefill plus blocks to hold."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.cache import Scalar, Tape
from kvtheory.router import Seen
from kvtheory.routing import in_flight_units
from kvtheory.routing.in_flight_units import BookkeepingRouter, BookState
from kvtheory.routing.ties import by_weight, near_least, uniform


class Dynamo(BookkeepingRouter):
    """v = ``weight``·(units to prefill) + distinct units in flight, this query included in both.

    A block is a unit. With ``temperature`` 0 the smallest v is taken, equal ones are drawn; else
    worker i with probability in proportion to exp(−(v_i − min)/((max − min)·temperature)).

    Parameters
    ----------
    weight
        Of the prefill term.
    temperature
        Of the choice.
    """

    weight: float = 1.0
    temperature: float = 0.0

    name: ClassVar[str] = "dynamo"
    source: ClassVar[str] = "NVIDIA Dynamo KV router, August 2025"
    watches_starts: ClassVar[bool] = False

    def prefill(self, seen: Seen) -> Float[Array, " workers"]:
        """The prefill term of each worker."""
        return self.weight * (seen.pending + seen.length - seen.hits)

    def propose(self, state: BookState, tape: Tape, seen: Seen) -> tuple[BookState, Scalar]:
        more = in_flight_units.more_with(state.flying, tape, seen.first, seen.stop)
        value = self.prefill(seen) + (state.flying.units + more)
        low, high = value.min(), value.max()
        stream, tied = uniform(state.stream, near_least(value))
        warm = (self.temperature > 0) & (high > low)
        scale = jnp.where(warm, (high - low) * self.temperature, 1.0)
        stream, drawn = by_weight(stream, jnp.exp(-(value - low) / scale))
        return BookState(state.flying, stream), jnp.where(warm, drawn, tied)


class Dynamo2026(Dynamo):
    """`Dynamo` with a match that counts for less on a worker that is behind.

    The prefill term is max(0, ``scale``·(pending_i + L − ``credit``·d_i·h_i)) with
    d_i = 1/(1 + ``delta``·(pending_i − min pending)/L), in units.

    Parameters
    ----------
    scale, credit, delta
        As in the rule.
    temperature
        Of the choice.
    """

    scale: float = 1.0
    credit: float = 1.0
    delta: float = 0.0

    name: ClassVar[str] = "dynamo_2026"
    source: ClassVar[str] = "NVIDIA Dynamo KV router, 2026"

    def prefill(self, seen: Seen) -> Float[Array, " workers"]:
        behind = (seen.pending - seen.pending.min()) / jnp.maximum(seen.length, 1)
        decay = 1 / (1 + self.delta * behind)
        term = self.scale * (seen.pending + seen.length - self.credit * decay * seen.hits)
        return jnp.maximum(term, 0.0)
