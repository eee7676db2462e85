"""Predictive Marker: marking with predictions of the next use, on the phases of RLT."""

import dataclasses
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import (
    NEVER,
    Cache,
    EvictionPolicy,
    Prepared,
    Query,
    Scalar,
    Tape,
    add,
    leaf_of_path,
    once,
    read,
    write,
)
from kvtheory.errors import bad
from kvtheory.eviction import random_words, smallest, zones
from kvtheory.eviction.random_words import RandomWords
from kvtheory.eviction.rlt import new_phase
from kvtheory.eviction.smallest import Smallest
from kvtheory.eviction.zones import Zones
from kvtheory.instance import Instance
from kvtheory.next_use import next_use, query_of

# The least B with H_B >= 1, 2, 3, …: how many evictions of a chain trust the predictions.
# (The On-Line Encyclopedia of Integer Sequences, A002387.)
HARMONIC_STEPS = (
    *(1, 4, 11, 31, 83, 227, 616, 1674, 4550, 12367, 33617, 91380, 248397, 675214, 1835421),
    *(4989191, 13562027, 36865412, 100210581, 272400600, 740461601, 2012783315),
)


class MarkingState(NamedTuple):
    """Phases as in RLT, unmarked leaf units by prediction, and the chains of the phase.

    A unit evicted in phase ``evicted_in`` belongs to the chain named by the clean unit
    ``chain``, which has made ``count`` evictions.
    """

    zones: Zones
    leaves: Smallest
    phase: Int[Array, " workers"]
    evicted_in: Int[Array, " workers*(edges+1)"]
    chain: Int[Array, " workers*(edges+1)"]
    count: Int[Array, " workers*(edges+1)"]
    stream: RandomWords


