"""Policies that are a key per unit: the smallest key among the leaf units goes first.

A new policy of this kind is one short class: its `KeyPolicy.key` reads what it wants to know of
a leaf unit from a `LeafUnit`. Ties go to the older last use, then to the deeper unit.
"""

import abc
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from kvtheory.cache import (
    NEVER,
    Cache,
    EvictionPolicy,
    Prepared,
    Query,
    Scalar,
    Tape,
    leaf_of_path,
    once,
    over_path,
    read,
    write,
)
from kvtheory.eviction import only_child, segments, smallest
from kvtheory.eviction.segments import Segments
from kvtheory.eviction.smallest import Smallest
from kvtheory.instance import Instance


class LeafUnit(eqx.Module):
    """What a policy may know of a leaf unit, the last cached unit of an edge; int32 scalars.

    Attributes
    ----------
    edge
        The edge.
    last
        Log position of the last use (`kvtheory.cache.Cache`): grows with time.
    depth
        Units from the root down to the unit, itself included.
    cached
        Cached units of its edge.
    record
        The policy's record of its edge; by default the number of queries that contained it.
    loaded, record_loaded
        Index of the query that loaded the unit, and the record just after it was touched then
        (0 unless the policy sets ``remembers_load``).
    branch
        Units from this one up to the first unit with another cached child, that one not
        counted (0 unless the policy sets ``sees_branch``).
    """

    edge: Scalar
    last: Scalar
    depth: Scalar
    cached: Scalar
    record: Scalar
    loaded: Scalar
    record_loaded: Scalar
    branch: Scalar

    @property
    def count(self) -> Scalar:
        """Queries that contained the unit since it was loaded, the loading one included."""
        return self.record - self.record_loaded + 1


class KeyState(NamedTuple):
    """State of a `KeyPolicy`; the parts that the policy does not use have no slots."""

    leaves: Smallest
    record: Int[Array, " workers*(edges+1)"]
    segments: Segments
    child: Int[Array, " workers*(edges+1)"]
    following: Int[Array, " workers"]


