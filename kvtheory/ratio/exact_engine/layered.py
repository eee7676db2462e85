"""LRLT: a uniform leaf unit of the first over-full prefix of layers goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import gcd, lcm
from typing import Any, ClassVar

from kvtheory.layers import Layers
from kvtheory.ratio.exact_engine.forest import Forest, moved

Masks = tuple[int, ...]  # L_1, L_2, … as sets; units in none are outside the support
Law = tuple[tuple[int, int], ...]  # caches and their weights, sorted
Belief = tuple[Masks, Law]


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
        return LayeredLaw(forest, capacity, stem=self.stem)


class LayeredLaw:
    """The beliefs of LRLT: layers, and the law of the cache as integer weights."""

    colours_tell_all: ClassVar[bool] = False

    def __init__(self, forest: Forest, capacity: int, *, stem: bool) -> None:
        self.forest, self.capacity, self.stem = forest, capacity, stem
        self._paths = [forest.path(u) for u in range(forest.units)]
        self._masks = [forest.path_mask(u) for u in range(forest.units)]
        self._after = cache(self._after_uncached)
        self._leaves = cache(forest.leaves_of)

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
        prefixes = [(1 << self.forest.units) - 1]
        for layer in reversed(layers):
            prefixes.append(prefixes[-1] & ~layer)
        prefixes.reverse()  # prefix i holds what is outside the support and L_1 … L_i
        going: dict[tuple[int, int, int], Fraction] = {(cached, -1, -1): Fraction(1)}
        for _ in range(cached.bit_count() - self.capacity):
            then: dict[tuple[int, int, int], Fraction] = {}
            for (now, stem, last), weight in going.items():
                i = next(i for i, p in enumerate(prefixes) if (now & p).bit_count() > i)
                leaves = [u for u in self._leaves(now) if prefixes[i] >> u & 1]
                if self.stem and i == last and stem in leaves:
                    leaves = [stem]
                for u in leaves:
                    up = self.forest.parents[u] if self.stem else -1
                    key = (now & ~(1 << u), up, i if self.stem else -1)
                    then[key] = then.get(key, Fraction(0)) + weight / len(leaves)
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