class Marking(EvictionPolicy):
    """Predictive Marker on the token phases of `RLT`.

    A missing unit that needs room and was not cached when the phase began is clean and starts a
    chain; one that was evicted in this phase joins the chain that evicted it. While a chain has
    made at most H_B evictions, the unmarked leaf unit with the farthest predicted next use goes;
    after that a uniform unmarked leaf unit.

    Parameters
    ----------
    predictions
        float64[Σ|q|] or None; the predicted index of the next query that uses each unit, query
        by query and from the root down, infinity for never. None takes the true ones.
    noise
        Standard deviation of a normal factor on the logarithm of the time to the next use, if
        the predictions are the true ones; 0 leaves them true. See `perturbed_next_uses`.
    seed
        Seed of that noise.

    Guarantee
    ---------
    On single units: 2·min(1 + sqrt(5η/OPT), 2·H_B) times OPT, η the ℓ1 error of the
    predictions. On trees it is a heuristic.

    References
    ----------
    Lykouris and Vassilvitskii, ICML 2018, "Competitive caching with machine learned advice".
    """

    predictions: np.ndarray | None = eqx.field(default=None)
    noise: float = 0.0
    seed: int = 0

    name: ClassVar[str] = "marking"
    source: ClassVar[str] = "Lykouris and Vassilvitskii 2018 (Predictive Marker)"
    guarantee: ClassVar[str] = "2·min(1 + sqrt(5η/OPT), 2·H_B) on single units; heuristic on trees"
    randomised: ClassVar[bool] = True
    online: ClassVar[bool] = False
    per_unit: ClassVar[bool] = True

    def prepare(self, instance: Instance, served: np.ndarray | None = None) -> Prepared:
        total = len(instance.log.edge)
        when = self.predictions
        if when is None:
            when = perturbed_next_uses(instance, float(self.noise), int(self.seed))
        when = np.asarray(when, np.float64)
        if when.shape != (total,) or np.isnan(when).any():
            raise bad("predictions", when.shape, f"need {total} numbers, one per requested unit")
        # ranks keep the order and the ties, and fit 32 bits
        rank = np.unique(when, return_inverse=True)[1].astype(np.int32)
        start = instance.log.start.astype(np.int64)
        size = np.diff(start)
        here = np.arange(total) - np.repeat(start[:-1], size)
        return Prepared({"rank": rank[np.repeat(start[1:] - 1, size) - here]})

    def stripped(self) -> Self:
        return dataclasses.replace(self, predictions=None)

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> MarkingState:
        zero, none = jnp.zeros(workers, jnp.int32), jnp.zeros(workers * tape.edges, jnp.int32)
        return MarkingState(
            zones=zones.init(tape, workers),
            leaves=smallest.init(tape.edges, workers),
            phase=zero + 1,
            evicted_in=none,
            chain=none,
            count=none,
            stream=random_words.init(key),
        )

    def touch(self, state: MarkingState, tape: Tape, cache: Cache, query: Query) -> MarkingState:
        own, _ = zones.mark_path(state.zones, tape, cache, query)
        leaf = leaf_of_path(tape, cache, query)
        leaves = once(
            leaf != tape.null, lambda s: smallest.remove(s, query.base + leaf), state.leaves
        )
        return once(
            (query.need > 0) & (own.leaves[query.worker] == 0),
            lambda s: self._begin_phase(s, tape, cache, query),
            state._replace(zones=own, leaves=leaves),
        )

    def evict(
        self, state: MarkingState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[MarkingState, Scalar, Scalar]:
        w, base = query.worker, query.base
        # room is made for the units in the order of the path; the first ones may need none
        missing = base + tape.edge[query.stop - 1 - (query.length - need)]
        phase = state.phase[w]
        stale = state.evicted_in[missing] == phase
        chain = jnp.where(stale, state.chain[missing], missing)
        made = jnp.where(stale, state.count[chain], 0) + 1
        chain, made, state = lax.optimization_barrier((chain, made, state))
        trust = made <= (query.capacity >= jnp.asarray(HARMONIC_STEPS)).sum()
        _, position = smallest.least(state.leaves, cache.used.shape[0], w)
        farthest = tape.edge[jnp.where(position == NEVER, 0, position)]
        stream, index = random_words.uniform(state.stream, state.zones.leaves[w])
        drawn = state.zones.slots[base + index]
        edge = jnp.where(trust, farthest, drawn)
        edge, stream, state = lax.optimization_barrier((edge, stream, state))
        state = state._replace(
            evicted_in=write(state.evicted_in, base + edge, phase),
            chain=write(state.chain, base + edge, chain),
            count=write(state.count, chain, made),
            stream=stream,
        )
        return state, edge, jnp.ones((), jnp.int32)

    def emptied(
        self,
        state: MarkingState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> MarkingState:
        w, base = query.worker, query.base
        own = zones.remove(state.zones, tape, cache, query, edge)
        parent = tape.parent[edge]
        exposed = (cache.kids[base + parent] == 0) & (own.place[base + parent] < own.leaves[w])
        exposed, own = lax.optimization_barrier((exposed, own))
        leaves = smallest.remove(state.leaves, base + edge)
        leaves = once(exposed, lambda s: self._enter(s, tape, cache, query, parent), leaves)
        return once(
            (own.leaves[w] == 0) & (need > 0),
            lambda s: self._begin_phase(s, tape, cache, query),
            state._replace(zones=own, leaves=leaves),
        )

    def load(self, state: MarkingState, tape: Tape, cache: Cache, query: Query) -> MarkingState:
        return state._replace(zones=zones.load_path(state.zones, tape, query))

    def _begin_phase(
        self, state: MarkingState, tape: Tape, cache: Cache, query: Query
    ) -> MarkingState:
        w = query.worker
        own = new_phase(state.zones, tape, cache, query)

        def enter(i: Scalar, carry: tuple[Smallest, Array]) -> tuple[Smallest, Array]:
            leaves, slots = carry
            edge, slots = read(slots, query.base + i)
            return self._enter(leaves, tape, cache, query, edge), slots

        leaves, slots = lax.fori_loop(0, own.leaves[w], enter, (state.leaves, own.slots))
        return state._replace(
            zones=own._replace(slots=slots),
            leaves=leaves,
            phase=add(state.phase, w, jnp.int32(1)),
        )

    def _enter(
        self, leaves: Smallest, tape: Tape, cache: Cache, query: Query, edge: Scalar
    ) -> Smallest:
        last = cache.last[query.base + edge]
        return smallest.put(leaves, query.base + edge, -tape.prepared.position["rank"][last], last)


def perturbed_next_uses(instance: Instance, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """When each requested unit is used next, with noise: predictions for `Marking`.

    Parameters
    ----------
    instance
        The request sequence.
    noise
        Standard deviation of the logarithm of the factor on the time to the next use.
    seed
        Seed of the noise, which is drawn per use of a unit.

    Returns
    -------
    float64[Σ|q|]
        Query by query, from the root down; the (perturbed) index of the next query with the
        unit, infinity if there is none.
    """
    if noise < 0:
        raise bad("noise", noise, "must not be negative")
    log = instance.uncompressed().log
    query = query_of(log).astype(np.int64)
    after = next_use(log).astype(np.int64)
    known = after != NEVER
    wait = np.full(len(after), np.inf)
    wait[known] = query[after[known]] - query[known]
    if noise > 0:
        wait *= np.exp(np.random.default_rng(seed).normal(0.0, noise, len(wait)))
    start = log.start.astype(np.int64)
    size = np.diff(start)
    here = np.arange(len(query)) - np.repeat(start[:-1], size)
    return (query + wait)[np.repeat(start[1:] - 1, size) - here]
