"""Layered policies whose victim is told by what units carry: their last use, or a priority."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from math import factorial
from typing import Any, ClassVar

from kvtheory.errors import bad
from kvtheory.layers import Layers
from kvtheory.ratio.exact_engine.forest import Forest, mask_of, moved

Masks = tuple[int, ...]
Ordered = tuple[Masks, tuple[int, ...]]  # layers, and the cached units, the oldest first
Sorted = tuple[Masks, tuple[tuple[int, int], ...]]  # layers, and caches with their orders

MOST_UNITS = 8  # n! orders of the units are told apart


class LayeredOldest:
    """The beliefs of the layered policy that evicts the least recently used leaf of the prefix.

    Inside a query the deeper unit counts as the older one.
    """

    colours_tell_all: ClassVar[bool] = True

    def __init__(self, forest: Forest, capacity: int) -> None:
        self.forest, self.capacity = forest, capacity

    def belief_init(self) -> Ordered:
        """No layers, and nothing is cached."""
        return (), ()

    def belief_step(self, belief: Ordered, query: int) -> tuple[Fraction, Ordered]:
        """Serve a query."""
        path = self.forest.path(query)
        layers = Layers(self.capacity, belief[0]).serve(path)[1]
        order = [u for u in belief[1] if u not in path] + list(reversed(path))
        misses = len(order) - len(belief[1])
        while len(order) > self.capacity:
            cached = mask_of(order)
            inside = first_over_full(layers, cached)[1] & mask_of(self.forest.leaves_of(cached))
            order.remove(next(u for u in order if inside >> u & 1))
        return Fraction(misses), (layers.layers, tuple(order))

    def relabel(self, belief: Ordered, permutation: Sequence[int]) -> Ordered:
        """The belief with the units renamed."""
        layers, order = belief
        return (
            tuple(moved(layer, permutation) for layer in layers),
            tuple(permutation[u] for u in order),
        )

    def colours(self, belief: Ordered) -> Sequence[Any]:
        """Layer, and place in the order, of each unit."""
        colour = [[0, -1] for _ in range(self.forest.units)]
        for i, layer in enumerate(belief[0], 1):
            for u in range(self.forest.units):
                if layer >> u & 1:
                    colour[u][0] = i
        for place, u in enumerate(belief[1]):
            colour[u][1] = place
        return [tuple(c) for c in colour]


class LayeredPriority:
    """The beliefs of the layered policy whose units have random priorities for good.

    The leaf of the prefix with the smallest priority goes. A belief holds, for each cache, the set
    of the n! equally likely orders of the units for which it is the cache: the priorities and the
    cache are one random thing.

    Raises
    ------
    InputError
        For more than `MOST_UNITS` units.
    """

    def __init__(self, forest: Forest, capacity: int) -> None:
        if forest.units > MOST_UNITS:
            raise bad("victim", "priority", f"is exact for at most {MOST_UNITS} units")
        self.forest, self.capacity = forest, capacity
        self._orders = factorial(forest.units)
        self._before = _before(forest.units)

    def belief_init(self) -> Sorted:
        """No layers, and an empty cache in all orders."""
        return (), ((0, (1 << self._orders) - 1),)

    def belief_step(self, belief: Sorted, query: int) -> tuple[Fraction, Sorted]:
        """Serve a query from every cache that may be there."""
        layers = Layers(self.capacity, belief[0]).serve(self.forest.path(query))[1]
        path = self.forest.path_mask(query)
        missing = 0
        going: dict[int, int] = {}
        for cached, orders in belief[1]:
            missing += (path & ~cached).bit_count() * orders.bit_count()
            union = cached | path
            going[union] = going.get(union, 0) | orders
        fits: dict[int, int] = {}
        while going:
            cached, orders = going.popitem()
            if cached.bit_count() <= self.capacity:
                fits[cached] = fits.get(cached, 0) | orders
                continue
            prefix = first_over_full(layers, cached)[1]
            leaves = [u for u in self.forest.leaves_of(cached) if prefix >> u & 1]
            for u in leaves:
                first = orders
                for other in leaves:
                    if other != u:
                        first &= self._before[u][other]
                if first:
                    left = cached & ~(1 << u)
                    going[left] = going.get(left, 0) | first
        return Fraction(missing, self._orders), (layers.layers, tuple(sorted(fits.items())))


def first_over_full(layers: Layers, cached: int) -> tuple[int, int]:
    """The index of the first over-full prefix, and the prefix as an infinite mask."""
    i = layers.over_full(cached)
    assert i is not None, "a cache that is too large is over-full"
    return i, layers.prefix(i)


def _before(n: int) -> list[list[int]]:
    """For units u and v, the set of those orders of n units in which u comes first."""
    out = [[0] * n for _ in range(n)]
    for bit, order in enumerate(permutations(range(n))):
        for place, u in enumerate(order):
            for v in order[place + 1 :]:
                out[u][v] |= 1 << bit
    return out
