"""Distinct units of the queries in flight on each worker, as a router counts them."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import Scalar, Tape, read, write
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.router import Event, RoutingPolicy, Seen


class InFlightUnits(NamedTuple):
    """Queries in flight through each edge of each worker, and distinct units of them."""

    through: Int[Array, " workers*(edges+1)"]
    units: Int[Array, " workers"]


def init(tape: Tape, workers: int) -> InFlightUnits:
    """Nothing in flight."""
    return InFlightUnits(jnp.zeros(workers * tape.edges, jnp.int32), jnp.zeros(workers, jnp.int32))


def more_with(of: InFlightUnits, tape: Tape, first: Scalar, stop: Scalar) -> Int[Array, " workers"]:
    """Units that a path would add on each worker."""
    slots = jnp.arange(of.units.shape[0], dtype=jnp.int32) * tape.edges

    def one(p: Scalar, units: Array) -> Array:
        edge = tape.edge[p]
        return units + jnp.where(of.through[slots + edge] == 0, tape.length[edge], 0)

    return lax.fori_loop(first, stop, one, jnp.zeros_like(of.units))


def change(
    of: InFlightUnits, tape: Tape, first: Scalar, stop: Scalar, worker: Scalar, by: int
) -> InFlightUnits:
    """A query came (``by=1``) or was completed (``by=-1``) on a worker."""

    def one(p: Scalar, carry: tuple[Array, Scalar]) -> tuple[Array, Scalar]:
        through, units = carry
        edge = tape.edge[p]
        at = worker * tape.edges + edge
        old, through = read(through, at)
        edge_units = jnp.where((old == 0) | (old + by == 0), by * tape.length[edge], 0)
        return write(through, at, old + by), units + edge_units

    through, units = lax.fori_loop(first, stop, one, (of.through, jnp.zeros((), jnp.int32)))
    return InFlightUnits(through, of.units.at[worker].add(units))


class BookState(NamedTuple):
    """Units in flight, and the random stream of the ties."""

    flying: InFlightUnits
    stream: RandomWords


class BookkeepingRouter(RoutingPolicy):
    """A router that counts the distinct units in flight by its own books; ties are drawn."""

    randomised: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> BookState:
        return BookState(init(tape, workers), random_words.init(key))

    def dispatch(self, state: BookState, tape: Tape, seen: Seen, worker: Scalar) -> BookState:
        flying = change(state.flying, tape, seen.first, seen.stop, worker, 1)
        return state._replace(flying=flying)

    def complete(self, state: BookState, tape: Tape, event: Event) -> BookState:
        first, stop = tape.start[event.t], tape.start[event.t + 1]
        flying = change(state.flying, tape, first, stop, event.worker, -1)
        return state._replace(flying=flying)
