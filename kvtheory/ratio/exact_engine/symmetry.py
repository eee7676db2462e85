"""The automorphisms of a forest: states that differ by one of them are one state."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from math import factorial, prod
from typing import Any

import numpy as np

from kvtheory.ratio.exact_engine.forest import Forest

MOST = 10_000


class Symmetry:
    """A group of permutations of the units that keep parents and the set of queries.

    Parameters
    ----------
    forest
        The forest.
    queries
        The units that may be asked for.
    most
        Largest order. A bigger group is cut down to a subgroup that moves fewer of the subtrees
        that are alike, which folds less and is as right.

    Examples
    --------
    >>> Symmetry(Forest((-1, 0, -1, 2)), (0, 1, 2, 3)).permutations.tolist()
    [[0, 1, 2, 3], [2, 3, 0, 1]]
    """

    def __init__(self, forest: Forest, queries: Sequence[int], most: int = MOST) -> None:
        self.forest = forest
        self._shapes(queries)
        self._moving = forest.units
        while self._moving > 1 and self._order() > most:
            self._moving -= 1
        top = [u for u in range(forest.units) if forest.parents[u] < 0]
        found = [tuple(image[u] for u in range(forest.units)) for image in self._maps(top, top)]
        found.sort()  # the identity is the smallest
        self.permutations = np.array(found, np.int64).reshape(-1, forest.units)
        """int64[order, units]; the image of each unit."""

    @property
    def order(self) -> int:
        """Number of permutations; the first is the identity."""
        return len(self.permutations)

    @cached_property
    def inverse(self) -> np.ndarray:
        """int64[order, units]; the unit that each permutation moves to each place."""
        return np.argsort(self.permutations, axis=1)

    @cached_property
    def as_tuples(self) -> list[tuple[int, ...]]:
        """The permutations as tuples."""
        return [tuple(p) for p in self.permutations.tolist()]

    @cached_property
    def _codes(self) -> np.ndarray:
        return self._code(self.permutations)  # sorted, as the permutations are

    def _code(self, permutations: np.ndarray) -> np.ndarray:
        n = self.forest.units
        return permutations @ (n ** np.arange(n - 1, -1, -1, dtype=np.int64))

    def then(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Number of the permutation that does ``first`` and then ``second``, elementwise."""
        if self.order == 1:
            return np.zeros_like(first)
        after = np.take_along_axis(self.permutations[second], self.permutations[first], axis=1)
        return np.searchsorted(self._codes, self._code(after))

    def on_sets(self, sets: Sequence[int]) -> np.ndarray:
        """int32[order, sets]; place of the set that each permutation moves to each place.

        A function of the sets is moved by taking its values at these places.
        """
        masks = np.array(sets, np.int64)
        place = np.zeros(1 << self.forest.units, np.int32)
        place[masks] = np.arange(len(masks))
        image = np.zeros((self.order, len(masks)), np.int64)
        for u in range(self.forest.units):
            image |= (masks >> u & 1) << self.inverse[:, u, None]
        return place[image]

    def first_colourings(self, colours: Sequence[Any]) -> np.ndarray:
        """The permutations that bring a colouring of the units to its smallest image."""
        code = self._colour_codes(colours)
        return np.flatnonzero(code == code.min())

    def keeping(self, colours: Sequence[Any]) -> np.ndarray:
        """The permutations that keep a colouring of the units."""
        code = self._colour_codes(colours)
        return np.flatnonzero(code == code[0])

    def _colour_codes(self, colours: Sequence[Any]) -> np.ndarray:
        rank = {c: i for i, c in enumerate(sorted(set(colours)))}
        n = self.forest.units
        weight = len(rank) ** np.arange(n - 1, -1, -1, dtype=np.int64)
        return np.array([rank[c] for c in colours], np.int64)[self.inverse] @ weight

    # -- enumeration ------------------------------------------------------------------------

    def _shapes(self, queries: Sequence[int]) -> None:
        number: dict[tuple[bool, tuple[int, ...]], int] = {}
        self._shape = [0] * self.forest.units
        self._below: list[list[int]] = [[] for _ in range(self.forest.units)]
        asked = set(queries)
        for u in reversed(range(self.forest.units)):
            below = sorted(self._below[u], key=lambda v: (self._shape[v], v))
            self._below[u] = below
            key = (u in asked, tuple(self._shape[v] for v in below))
            self._shape[u] = number.setdefault(key, len(number))
            if self.forest.parents[u] >= 0:
                self._below[self.forest.parents[u]].append(u)

    def _classes(self, siblings: Sequence[int]) -> list[list[int]]:
        ordered = sorted(siblings, key=lambda v: (self._shape[v], v))
        return [list(group) for _, group in itertools.groupby(ordered, lambda v: self._shape[v])]

    def _order(self) -> int:
        families = [*self._below, [u for u, p in enumerate(self.forest.parents) if p < 0]]
        return prod(
            factorial(min(len(alike), self._moving))
            for family in families
            for alike in self._classes(family)
        )

    def _maps(self, here: Sequence[int], there: Sequence[int]) -> Iterator[dict[int, int]]:
        # every way to send the subtrees at `here` to those at `there`
        choices: list[list[dict[int, int]]] = []
        for a, b in zip(self._classes(here), self._classes(there), strict=True):
            m = min(len(a), self._moving)
            ways: list[dict[int, int]] = []
            for order in itertools.permutations(b[:m]):
                pairs = zip(a, [*order, *b[m:]], strict=True)
                parts = [
                    [{u: v} | inner for inner in self._maps(self._below[u], self._below[v])]
                    for u, v in pairs
                ]
                ways += [_merged(combination) for combination in itertools.product(*parts)]
            choices.append(ways)
        for combination in itertools.product(*choices):
            yield _merged(combination)


def _merged(maps: Sequence[dict[int, int]]) -> dict[int, int]:
    whole: dict[int, int] = {}
    for part in maps:
        whole |= part
    return whole