class KeyPolicy(EvictionPolicy):
    """The leaf unit with the smallest key goes. Subclasses give `key`; the rest is optional.

    Class attributes
    ----------------
    remembers_load
        The key uses ``loaded``, ``record_loaded`` or ``count``.
    sees_branch
        The key uses ``branch``.
    whole_branch
        Once a leaf unit is chosen its branch goes on going, as long as the query needs room.
    """

    remembers_load: ClassVar[bool] = False
    sees_branch: ClassVar[bool] = False
    whole_branch: ClassVar[bool] = False

    @abc.abstractmethod
    def key(self, unit: LeafUnit, tape: Tape) -> Int[Array, ""] | Float[Array, ""]:
        """Key of a leaf unit, int32 below 2³¹ − 1 or a float32 that is not negative."""

    def visit(self, record: Scalar, query: Query) -> Scalar:
        """The record of an edge after a query that contains it; counts them by default."""
        return record + 1

    def run(self, unit: LeafUnit) -> Scalar:
        """How many units at the tail of the edge share the key, at most those cached."""
        return unit.cached

    def prepare(self, instance: Instance, served: np.ndarray | None = None) -> Prepared:
        ahead = self.look_ahead(instance, served)
        return Prepared(ahead, segments.starts(instance) if self.remembers_load else {})

    def look_ahead(self, instance: Instance, served: np.ndarray | None) -> dict[str, np.ndarray]:
        """Arrays per log position that `key` finds in ``tape.prepared.position``."""
        return {}

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> KeyState:
        return KeyState(
            leaves=smallest.init(tape.edges, workers),
            record=jnp.zeros(workers * tape.edges, jnp.int32),
            segments=segments.init(tape, workers if self.remembers_load else 0),
            child=only_child.init(workers * tape.edges if self.sees_branch else 0),
            following=jnp.full(workers if self.whole_branch else 0, tape.null, jnp.int32),
        )

    def touch(self, state: KeyState, tape: Tape, cache: Cache, query: Query) -> KeyState:
        record = over_path(
            tape,
            query,
            lambda _, e, r: _update(r, query.base + e, lambda old: self.visit(old, query)),
            state.record,
        )
        leaf = leaf_of_path(tape, cache, query)
        leaves = once(
            leaf != tape.null,
            lambda s: smallest.remove(s, query.base + leaf),
            state.leaves,
        )
        state = state._replace(record=record, leaves=leaves)
        return self._follow(state, query, jnp.int32(tape.null))

    def evict(
        self, state: KeyState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[KeyState, Scalar, Scalar]:
        workers = cache.used.shape[0]
        _, position = smallest.least(state.leaves, workers, query.worker)
        found = position != NEVER
        edge = jnp.where(found, tape.edge[jnp.where(found, position, 0)], tape.null)
        if self.whole_branch:
            following = state.following[query.worker]
            edge = jnp.where(following != tape.null, following, edge)
            found = edge != tape.null
        edge, state = lax.optimization_barrier((edge, state))
        at = query.base + edge
        have, last = cache.cached[at], cache.last[at]
        unit = self._unit(state, tape, cache, query, edge, have, last)
        units = jnp.minimum(need, self.run(unit))
        if self.remembers_load:
            stack, units = segments.take(state.segments, tape, query, edge, have, units)
            state = state._replace(segments=stack)
        units = jnp.where(found, units, 0)
        left = have - units
        left, units, state = lax.optimization_barrier((left, units, state))

        def rest(s: KeyState) -> KeyState:
            s = self._enter(s, tape, cache, query, edge, left, last)
            return self._follow(s, query, edge)

        return once(left > 0, rest, state), edge, units

    def emptied(
        self,
        state: KeyState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> KeyState:
        base, parent = query.base, tape.parent[edge]
        state = state._replace(leaves=smallest.remove(state.leaves, base + edge))
        if self.sees_branch:
            state = state._replace(child=only_child.toggle(state.child, base + parent, edge))
        kids, used = cache.kids[base + parent], cache.last[base + parent]
        off = (used < query.first) | (self.admission == "bypass")
        bare = (parent != tape.null) & (kids == 0) & off

        def expose(s: KeyState) -> KeyState:
            whole = cache.cached[base + parent]
            return self._enter(s, tape, cache, query, parent, whole, used)

        state = once(bare, expose, state)
        state = self._follow(state, query, jnp.where(bare, parent, tape.null))
        if self.sees_branch:
            # the parent keeps one child, whose branch now runs on above it
            state = once(
                (parent != tape.null) & (kids == 1),
                lambda s: self._reweigh(s, tape, cache, query, s.child[base + parent]),
                state,
            )
        return state

    def load(self, state: KeyState, tape: Tape, cache: Cache, query: Query) -> KeyState:
        if self.remembers_load:
            stack = segments.load_path(state.segments, tape, query, state.record)
            state = state._replace(segments=stack)
        if self.sees_branch:
            state = self._fork(state, tape, cache, query)
        end = jnp.where(query.serves, tape.edge[query.first], tape.null)
        leaf = query.serves & (cache.kids[query.base + end] == 0)
        return once(
            leaf,
            lambda s: self._enter(s, tape, cache, query, end, tape.length[end], query.first),
            state,
        )

    def _follow(self, state: KeyState, query: Query, edge: Scalar) -> KeyState:
        if not self.whole_branch:
            return state
        return state._replace(following=write(state.following, query.worker, edge))

    # -- the parts of a step ----------------------------------------------------------------

    def _key(self, unit: LeafUnit, tape: Tape) -> Int[Array, ""]:
        key = self.key(unit, tape)
        if jnp.issubdtype(key.dtype, jnp.floating):
            # floats that are not negative are ordered as their bits are
            key = lax.bitcast_convert_type(key.astype(jnp.float32), jnp.int32)
        return key.astype(jnp.int32)

    def _unit(
        self,
        state: KeyState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        cached: Scalar,
        last: Scalar,
    ) -> LeafUnit:
        zero = jnp.zeros((), jnp.int32)
        loaded = record_loaded = branch = zero
        if self.remembers_load:
            loaded, record_loaded = segments.top(state.segments, tape, query, edge)
        if self.sees_branch:
            branch = cached + _chain_above(tape, cache, query, edge)
        return LeafUnit(
            edge=edge,
            last=last,
            depth=tape.depth[edge] - tape.length[edge] + cached,
            cached=cached,
            record=state.record[query.base + edge],
            loaded=loaded,
            record_loaded=record_loaded,
            branch=branch,
        )

    def _enter(
        self,
        state: KeyState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        cached: Scalar,
        last: Scalar,
    ) -> KeyState:
        unit = self._unit(state, tape, cache, query, edge, cached, last)
        key, state, last = lax.optimization_barrier((self._key(unit, tape), state, last))
        return state._replace(leaves=smallest.put(state.leaves, query.base + edge, key, last))

    # -- branches ---------------------------------------------------------------------------

    def _reweigh(
        self,
        state: KeyState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
    ) -> KeyState:
        """The branch through ``edge`` has changed its length: renew the key of its leaf."""
        leaf = lax.while_loop(
            lambda e: cache.kids[query.base + e] == 1,
            lambda e: state.child[query.base + e],
            edge,
        )
        at = query.base + leaf
        off = (cache.last[at] < query.first) | (self.admission == "bypass")
        alone = (cache.kids[at] == 0) & off & (leaf != tape.null)
        leaf, alone, state = lax.optimization_barrier((leaf, alone, state))
        return once(
            alone,
            lambda s: self._enter(s, tape, cache, query, leaf, cache.cached[at], cache.last[at]),
            state,
        )

    def _fork(self, state: KeyState, tape: Tape, cache: Cache, query: Query) -> KeyState:
        """The path is loaded: a branch that leaves it where the cached part ended got shorter."""

        def grow(
            _: Scalar, edge: Scalar, carry: tuple[Array, Scalar, Scalar]
        ) -> tuple[Array, Scalar, Scalar]:
            child, fork, new = carry
            parent = tape.parent[edge]
            fresh = query.cached_before(tape, edge) == 0
            forks = fresh & (parent != tape.null) & (cache.kids[query.base + parent] == 2)
            fork, new = jnp.where(forks, parent, fork), jnp.where(forks, edge, new)
            at, change = query.base + parent, jnp.where(fresh, edge, 0)
            return only_child.toggle(child, at, change), fork, new

        none = jnp.int32(tape.null)
        child, fork, new = over_path(tape, query, grow, (state.child, none, none))
        state = state._replace(child=child)

        def shorten(s: KeyState) -> KeyState:
            other = s.child[query.base + fork] ^ new
            return self._reweigh(s, tape, cache, query, other)

        return once(fork != tape.null, shorten, state)


def _update(array: Array, at: Scalar, change: Callable[[Scalar], Scalar]) -> Array:
    old, array = read(array, at)
    return write(array, at, change(old))


def _chain_above(tape: Tape, cache: Cache, query: Query, edge: Scalar) -> Scalar:
    """Units above an edge up to the first one with another cached child."""

    def single(e: Scalar) -> Array:
        return (e != tape.null) & (cache.kids[query.base + e] == 1)

    def up(carry: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        e, units = carry
        return tape.parent[e], units + tape.length[e]

    return lax.while_loop(
        lambda carry: single(carry[0]), up, (tape.parent[edge], jnp.zeros((), jnp.int32))
    )[1]
