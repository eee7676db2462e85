"""Layered policies: a leaf of the first over-full prefix of layers goes; LRLT is one of them."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Key, UInt32

from kvtheory.cache import Cache, EvictionPolicy, Prepared, Query, Scalar, Tape, once
from kvtheory.errors import bad
from kvtheory.eviction import over_full, random_words
from kvtheory.eviction.over_full import Leaf, Walk
from kvtheory.eviction.random_words import RandomWords
from kvtheory.instance import Instance
from kvtheory.layers import device
from kvtheory.layers.device import DeviceLayers

type Victim = Literal["uniform", "stem", "oldest", "priority"] | Callable[[Leaf], Any]
VICTIMS = ("uniform", "stem", "oldest", "priority")


class LayeredState(NamedTuple):
    """Layers of all workers, the walk of the current query, and where randomness comes from.

    ``stem`` tells whether the latest victim's parent goes next; ``salt`` makes the priorities.
    """

    layers: DeviceLayers
    walk: Walk
    stem: Bool[Array, ""]
    stream: RandomWords
    salt: UInt32[Array, " 2"]


class _Layered(EvictionPolicy):
    """A leaf of the first over-full prefix goes; subclasses say which one."""

    randomised: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def rule(self) -> Victim:
        """Which leaf of the prefix goes."""

    def prepare(self, instance: Instance, served: np.ndarray | None = None) -> Prepared:
        first = {"first_unit": instance.tree.offset[:-1]} if self.rule == "priority" else {}
        return Prepared({}, first)

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> LayeredState:
        return LayeredState(
            layers=device.init(tape, workers),
            walk=over_full.init(tape, workers),
            stem=jnp.zeros((), bool),
            stream=random_words.init(key),
            salt=jax.random.bits(jax.random.fold_in(key, 1), (2,), jnp.uint32),
        )

    def touch(self, state: LayeredState, tape: Tape, cache: Cache, query: Query) -> LayeredState:
        walk = over_full.begin(state.walk, state.layers, tape, query)
        walk, layers = lax.optimization_barrier((walk, state.layers))
        layers, _ = device.serve(layers, tape, query)
        return state._replace(layers=layers, walk=walk)

    def evict(
        self, state: LayeredState, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[LayeredState, Scalar, Scalar]:
        layers, stream = state.layers, state.stream
        same_prefix = state.walk.excess > 0
        walk = over_full.find(state.walk, layers, query)
        # only where the units of an edge are alike, or follow one another, they go at once
        most = need if self.rule in ("stem", "oldest") else jnp.ones((), jnp.int32)
        if self.rule == "uniform":
            stream, pick, counts = random_words.below(stream, walk.count)
            most = most * counts
        elif self.rule == "stem":
            stream, pick, counts = once(
                ~(same_prefix & state.stem),
                lambda s: random_words.below(s[0], walk.count),
                (stream, walk.pick, jnp.ones((), jnp.int32)),
            )
            most = most * counts
        else:
            pick = over_full.least(walk, layers, tape, query, self._key(state, tape))
        walk, edge, units = over_full.take(walk, layers, tape, pick, most)
        state = state._replace(walk=walk, stem=jnp.zeros((), bool), stream=stream)
        return state, edge, units

    def emptied(
        self,
        state: LayeredState,
        tape: Tape,
        cache: Cache,
        query: Query,
        edge: Scalar,
        need: Scalar,
    ) -> LayeredState:
        walk, stem = over_full.remove(state.walk, state.layers, tape, cache, query, edge)
        return state._replace(walk=walk, stem=stem)

    def load(self, state: LayeredState, tape: Tape, cache: Cache, query: Query) -> LayeredState:
        return state._replace(walk=over_full.load(state.walk, state.layers, tape, cache, query))

    def _key(self, state: LayeredState, tape: Tape) -> Callable[[Leaf], Any]:
        if self.rule == "oldest":
            return lambda leaf: leaf.last
        if self.rule == "priority":
            first = tape.prepared.edge["first_unit"]
            return lambda leaf: priority(state.salt, first[leaf.edge] + leaf.cached - 1)
        assert callable(self.rule)
        return self.rule


class Layered(_Layered):
    """Evict a leaf of the first prefix of layers that holds more cached units than its index.

    The layers (`kvtheory.layers.Layers`) say which caches an optimal schedule may hold now; taking
    victims from the first over-full prefix keeps the cache one of them.

    Parameters
    ----------
    victim
        Which leaf unit of the prefix goes. ``"uniform"``: any, equally likely (`LRLT`).
        ``"stem"``: a uniform one, then its parent as long as that has become a leaf of the prefix,
        within the evictions of one query from one prefix. ``"oldest"``: the least recently used,
        which makes it leaf LRU. ``"priority"``: the smallest of random priorities that units have
        for good (OnlineMin where every path has one unit). Or a function of a
        `kvtheory.eviction.over_full.Leaf`, whose smallest value goes.

    Guarantee
    ---------
    Forced admission, any victims: misses at most k·OPT plus a constant, with k the effective
    width of the tree (`kvtheory.ratio.width`). With ``"priority"`` H_k in flat paging.

    Notes
    -----
    Exact in law. Cost: amortised O(path · α) a query for the layers; a query that evicts walks the
    cached edges from the oldest up to the last over-full prefix, and then takes O(1) per evicted
    unit (O(leaves of the prefix) with keys and priorities).

    References
    ----------
    New here on trees. Flat paging: Koutsoupias and Papadimitriou 2000 (layers); Brodal, Moruz and
    Negoescu 2015 (OnlineMin).
    """

    victim: Victim = eqx.field(static=True, default="uniform")

    name: ClassVar[str] = "layered"
    source: ClassVar[str] = "new here; flat paging: Koutsoupias, Papadimitriou 2000"
    guarantee: ClassVar[str] = "k-competitive, k the effective width, whichever victim"

    def __check_init__(self) -> None:
        if not callable(self.victim) and self.victim not in VICTIMS:
            raise bad("victim", self.victim, f"must be one of {', '.join(VICTIMS)}, or a function")

    @property
    def rule(self) -> Victim:
        return self.victim


class LRLT(_Layered):
    """Layered randomised leaf-token eviction: a uniform leaf of the first over-full prefix goes.

    Parameters
    ----------
    stem
        Whether the parent of an evicted leaf goes next as long as it has become a leaf of the
        prefix, within the evictions of one query from one prefix.

    Guarantee
    ---------
    Forced admission, oblivious adversary: misses at most k·OPT plus a constant, k the effective
    width of the tree. Of the 191 pairs of a tree of up to 6 units and a capacity, the exact ratio
    is H_k, which no policy can beat, on 183 (at most 25/16 where H_k is 3/2), with ``stem`` on
    all. RLT is the case of two layers, marked and unmarked.

    Notes
    -----
    As `Layered` with ``"uniform"`` or ``"stem"``.
    """

    stem: bool = eqx.field(static=True, default=False)

    name: ClassVar[str] = "lrlt"
    source: ClassVar[str] = "new here (layered RLT)"
    guarantee: ClassVar[str] = (
        "k-competitive; H_k on 183 of the 191 (tree, B) of up to 6 units, with stems on all"
    )

    @property
    def rule(self) -> Victim:
        return "stem" if self.stem else "uniform"


def priority(salt: UInt32[Array, " 2"], unit: Scalar) -> UInt32[Array, ""]:
    """The random priority of a unit: different for different units, and the same for good.

    Two keyed rounds of the finaliser of MurmurHash3, each a bijection of 32-bit words.
    """
    word = unit.astype(jnp.uint32)
    for part in (salt[0], salt[1]):
        word = word ^ part
        word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
        word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
        word = word ^ (word >> 16)
    return word
