"""Random eviction: a uniform leaf unit goes."""

from typing import ClassVar, NamedTuple

from jaxtyping import Array, Int, Key

from kvtheory.cache import Cache, EvictionPolicy, Query, Scalar, Tape, once
from kvtheory.eviction import random_words, zones
from kvtheory.eviction.random_words import RandomWords
from kvtheory.eviction.rlt import draw_leaf, new_phase
from kvtheory.eviction.zones import Zones


class RandomLeafState(NamedTuple):
    """Zones in which only the path of the current query is marked, and the random stream."""

    zones: Zones
    stream: RandomWords


class RandomLeaf(EvictionPolicy):
    """Evict a uniform leaf unit off the path of the query.

    Notes
    -----
    Under independent requests of single units its hit rate is that of FIFO (Gelenbe 1973).
    Cost: O(path) a query and O(1) per evicted unit.
    """

    name: ClassVar[str] = "random_leaf"
    source: ClassVar[str] = "Gelenbe 1973 (random replacement)"
    guarantee: ClassVar[str] = "heuristic; as FIFO under independent requests of single units"
    randomised: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> RandomLeafState:
        return RandomLeafState(zones.init(tape, workers), random_words.init(key))

    def touch(
        self, state: RandomLeafState, tape: Tape, cache: Cache, query: Query
    ) -> RandomLeafState:
        own = once(query.serves, lambda z: new_phase(z, tape, cache, query), state.zones)
        return state._replace(zones=own)

    def evict(
        self, state: RandomLeafState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[RandomLeafState, Scalar, Scalar]:
        own, stream, edge, units = draw_leaf(state.zones, state.stream, query)
        return RandomLeafState(own, stream), edge, units

    def emptied(
        self,
        state: RandomLeafState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> RandomLeafState:
        return state._replace(zones=zones.remove(state.zones, tape, cache, query, edge))

    def load(
        self, state: RandomLeafState, tape: Tape, cache: Cache, query: Query
    ) -> RandomLeafState:
        return state._replace(zones=zones.load_path(state.zones, tape, query))
