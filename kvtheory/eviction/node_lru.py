"""Node LRU, as in SGLang's radix cache: the least recently used leaf node goes as a whole."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, Key

from kvtheory.cache import Cache, EvictionPolicy, Query, Scalar, Tape, over_path, write


class NodeState(NamedTuple):
    """Where nodes end, the place in the log of each worker, and a node that is half gone."""

    ends: Bool[Array, " workers*(edges+1)"]
    position: Int[Array, " workers"]
    unfinished: Bool[Array, " workers"]


class NodeLRU(EvictionPolicy):
    """Evict whole leaf nodes of a radix tree, the least recently used first.

    The nodes are those of a tree that splits on demand: a query that leaves a cached node in its
    middle, or ends there, splits it, and what a query loads becomes one node. Freeing whole
    nodes overshoots: more units may go than are needed.

    Notes
    -----
    A node is a run of edges with one last use, so its edges stand side by side in the log and
    the pointer of leaf LRU finds them. Cost: amortised O(path) a query.
    """

    name: ClassVar[str] = "node_lru"
    source: ClassVar[str] = "SGLang (RadixCache, lru)"

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key
    ) -> NodeState:
        return NodeState(
            jnp.zeros(workers * tape.edges, bool),
            jnp.zeros(workers, jnp.int32),
            jnp.zeros(workers, bool),
        )

    def touch(self, state: NodeState, tape: Tape, cache: Cache, query: Query) -> NodeState:
        # the match ends after the deepest cached edge of the path: a node ends there now
        match = over_path(
            tape,
            query,
            lambda _, e, found: jnp.where(
                (found == tape.null) & (cache.cached[query.base + e] > 0), e, found
            ),
            jnp.int32(tape.null),
        )
        return state._replace(ends=write(state.ends, query.base + match, jnp.ones((), bool)))

    def evict(
        self, state: NodeState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[NodeState, Scalar, Scalar]:
        position = state.position[query.worker]
        edge = tape.edge[position]
        at = query.base + edge
        units = jnp.where(cache.last[at] == position, cache.cached[at], 0)
        parent = tape.parent[edge]
        inside = (parent != tape.null) & ~state.ends[query.base + parent]
        left = jnp.where(units > 0, inside, state.unfinished[query.worker])
        left, state, position = lax.optimization_barrier((left, state, position))
        return (
            NodeState(
                state.ends,
                write(state.position, query.worker, position + 1),
                write(state.unfinished, query.worker, left),
            ),
            edge,
            units,
        )

    def unfinished(self, state: NodeState, query: Query) -> Bool[Array, ""]:
        return state.unfinished[query.worker]

    def load(self, state: NodeState, tape: Tape, cache: Cache, query: Query) -> NodeState:
        # what was loaded is one node: no ends inside it, one at its bottom
        def one(p: Scalar, edge: Scalar, ends: Array) -> Array:
            fresh = query.cached_before(tape, edge) == 0
            at = query.base + edge
            old, ends = lax.optimization_barrier((ends[at], ends))
            return write(ends, at, jnp.where(fresh, p == query.first, old))

        return state._replace(ends=over_path(tape, query, one, state.ends))
