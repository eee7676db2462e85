"""Layered policies: a leaf unit of the first over-full prefix of layers goes; LRLT is one of them.

The layers say which caches an optimal schedule may hold. What differs is the victim: drawn at
every eviction (`LayeredLaw`), or by a record or a priority that a unit carries (`layered_by_key`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import gcd, lcm
from typing import Any, ClassVar

from kvtheory.errors import bad
from kvtheory.layers import Layers
from kvtheory.ratio.exact_engine.forest import Forest, moved
from kvtheory.ratio.exact_engine.layered_by_key import (
    LayeredOldest,
    LayeredPriority,
    first_over_full,
)

Masks = tuple[int, ...]  # L_1, L_2, … as sets; units in none are outside the support
Law = tuple[tuple[int, int], ...]  # caches and their weights, sorted
Belief = tuple[Masks, Law]
type Odds = Callable[[Forest, int, int], Mapping[int, int]]
"""Of a forest, the cached units and the over-full prefix, as a mask and an infinite one: whole
numbers by leaf unit, to which the chance to go is proportional. Leaves left out stay."""

type Victim = str | Odds
VICTIMS = ("uniform", "stem", "oldest", "priority", "cache")


@dataclass(frozen=True)
class LRLT:
    """Layered RLT.

    Parameters
    ----------
    stem
        Within the evictions of one query from one prefix, the parent of a victim goes next while
        it has become a leaf inside the prefix.
    """

    stem: bool = False
    name: ClassVar[str] = "lrlt"

    def on(self, forest: Forest, capacity: int) -> "LayeredLaw":
        """On a forest."""
        return LayeredLaw(forest, capacity, uniform, stem=self.stem)


@dataclass(frozen=True)
class Layered:
    """A layered policy with a victim of one's choice.

    Parameters
    ----------
    victim
        ``"uniform"``, ``"stem"``, ``"oldest"`` or ``"priority"``, as
        `kvtheory.eviction.layered.Layered` has them. ``"cache"``: of all caches that the evictions
        of one query may lead to, victims taken from first over-full prefixes, each is equally
        likely. Or a function as `Odds` describes.
    """

    victim: Victim = "uniform"
    name: ClassVar[str] = "layered"

    def __post_init__(self) -> None:
        if not callable(self.victim) and self.victim not in VICTIMS:
            raise bad("victim", self.victim, f"must be one of {', '.join(VICTIMS)}, or a function")

    def on(self, forest: Forest, capacity: int) -> "LayeredLaw | LayeredOldest | LayeredPriority":
        """On a forest."""
        if self.victim == "oldest":
            return LayeredOldest(forest, capacity)
        if self.victim == "priority":
            return LayeredPriority(forest, capacity)
        if self.victim == "cache":
            return UniformCache(forest, capacity)
        odds = self.victim if callable(self.victim) else uniform
        return LayeredLaw(forest, capacity, odds, stem=self.victim == "stem")


def uniform(forest: Forest, cached: int, prefix: int) -> dict[int, int]:
    """The same chance for every leaf of the prefix."""
    return dict.fromkeys((u for u in forest.leaves_of(cached) if prefix >> u & 1), 1)


class LayeredLaw:
    """The beliefs of a layered policy that draws its victims: layers, and the law of the cache.

    Parameters
    ----------
    forest, capacity
        The units and B.
    odds
        Of the leaves of the prefix.
    stem
        Whether the parent of a victim goes next while it has become a leaf of the prefix.
    """

    colours_tell_all: ClassVar[bool] = False

    def __init__(self, forest: Forest, capacity: int, odds: Odds, *, stem: bool) -> None:
        self.forest, self.capacity, self.odds, self.stem = forest, capacity, odds, stem
        self._paths = [forest.path(u) for u in range(forest.units)]
        self._masks = [forest.path_mask(u) for u in range(forest.units)]
        self._after = cache(self._after_uncached)

    def belief_init(self) -> Belief:
        """No layers, and surely an empty cache."""
        return (), ((0, 1),)

    def belief_step(self, belief: Belief, query: int) -> tuple[Fraction, Belief]:
        """Serve a query from every cache that may be there."""
        layers, law = belief
        path = self._masks[query]
        layers = Layers(self.capacity, layers).serve(self._paths[query])[1].layers
        total = sum(weight for _, weight in law)
        missing = sum(weight * (path & ~cached).bit_count() for cached, weight in law)
        parts = [(weight, *self._after(cached | path, layers)) for cached, weight in law]
        scale = lcm(*(whole for _, whole, _ in parts))
        mixed: dict[int, int] = {}
        for weight, whole, outcomes in parts:
            factor = weight * (scale // whole)
            for cached, part in outcomes:
                mixed[cached] = mixed.get(cached, 0) + factor * part
        shared = gcd(*mixed.values())
        return Fraction(missing, total), (
            layers,
            tuple((cached, weight // shared) for cached, weight in sorted(mixed.items())),
        )

    def _after_uncached(self, cached: int, layers: Masks) -> tuple[int, Law]:
        """Law of the cache once it fits: the sum of the weights, and the weights."""
        known = Layers(self.capacity, layers)
        going: dict[tuple[int, int, int], Fraction] = {(cached, -1, -1): Fraction(1)}
        for _ in range(cached.bit_count() - self.capacity):
            then: dict[tuple[int, int, int], Fraction] = {}
            for (now, stem, last), weight in going.items():
                i, prefix = first_over_full(known, now)
                odds = self.odds(self.forest, now, prefix)
                if self.stem and i == last and stem in odds:
                    odds = {stem: 1}
                whole = sum(odds.values())
                for u, share in odds.items():
                    up = self.forest.parents[u] if self.stem else -1
                    key = (now & ~(1 << u), up, i if self.stem else -1)
                    then[key] = then.get(key, Fraction(0)) + weight * Fraction(share, whole)
            going = then
        law: dict[int, Fraction] = {}
        for (now, _, _), weight in going.items():
            law[now] = law.get(now, Fraction(0)) + weight
        whole = lcm(*(weight.denominator for weight in law.values()))
        return whole, tuple((now, int(weight * whole)) for now, weight in law.items())

    def relabel(self, belief: Belief, permutation: Sequence[int]) -> Belief:
        """The belief with the units renamed."""
        layers, law = belief
        return (
            tuple(moved(layer, permutation) for layer in layers),
            tuple(sorted((moved(cached, permutation), weight) for cached, weight in law)),
        )

    def colours(self, belief: Belief) -> Sequence[Any]:
        """Layer, and weight of the caches that hold the unit."""
        layers, law = belief
        n = self.forest.units
        layer_of, held = [0] * n, [0] * n
        for i, layer in enumerate(layers, 1):
            for u in range(n):
                if layer >> u & 1:
                    layer_of[u] = i
        for cached, weight in law:
            for u in range(n):
                if cached >> u & 1:
                    held[u] += weight
        return list(zip(layer_of, held, strict=True))


class UniformCache(LayeredLaw):
    """The beliefs of the layered policy that draws a cache and not one victim after the other."""

    def __init__(self, forest: Forest, capacity: int) -> None:
        super().__init__(forest, capacity, uniform, stem=False)

    def _after_uncached(self, cached: int, layers: Masks) -> tuple[int, Law]:
        """All caches that may be left, with the same weight."""
        known = Layers(self.capacity, layers)
        going = {cached}
        for _ in range(cached.bit_count() - self.capacity):
            going = {
                now & ~(1 << u)
                for now in going
                for u in self.odds(self.forest, now, first_over_full(known, now)[1])
            }
        return len(going), tuple((now, 1) for now in going)
