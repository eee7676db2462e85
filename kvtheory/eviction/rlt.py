"""RLT: randomised leaf-token eviction, a uniform unmarked leaf unit goes."""

from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from kvtheory.cache import Cache, EvictionPolicy, Query, Scalar, Tape, add, once, read, write
from kvtheory.errors import bad
from kvtheory.eviction import random_words, zones
from kvtheory.eviction.random_words import RandomWords
from kvtheory.eviction.zones import Zones

Phase = Literal["token", "query", "published"]


class RLTState(NamedTuple):
    """Zones of cached edges, units marked on each worker (|T|), and the random stream."""

    zones: Zones
    marked: Int[Array, " workers"]
    stream: RandomWords


class RLT(EvictionPolicy):
    """Randomised leaf-token eviction (RLT).

    A set T of marked units, ancestor-closed and cached, is protected; a victim is uniform among
    the unmarked leaf units. Units of a query are marked as it is served, and when T is full a
    new phase begins.

    Parameters
    ----------
    phase
        When a phase begins. ``"token"``: units are visited from the root down, and one that is
        not in T while |T| = B sets T to the path above it. ``"query"``: T is cleared before a
        query with |T ∪ path| > B. ``"published"``, after the published code: with e units to
        evict, T is cleared if e + |T| >= B or fewer than e unmarked units can go; the path is
        marked when it has been served.

    Guarantee
    ---------
    ``phase="token"``, forced admission, oblivious adversary: expected misses at most
    (2·H_B − 1)·OPT plus a constant (checked on every tree of up to 6 units); H_{B−L+1} on a
    broom of B−L+2 leaves and 2·H_{B−L+1} − 1 on wider ones, exactly.

    Notes
    -----
    Exact in law. Cost: O(path) a query and O(1) per evicted unit.

    References
    ----------
    Wu, Silwal, Zhang, ICLR 2026, arXiv:2601.18999; Fiat et al. 1991 (marking).
    """

    phase: Phase = eqx.field(static=True, default="token")

    name: ClassVar[str] = "rlt"
    source: ClassVar[str] = "Wu, Silwal, Zhang 2026 (RLT)"
    guarantee: ClassVar[str] = (
        "H_{B-L+1} to 2·H_{B-L+1} - 1 on brooms; 2·H_B - 1 on trees of up to 6 units"
    )
    randomised: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if self.phase not in ("token", "query", "published"):
            raise bad("phase", self.phase, "must be 'token', 'query' or 'published'")

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> RLTState:
        return RLTState(
            zones.init(tape, workers), jnp.zeros(workers, jnp.int32), random_words.init(key)
        )

    def touch(self, state: RLTState, tape: Tape, cache: Cache, query: Query) -> RLTState:
        before = state.marked[query.worker]
        own, units = zones.mark_path(state.zones, tape, cache, query)
        marked = before + units
        if self.phase == "token":
            # |T| = B exactly when every cached unit is marked: a phase ends for want of leaves
            new = (query.need > 0) & (own.leaves[query.worker] == 0)
        elif self.phase == "query":
            new = query.serves & (marked + query.misses > query.capacity)
        else:
            short = query.used - marked < query.need
            new = (query.need > 0) & ((query.need + before >= query.capacity) | short)
        own = once(new, lambda z: new_phase(z, tape, cache, query), own)
        marked = jnp.where(new, query.hits, marked)
        return state._replace(zones=own, marked=write(state.marked, query.worker, marked))

    def evict(
        self, state: RLTState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[RLTState, Scalar, Scalar]:
        own, stream, edge, units = draw_leaf(state.zones, state.stream, query)
        return RLTState(own, state.marked, stream), edge, units

    def emptied(
        self,
        state: RLTState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> RLTState:
        own = zones.remove(state.zones, tape, cache, query, edge)
        if self.phase != "token":
            return state._replace(zones=own)
        own, marked = once(
            (own.leaves[query.worker] == 0) & (need > 0),
            lambda s: (
                new_phase(s[0], tape, cache, query),
                write(s[1], query.worker, query.hits),
            ),
            (own, state.marked),
        )
        return RLTState(own, marked, state.stream)

    def load(self, state: RLTState, tape: Tape, cache: Cache, query: Query) -> RLTState:
        served = jnp.where(query.serves, query.misses, 0)
        return state._replace(
            zones=zones.load_path(state.zones, tape, query),
            marked=add(state.marked, query.worker, served),
        )


def draw_leaf(
    own: Zones, stream: RandomWords, query: Query
) -> tuple[Zones, RandomWords, Scalar, Scalar]:
    """A uniform unmarked leaf unit: zones, stream, its edge, and 1, or 0 if to draw again."""
    stream, index, counts = random_words.below(stream, own.leaves[query.worker])
    edge, slots = read(own.slots, query.base + index)
    return own._replace(slots=slots), stream, edge, counts


def new_phase(own: Zones, tape: Tape, cache: Cache, query: Query) -> Zones:
    """Forget all marks but those of the path."""
    return zones.mark_path(zones.unmark_all(own, cache, query), tape, cache, query)[0]
