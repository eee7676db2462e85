"""The layers of every worker on the device, for scans and for layered policies.

The rule is that of `kvtheory.layers.EdgeLayers`. A use of an edge is a *place*: its position in
the log of the tape, after one place per worker that is the old end of its list. Places of one
worker rise with time, and inside a query the deeper edge has the lower one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from kvtheory.cache import Query, Scalar, Tape, read, write


class DeviceLayers(NamedTuple):
    """Dividers of all workers.

    ``place[e]`` is the last use of edge e, the old end if there was none. ``dividers[p]`` stand on
    the deepest units of the edge used at place p, none if the edge has been used again.
    ``older`` leads from a place without dividers towards the next older one that has some. Per
    worker: the ``newest`` place, and dividers ``in_use``.
    """

    place: Int[Array, " workers*(edges+1)"]
    dividers: Int[Array, " workers+positions"]
    older: Int[Array, " workers+positions"]
    newest: Int[Array, " workers"]
    in_use: Int[Array, " workers"]

    @property
    def workers(self) -> int:
        """Number of workers, and of places that are old ends."""
        return self.newest.shape[0]


def init(tape: Tape, workers: int) -> DeviceLayers:
    """Nothing used."""
    ends = jnp.arange(workers, dtype=jnp.int32)
    places = jnp.zeros(workers + tape.edge.shape[0], jnp.int32)
    return DeviceLayers(
        place=jnp.repeat(ends, tape.edges),
        dividers=places,
        older=places.at[:workers].set(ends),
        newest=ends,
        in_use=jnp.zeros(workers, jnp.int32),
    )


def serve(layers: DeviceLayers, tape: Tape, query: Query) -> tuple[DeviceLayers, Scalar]:
    """The layers after a query, and by how much it raises the optimum of its worker.

    A query that does not fit changes nothing (`Query.serves`). Amortised O(path · α).
    """
    base, w = query.base, query.worker
    end = w  # the place that is the old end
    in_use, newest = layers.in_use[w], layers.newest[w]

    def outside(carry: tuple[Scalar, Scalar, Array, Bool[Array, ""]]) -> Bool[Array, ""]:
        return carry[3]

    # ancestors are newer, so the edges outside the support are the deepest ones
    def look(
        carry: tuple[Scalar, Scalar, Array, Bool[Array, ""]],
    ) -> tuple[Scalar, Scalar, Array, Bool[Array, ""]]:
        p, new, older, _ = carry
        edge = tape.edge[p]
        at, older = _next(layers.dividers, older, layers.place[base + edge], end)
        out = at == end
        p, new = p + out, new + jnp.where(out, tape.length[edge], 0)
        return p, new, older, out & (p < query.stop)

    inside, new, older, _ = lax.while_loop(
        outside, look, (query.first, jnp.zeros((), jnp.int32), layers.older, query.serves)
    )
    pending = jnp.maximum(0, new - (query.capacity - in_use))

    def pass_edge(
        i: Scalar, carry: tuple[Scalar, Scalar, Array, Array]
    ) -> tuple[Scalar, Scalar, Array, Array]:
        at, pending, dividers, older = carry
        edge = tape.edge[query.stop - 1 - i]
        here = layers.place[base + edge]
        _, pending, dividers, older = _remove(dividers, older, at, pending, here, end)
        own, dividers = read(dividers, here)
        return here, pending + tape.length[edge] - own, write(dividers, here, jnp.int32(0)), older

    at, pending, dividers, older = lax.fori_loop(
        0, query.stop - inside, pass_edge, (newest, pending, layers.dividers, older)
    )
    _, wrapped, dividers, older = _remove(dividers, older, at, pending, end, end)
    _, _, dividers, older = _remove(dividers, older, newest, wrapped, end, end)

    def append(
        p: Scalar, carry: tuple[Scalar, Array, Array, Array]
    ) -> tuple[Scalar, Array, Array, Array]:
        last, place, dividers, older = carry
        edge, here = tape.edge[p], p + layers.workers
        return (
            here,
            write(place, base + edge, here),
            write(dividers, here, tape.length[edge]),
            write(older, here, last),
        )

    place, dividers, older = lax.optimization_barrier((layers.place, dividers, older))
    last, place, dividers, older = lax.fori_loop(
        query.first, query.stop, append, (newest, place, dividers, older)
    )
    in_use = jnp.minimum(query.capacity, in_use + new)
    return (
        DeviceLayers(
            place,
            dividers,
            older,
            write(layers.newest, w, last),
            write(layers.in_use, w, in_use),
        ),
        new + wrapped,
    )


@jax.jit
def increases(tape: Tape, capacity: Scalar | int) -> Int[Array, " requests"]:
    """By how much each query of a tape raises the optimum of one worker."""
    zero = jnp.zeros((), jnp.int32)
    room = jnp.asarray(capacity, jnp.int32)

    def one(layers: DeviceLayers, t: Scalar) -> tuple[DeviceLayers, Scalar]:
        first, stop, length = tape.start[t], tape.start[t + 1], tape.query_length[t]
        stop = jnp.where(length <= room, stop, first)
        query = Query(t, zero, zero, first, stop, length, zero, zero, zero, room)
        return serve(layers, tape, query)

    requests = jnp.arange(tape.query_length.shape[0], dtype=jnp.int32)
    return lax.scan(one, init(tape, 1), requests)[1]


def _next(dividers: Array, older: Array, place: Scalar, end: Scalar) -> tuple[Scalar, Array]:
    """The newest place from here to the old end that has dividers, or the end; halves the way."""

    def empty(carry: tuple[Scalar, Array]) -> Bool[Array, ""]:
        return (dividers[carry[0]] == 0) & (carry[0] != end)

    def step(carry: tuple[Scalar, Array]) -> tuple[Scalar, Array]:
        place, older = carry
        up, older = read(older, place)
        further, older = read(older, up)
        up = jnp.where((dividers[up] == 0) & (up != end), further, up)
        return up, write(older, place, up)

    return lax.while_loop(empty, step, (place, older))


def _remove(
    dividers: Array, older: Array, place: Scalar, pending: Scalar, stop: Scalar, end: Scalar
) -> tuple[Scalar, Scalar, Array, Array]:
    """Remove ``pending`` dividers from a place on towards older ones, down to and without ``stop``.

    The place reached, how many are still pending, dividers, older.
    """

    def go_on(carry: tuple[Scalar, Scalar, Array, Array]) -> Bool[Array, ""]:
        return (carry[1] > 0) & (carry[0] > stop)

    def step(
        carry: tuple[Scalar, Scalar, Array, Array],
    ) -> tuple[Scalar, Scalar, Array, Array]:
        place, pending, dividers, older = carry
        place, older = _next(dividers, older, place, end)
        place, dividers, older = lax.optimization_barrier((place, dividers, older))
        have, dividers = read(dividers, place)
        gone = jnp.where(place > stop, jnp.minimum(have, pending), 0)
        return place, pending - gone, write(dividers, place, have - gone), older

    return lax.while_loop(go_on, step, (place, pending, dividers, older))
