"""Cached edges kept in three zones of one array: unmarked leaves, unmarked inner ones, marked.

``slots[0:leaves]`` are the unmarked edges without a cached child, ``slots[leaves:unmarked]`` the
other unmarked ones and ``slots[unmarked:total]`` the marked ones; every move is a swap with a
border. The tail of each leaf edge is one leaf unit, so a uniform draw from the first zone is a
uniform unmarked leaf unit, and a new phase is one assignment and a pass over the marked edges.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from kvtheory.cache import Cache, Query, Scalar, Tape, once, over_path, read, write


class Zones(NamedTuple):
    """The zones of all workers; ``place`` is the slot of each cached edge, else ≥ total."""

    slots: Int[Array, " workers*(edges+1)"]
    place: Int[Array, " workers*(edges+1)"]
    leaves: Int[Array, " workers"]
    unmarked: Int[Array, " workers"]
    total: Int[Array, " workers"]


def init(tape: Tape, workers: int) -> Zones:
    """Nothing cached."""
    zero = jnp.zeros(workers, jnp.int32)
    return Zones(
        slots=jnp.full(workers * tape.edges, tape.null, jnp.int32),
        place=jnp.full(workers * tape.edges, tape.edges, jnp.int32),
        leaves=zero,
        unmarked=zero,
        total=zero,
    )


def _swap(slots: Array, place: Array, base: Scalar, i: Scalar, j: Scalar) -> tuple[Array, Array]:
    a, slots = read(slots, base + i)
    b, slots = read(slots, base + j)
    slots = write(write(slots, base + i, b), base + j, a)
    place = write(write(place, base + a, j), base + b, i)
    return slots, place


def mark(zones: Zones, query: Query, edge: Scalar) -> tuple[Zones, Bool[Array, ""]]:
    """Mark an edge if it is cached and unmarked; and whether it was."""
    w = query.worker
    i, place = read(zones.place, query.base + edge)
    zones = zones._replace(place=place)
    was = i < zones.unmarked[w]

    def go(z: Zones) -> Zones:
        leaf = i < z.leaves[w]
        leaves, unmarked = z.leaves[w] - leaf, z.unmarked[w] - 1
        leaves, unmarked, z = lax.optimization_barrier((leaves, unmarked, z))
        border = jnp.where(leaf, leaves, i)
        slots, place = _swap(z.slots, z.place, query.base, i, border)
        slots, place = _swap(slots, place, query.base, border, unmarked)
        return Zones(
            slots, place, write(z.leaves, w, leaves), write(z.unmarked, w, unmarked), z.total
        )

    return once(was, go, zones), was


def mark_path(zones: Zones, tape: Tape, cache: Cache, query: Query) -> tuple[Zones, Int[Array, ""]]:
    """Mark the cached edges of the path; and the number of units newly marked."""

    def one(_: Scalar, edge: Scalar, carry: tuple[Zones, Scalar]) -> tuple[Zones, Scalar]:
        zones, units = carry
        zones, was = mark(zones, query, edge)
        return zones, units + jnp.where(was, cache.cached[query.base + edge], 0)

    return over_path(tape, query, one, (zones, jnp.zeros((), jnp.int32)))


def unmark_all(zones: Zones, cache: Cache, query: Query) -> Zones:
    """Every cached edge becomes unmarked."""
    w = query.worker
    first, total = zones.unmarked[w], zones.total[w]

    def one(i: Scalar, carry: tuple[Array, Array, Scalar]) -> tuple[Array, Array, Scalar]:
        slots, place, leaves = carry
        edge, slots = read(slots, query.base + i)
        leaf = cache.kids[query.base + edge] == 0

        def move(s: tuple[Array, Array, Scalar]) -> tuple[Array, Array, Scalar]:
            slots, place = _swap(s[0], s[1], query.base, i, s[2])
            return slots, place, s[2] + 1

        return once(leaf, move, (slots, place, leaves))

    slots, place, leaves = lax.fori_loop(
        first, total, one, (zones.slots, zones.place, zones.leaves[w])
    )
    return Zones(
        slots, place, write(zones.leaves, w, leaves), write(zones.unmarked, w, total), zones.total
    )


def remove(zones: Zones, tape: Tape, cache: Cache, query: Query, edge: Scalar) -> Zones:
    """Take out an unmarked leaf edge that has lost its last unit; its parent may be a leaf now."""
    w, base = query.worker, query.base
    leaves, unmarked, total = zones.leaves[w] - 1, zones.unmarked[w] - 1, zones.total[w] - 1
    leaves, unmarked, total, zones = lax.optimization_barrier((leaves, unmarked, total, zones))
    i, place = read(zones.place, base + edge)
    slots, place = _swap(zones.slots, place, base, i, leaves)
    slots, place = _swap(slots, place, base, leaves, unmarked)
    slots, place = _swap(slots, place, base, unmarked, total)
    place = write(place, base + edge, jnp.int32(tape.edges))
    # A free slot holds no edge: a later swap with itself must not revive the one that left.
    slots = write(slots, base + total, jnp.int32(tape.null))
    parent = tape.parent[edge]
    at, place = read(place, base + parent)
    frees = (cache.kids[base + parent] == 0) & (at < unmarked) & (at >= leaves)
    slots, place, leaves = once(
        frees,
        lambda s: (*_swap(s[0], s[1], base, at, s[2]), s[2] + 1),
        (slots, place, leaves),
    )
    return Zones(
        slots,
        place,
        write(zones.leaves, w, leaves),
        write(zones.unmarked, w, unmarked),
        write(zones.total, w, total),
    )


def load_path(zones: Zones, tape: Tape, query: Query) -> Zones:
    """Put the edges of the path that were not cached into the marked zone."""
    w, base = query.worker, query.base

    def one(
        _: Scalar, edge: Scalar, carry: tuple[Array, Array, Scalar]
    ) -> tuple[Array, Array, Scalar]:
        def append(s: tuple[Array, Array, Scalar]) -> tuple[Array, Array, Scalar]:
            slots, place, total = s
            return write(slots, base + total, edge), write(place, base + edge, total), total + 1

        return once(query.cached_before(tape, edge) == 0, append, carry)

    slots, place, total = over_path(tape, query, one, (zones.slots, zones.place, zones.total[w]))
    return zones._replace(slots=slots, place=place, total=write(zones.total, w, total))
