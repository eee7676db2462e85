"""Node LRU, as in SGLang's radix cache: the least recently used leaf node goes as a whole."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, Key

from kvtheory.cache import NEVER, Cache, EvictionPolicy, Query, Scalar, Tape, once, over_path, write
from kvtheory.eviction import only_child, smallest
from kvtheory.eviction.smallest import Smallest


class NodeState(NamedTuple):
    """The radix tree of the cached edges.

    A node ends with each edge in ``ends``; ``stamp`` is the last use of an edge's node, 2·query
    or one less; ``following`` is the next edge of a node that is half gone.
    """

    leaves: Smallest
    ends: Bool[Array, " workers*(edges+1)"]
    stamp: Int[Array, " workers*(edges+1)"]
    child: Int[Array, " workers*(edges+1)"]
    following: Int[Array, " workers"]


class NodeLRU(EvictionPolicy):
    """Evict whole leaf nodes of a radix tree, the least recently used first.

    The nodes are those of a tree that splits on demand: a query that leaves a cached node in its
    middle, or ends there, splits it, and what a query loads becomes one node. Freeing whole
    nodes overshoots: more units may go than are needed. As in SGLang, a node is stamped before
    it is split, so the half that the query does not contain counts as used just before it.

    Notes
    -----
    Cost: O(path + √edges per node that goes) a query.
    """

    name: ClassVar[str] = "node_lru"
    source: ClassVar[str] = "SGLang (RadixCache, lru)"

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> NodeState:
        slots = workers * tape.edges
        return NodeState(
            leaves=smallest.init(tape.edges, workers),
            ends=jnp.zeros(slots, bool),
            stamp=jnp.zeros(slots, jnp.int32),
            child=only_child.init(slots),
            following=jnp.full(workers, tape.null, jnp.int32),
        )

    def touch(self, state: NodeState, tape: Tape, cache: Cache, query: Query) -> NodeState:
        base = query.base
        stamp = over_path(tape, query, lambda _, e, s: write(s, base + e, 2 * query.t), state.stamp)
        state = state._replace(stamp=stamp)
        match = over_path(
            tape,
            query,
            lambda _, e, found: jnp.where(
                (found == tape.null) & (cache.cached[base + e] > 0), e, found
            ),
            jnp.int32(tape.null),
        )
        splits = (match != tape.null) & ~state.ends[base + match] & (cache.kids[base + match] > 0)
        match, splits, state = lax.optimization_barrier((match, splits, state))
        leaf = (match != tape.null) & (cache.kids[base + match] == 0)
        leaves = once(
            leaf,
            lambda s: smallest.remove(s, base + match),
            state.leaves,
        )
        state = state._replace(leaves=leaves, ends=write(state.ends, base + match, jnp.bool_(True)))
        return once(splits, lambda s: self._stamp_below(s, tape, cache, query, match), state)

    def _stamp_below(
        self, state: NodeState, tape: Tape, cache: Cache, query: Query, match: Scalar
    ) -> NodeState:
        base = query.base

        def go(carry: tuple[Scalar, Array]) -> tuple[Scalar, Array]:
            edge, stamp = carry
            edge = state.child[base + edge]
            return edge, write(stamp, base + edge, 2 * query.t - 1)

        bottom, stamp = lax.while_loop(
            lambda carry: ~state.ends[base + carry[0]] | (carry[0] == match),
            go,
            (match, state.stamp),
        )
        bottom, state = lax.optimization_barrier((bottom, state._replace(stamp=stamp)))
        leaves = once(
            cache.kids[base + bottom] == 0,
            lambda s: smallest.put(s, base + bottom, 2 * query.t - 1, cache.last[base + bottom]),
            state.leaves,
        )
        return state._replace(leaves=leaves)

    def evict(
        self, state: NodeState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[NodeState, Scalar, Scalar]:
        base, w = query.base, query.worker
        _, position = smallest.least(state.leaves, cache.used.shape[0], w)
        found = position != NEVER
        oldest = jnp.where(found, tape.edge[jnp.where(found, position, 0)], tape.null)
        inside = state.following[w] != tape.null
        edge = jnp.where(inside, state.following[w], oldest)
        return state, edge, cache.cached[base + edge]

    def emptied(
        self,
        state: NodeState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> NodeState:
        base, w = query.base, query.worker
        parent = tape.parent[edge]
        known = parent != tape.null
        goes_on = known & ~state.ends[base + parent]
        bare = (
            known
            & ~goes_on
            & (cache.kids[base + parent] == 0)
            & (cache.last[base + parent] < query.first)
        )
        goes_on, bare, state = lax.optimization_barrier((goes_on, bare, state))
        leaves = smallest.remove(state.leaves, base + edge)
        leaves = once(
            bare,
            lambda s: smallest.put(
                s, base + parent, state.stamp[base + parent], cache.last[base + parent]
            ),
            leaves,
        )
        return state._replace(
            leaves=leaves,
            child=only_child.toggle(state.child, base + parent, edge),
            following=write(state.following, w, jnp.where(goes_on, parent, tape.null)),
        )

    def unfinished(self, state: NodeState, query: Query) -> Bool[Array, ""]:
        return state.following[query.worker] != state.ends.shape[0] // state.following.shape[0] - 1

    def load(self, state: NodeState, tape: Tape, cache: Cache, query: Query) -> NodeState:
        base = query.base

        # what was loaded is one node: no ends inside it, one at its bottom
        def one(p: Scalar, edge: Scalar, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            ends, child = carry
            fresh = query.cached_before(tape, edge) == 0
            old, ends = lax.optimization_barrier((ends[base + edge], ends))
            ends = write(ends, base + edge, jnp.where(fresh, p == query.first, old))
            new = jnp.where(fresh, edge, 0)
            return ends, only_child.toggle(child, base + tape.parent[edge], new)

        ends, child = over_path(tape, query, one, (state.ends, state.child))
        end = jnp.where(query.serves, tape.edge[query.first], tape.null)
        leaves = once(
            query.serves & (cache.kids[base + end] == 0),
            lambda s: smallest.put(s, base + end, 2 * query.t, query.first),
            state.leaves,
        )
        return state._replace(leaves=leaves, ends=ends, child=child)
