"""Duel: a layered policy that follows leaf LRU or LRLT, whichever has missed less."""

import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from kvtheory.cache import Cache, EvictionPolicy, Query, Scalar, Tape, add, once, write
from kvtheory.errors import bad
from kvtheory.eviction import over_full, random_words
from kvtheory.eviction.layered import LRLT
from kvtheory.eviction.llru import LeafLRU
from kvtheory.eviction.over_full import Leaf, Walk
from kvtheory.layers import device
from kvtheory.layers.device import DeviceLayers
from kvtheory.step import State, init, serve

EXACT = 64  # harmonic numbers up to here come from a table
EULER = 0.57721566490153286


class DuelState(NamedTuple):
    """Layers and walk of the policy itself, the shadows, and what all three have paid."""

    layers: DeviceLayers
    walk: Walk
    llru: State
    lrlt: State
    capacity: Int[Array, " workers"]
    follows_lrlt: Bool[Array, " workers"]
    misses: Int[Array, " workers"]
    llru_misses: Int[Array, " workers"]
    lrlt_misses: Int[Array, " workers"]
    optimum: Int[Array, " workers"]
    allowed: Float[Array, " workers"]


class Duel(EvictionPolicy):
    """Follow leaf LRU or LRLT, whichever has had fewer misses, inside the layers.

    Shadow copies of both serve every query first. The guide is leaf LRU at the start, and changes
    when the other one has strictly fewer misses. The oldest leaf of the first over-full prefix
    that the guide does not hold goes; there is one, as the guide holds no more of that prefix than
    it may.

    Parameters
    ----------
    stem
        Whether the shadow LRLT evicts stems.
    guard
        While the misses are more than (1 + guard)·H_width times the optimum so far, which the
        layers tell, a uniform leaf of the prefix goes instead, as with LRLT.
    width
        The effective width of the tree (`kvtheory.ratio.width`) or a bound on it; 0 means the
        capacity.

    Guarantee
    ---------
    Forced admission: misses at most k·OPT plus a constant, k the effective width, as for every
    layered policy. That it does as well as the better of the two is an observation, on most but
    not on all traces.

    Notes
    -----
    Cost: that of leaf LRU, of LRLT, and of a walk of its own; O(leaves of the prefix) for each
    edge from which units go.
    """

    stem: bool = eqx.field(static=True, default=False)
    guard: float = math.inf
    width: int = 0

    name: ClassVar[str] = "duel"
    source: ClassVar[str] = "new here (leaf LRU against LRLT)"
    guarantee: ClassVar[str] = "k-competitive, k the effective width"
    randomised: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def __check_init__(self) -> None:
        for name in ("guard", "width"):
            value = getattr(self, name)
            if isinstance(value, int | float) and not value >= 0:
                raise bad(name, value, "must not be negative")

    @property
    def _shadows(self) -> tuple[EvictionPolicy, EvictionPolicy]:
        return LeafLRU(), LRLT(self.stem)

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> DuelState:
        llru, lrlt = self._shadows
        zero = jnp.zeros(workers, jnp.int32)
        width = jnp.where(jnp.asarray(self.width) > 0, self.width, capacity)
        return DuelState(
            layers=device.init(tape, workers),
            walk=over_full.init(tape, workers),
            llru=init(llru, tape, capacity, key),
            lrlt=init(lrlt, tape, capacity, key),
            capacity=capacity,
            follows_lrlt=jnp.zeros(workers, bool),
            misses=zero,
            llru_misses=zero,
            lrlt_misses=zero,
            optimum=zero,
            allowed=(1 + jnp.asarray(self.guard, jnp.float32)) * harmonic(width),
        )

    def touch(self, state: DuelState, tape: Tape, cache: Cache, query: Query) -> DuelState:
        w = query.worker
        served = jnp.where(query.serves, query.length, 0)

        def shadow(policy: EvictionPolicy, of: State, misses: Array) -> tuple[State, Array]:
            of, hits = serve(policy, tape, state.capacity, of, query.t, w)
            return of, add(misses, w, jnp.where(query.serves, served - hits, 0))

        first, second = self._shadows
        llru, llru_misses = shadow(first, state.llru, state.llru_misses)
        lrlt, lrlt_misses = shadow(second, state.lrlt, state.lrlt_misses)
        ahead = lrlt_misses[w] - llru_misses[w]
        follows = jnp.where(ahead == 0, state.follows_lrlt[w], ahead < 0)

        walk = over_full.begin(state.walk, state.layers, tape, query)
        walk, layers = lax.optimization_barrier((walk, state.layers))
        layers, increase = device.serve(layers, tape, query)
        return DuelState(
            layers=layers,
            walk=walk,
            llru=llru,
            lrlt=lrlt,
            capacity=state.capacity,
            follows_lrlt=write(state.follows_lrlt, w, follows),
            misses=add(state.misses, w, jnp.where(query.serves, query.misses, 0)),
            llru_misses=llru_misses,
            lrlt_misses=lrlt_misses,
            optimum=add(state.optimum, w, increase),
            allowed=state.allowed,
        )

    def evict(
        self, state: DuelState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[DuelState, Scalar, Scalar]:
        w, layers = query.worker, state.layers
        walk = over_full.find(state.walk, layers, query)

        def held_by_guide(edge: Scalar) -> Scalar:
            slot = query.base + edge
            llru, lrlt = state.llru.cache.cached[slot], state.lrlt.cache.cached[slot]
            return jnp.where(state.follows_lrlt[w], lrlt, llru)

        def key(leaf: Leaf) -> Array:
            return held_by_guide(leaf.edge) >= leaf.cached

        # an inequality with a margin, so that equality is equality
        allowed = state.allowed[w] * state.optimum[w].astype(jnp.float32)
        guarded = state.misses[w].astype(jnp.float32) > allowed * jnp.float32(1 + 1e-6)
        stream, pick, counts = once(
            guarded,
            lambda s: random_words.below(s[0], walk.count),
            (state.lrlt.policy.stream, jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32)),
        )
        pick, walk = once(
            ~guarded,
            lambda s: (over_full.least(s[1], layers, tape, query, key), s[1]),
            (pick, walk),
        )
        place = walk.leaves[pick]
        beyond = (walk.held[place] >> 1) - held_by_guide(tape.edge[place - layers.workers])
        most = jnp.where(guarded, counts, beyond)
        walk, edge, units = over_full.take(walk, layers, tape, pick, most)
        own: Any = state.lrlt.policy._replace(stream=stream)
        return state._replace(walk=walk, lrlt=state.lrlt._replace(policy=own)), edge, units

    def emptied(
        self,
        state: DuelState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> DuelState:
        walk, _ = over_full.remove(state.walk, state.layers, tape, cache, query, edge)
        return state._replace(walk=walk)

    def load(self, state: DuelState, tape: Tape, cache: Cache, query: Query) -> DuelState:
        return state._replace(walk=over_full.load(state.walk, state.layers, tape, cache, query))


def harmonic(n: Int[Array, " *shape"]) -> Float[Array, " *shape"]:
    """H_n in float32, exact to rounding for n up to 64 and beyond to 1e-7."""
    table = jnp.cumsum(1 / jnp.arange(1, EXACT + 1, dtype=jnp.float32))
    x = jnp.maximum(n, EXACT).astype(jnp.float32)
    large = jnp.log(x) + EULER + 1 / (2 * x) - 1 / (12 * x * x)
    exact = table[jnp.clip(n, 1, EXACT) - 1]
    return jax.lax.select(n <= EXACT, exact, large.astype(jnp.float32))
