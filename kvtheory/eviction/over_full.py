"""The first over-full prefix of layers, and the leaves of the cached tree in it.

Edges are walked from the oldest on, adding up the cached units and taking off the dividers. A
prefix of layers ends just before an edge that has dividers: within an edge that keeps m dividers
they stand on its m deepest units, and no more cached units than that lie between them. So the
first over-full prefix is a list of whole edges, and as evictions only empty it, one walk serves
all evictions of a query.

Edges stand for their *places*, as in `kvtheory.layers.device`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from kvtheory.cache import Cache, Query, Scalar, Tape, add, once, over_path, read, write
from kvtheory.layers.device import DeviceLayers


class Leaf(NamedTuple):
    """What may be known of a leaf unit, the last cached unit of an edge; int32 scalars.

    Attributes
    ----------
    edge
        The edge.
    last
        A number that grows with the time of the last use.
    depth
        Units from the root down to the unit, itself included.
    cached
        Cached units of its edge.
    """

    edge: Scalar
    last: Scalar
    depth: Scalar
    cached: Scalar


class Walk(NamedTuple):
    """The cached edges by last use, and the walk of the current query along them.

    ``held[p]`` is twice the number of cached units of the edge last used at place p, plus 1 if it
    is a leaf of the cached tree; 0 if the edge has been used again. ``newer`` leads from a place to
    the next newer one of the same worker; places that hold neither units nor dividers are left out
    once a walk has met them. ``leaves[:count]`` are the places of the leaves met so far, up to the
    place ``at``; ``excess`` is the number of cached units met, less the dividers; ``pick`` is the
    index in ``leaves`` of the latest victim.
    """

    held: Int[Array, " workers+positions"]
    newer: Int[Array, " workers+positions"]
    leaves: Int[Array, " edges+1"]
    count: Scalar
    at: Scalar
    excess: Scalar
    pick: Scalar


def init(tape: Tape, workers: int) -> Walk:
    """Nothing cached."""
    zero = jnp.zeros((), jnp.int32)
    places = jnp.zeros(workers + tape.edge.shape[0], jnp.int32)
    return Walk(places, places, jnp.zeros(tape.edges, jnp.int32), zero, zero, zero, zero)


def begin(walk: Walk, layers: DeviceLayers, tape: Tape, query: Query) -> Walk:
    """Move the path to the newest end, and start at the oldest; ``layers`` before the query."""

    def move(
        p: Scalar, edge: Scalar, carry: tuple[Scalar, Array, Array]
    ) -> tuple[Scalar, Array, Array]:
        last, held, newer = carry
        here = p + layers.workers
        held = write(held, layers.place[query.base + edge], jnp.int32(0))
        return here, held, write(newer, last, here)

    start = (layers.newest[query.worker], walk.held, walk.newer)
    _, held, newer = over_path(tape, query, move, start)
    zero = jnp.zeros((), jnp.int32)
    return Walk(held, newer, walk.leaves, zero, query.worker, zero, zero)


def find(walk: Walk, layers: DeviceLayers, query: Query) -> Walk:
    """Go on to the end of the first over-full prefix; there ``excess`` units have to go."""
    path = query.first + layers.workers

    def short(carry: tuple[Walk, Scalar]) -> Bool[Array, ""]:
        walk, place = carry
        return (place < path) & ((walk.excess <= 0) | (layers.dividers[place] == 0))

    def step(carry: tuple[Walk, Scalar]) -> tuple[Walk, Scalar]:
        walk, place = carry
        held, own = walk.held[place], layers.dividers[place]
        beyond, newer = read(walk.newer, place)
        at = jnp.where((held | own) != 0, place, walk.at)
        walk = walk._replace(
            newer=write(newer, at, beyond),
            leaves=write(walk.leaves, walk.count, place),
            count=walk.count + (held & 1),
            at=at,
            excess=walk.excess + (held >> 1) - own,
        )
        return walk, beyond

    start, newer = read(walk.newer, walk.at)
    return lax.while_loop(short, step, (walk._replace(newer=newer), start))[0]


def least(
    walk: Walk, layers: DeviceLayers, tape: Tape, query: Query, key: Callable[[Leaf], Any]
) -> Scalar:
    """The index in ``leaves`` of the smallest key; ties to the older last use."""

    def look(i: Scalar) -> tuple[Array, Scalar]:
        place = walk.leaves[i]
        edge, have = tape.edge[place - layers.workers], walk.held[place] >> 1
        return key(Leaf(edge, place, tape.depth[edge] - tape.length[edge] + have, have)), place

    def better(i: Scalar, best: tuple[Scalar, Array, Scalar]) -> tuple[Scalar, Array, Scalar]:
        _, least, oldest = best
        value, last = look(i)
        wins = (value < least) | ((value == least) & (last < oldest))
        return jax.tree.map(lambda new, old: jnp.where(wins, new, old), (i, value, last), best)

    zero = jnp.zeros((), jnp.int32)
    return lax.fori_loop(1, walk.count, better, (zero, *look(zero)))[0]


def take(
    walk: Walk, layers: DeviceLayers, tape: Tape, pick: Scalar, most: Scalar | int
) -> tuple[Walk, Scalar, Scalar]:
    """Evict from a leaf, given by its index, at most ``most`` units: its edge, and how many go."""
    place = walk.leaves[pick]
    place, walk = lax.optimization_barrier((place, walk))
    held, old = read(walk.held, place)
    units = jnp.minimum(jnp.minimum(held >> 1, walk.excess), most)
    held = write(old, place, held - 2 * units)
    walk = walk._replace(held=held, pick=pick, excess=walk.excess - units)
    return walk, tape.edge[place - layers.workers], units


def remove(
    walk: Walk, layers: DeviceLayers, tape: Tape, cache: Cache, query: Query, edge: Scalar
) -> tuple[Walk, Bool[Array, ""]]:
    """The latest victim has lost its last unit: its parent may be a leaf now.

    The walk, and whether the parent is a leaf of the same prefix, in the place of the victim.
    """
    parent = tape.parent[edge]
    slot = query.base + parent
    above = layers.place[slot]
    bare = (parent != tape.null) & (cache.kids[slot] == 0) & (above < query.first + layers.workers)
    inside = bare & (above <= walk.at)
    place, leaves = read(walk.leaves, walk.pick)
    count = walk.count - ~inside
    last, leaves = read(leaves, count)
    leaves = write(leaves, walk.pick, jnp.where(inside, above, last))
    held = write(walk.held, place, jnp.int32(0))
    held = once(bare, lambda held: add(held, above, jnp.int32(1)), held)
    return walk._replace(held=held, leaves=leaves, count=count), inside


def load(walk: Walk, layers: DeviceLayers, tape: Tape, cache: Cache, query: Query) -> Walk:
    """The path is cached; its last edge may be a leaf."""

    def one(p: Scalar, edge: Scalar, held: Array) -> Array:
        leaf = cache.kids[query.base + edge] == 0
        return write(held, p + layers.workers, 2 * tape.length[edge] + leaf)

    return walk._replace(held=over_path(tape, query, one, walk.held))
