"""Small forests and the work function on them, by definition.

A unit is a number, a set of units a bit mask. `parents[u] < u`, and −1 stands above a root.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np

Parents = tuple[int, ...]


def small_pairs(units: int, least: int = 1) -> Iterator[tuple[Parents, int]]:
    """Every rooted forest up to isomorphism, at capacities from its depth to its units − 1."""
    for n in range(least, units + 1):
        for parents in small_forests(n):
            depth = max(len(path) for path in paths_of(parents))
            for capacity in range(depth, n):
                yield parents, capacity


@cache
def small_forests(units: int) -> tuple[Parents, ...]:
    """The rooted forests of a number of units: all arrays of parents, one of each shape."""
    found: dict[str, Parents] = {}
    for above in product(*(range(-1, u) for u in range(units))):
        found.setdefault(shape(above), above)
    return tuple(found.values())


def shape(parents: Sequence[int]) -> str:
    """Brackets that are equal for isomorphic forests only."""
    below: list[list[str]] = [[] for _ in range(len(parents) + 1)]
    for u in reversed(range(len(parents))):
        below[parents[u]].append("(" + "".join(sorted(below[u])) + ")")
    return "".join(sorted(below[-1]))


def paths_of(parents: Sequence[int]) -> list[tuple[int, ...]]:
    """The units from the root down to each unit."""
    paths: list[tuple[int, ...]] = []
    for u, parent in enumerate(parents):
        paths.append((*(paths[parent] if parent >= 0 else ()), u))
    return paths


def path_masks(parents: Sequence[int]) -> list[int]:
    """`paths_of` as sets."""
    return [sum(1 << u for u in path) for path in paths_of(parents)]


def closed_sets(parents: Sequence[int], most: int) -> list[int]:
    """The ancestor-closed sets of at most ``most`` units."""
    return [
        s
        for s in range(1 << len(parents))
        if s.bit_count() <= most
        and all(p < 0 or s >> p & 1 for u, p in enumerate(parents) if s >> u & 1)
    ]


def leaves_in(parents: Sequence[int], cached: int) -> int:
    """The units of a set that have no child in it."""
    inner = 0
    for u, parent in enumerate(parents):
        if parent >= 0 and cached >> u & 1:
            inner |= 1 << parent
    return cached & ~inner


def members(mask: int) -> list[int]:
    """The units of a set."""
    return [u for u in range(mask.bit_length()) if mask >> u & 1]


def width(parents: Sequence[int], capacity: int) -> int:
    """k, one less than the most leaves of an ancestor-closed set of B + 1 units, by search."""
    sets = closed_sets(parents, capacity + 1)
    return max(leaves_in(parents, s).bit_count() for s in sets if s.bit_count() == capacity + 1) - 1


def harmonic(n: int) -> Fraction:
    """H_n as a fraction."""
    return sum((Fraction(1, i) for i in range(1, n + 1)), Fraction(0))


class WorkFunction:
    """w_t(S), the least number of loads with which t queries are served and S is left, less min w.

    Loading a unit costs 1, also one that is not asked for; dropping one costs nothing. A query,
    any ancestor-closed set of units, must be in the cache at one moment.

    Parameters
    ----------
    parents, capacity
        The forest and B.
    """

    def __init__(self, parents: Sequence[int], capacity: int) -> None:
        self.caches = closed_sets(parents, capacity)
        self.start = tuple(s.bit_count() for s in self.caches)
        sets = np.array(self.caches)
        self._loads = np.bitwise_count(sets[None, :] & ~sets[:, None]).astype(np.int64)
        self._known: dict[tuple[tuple[int, ...], int], tuple[int, tuple[int, ...]]] = {}

    def after(self, w: tuple[int, ...], asked: int) -> tuple[int, tuple[int, ...]]:
        """The increase of OPT by a query, and w − min w after it."""
        key = w, asked
        if key not in self._known:
            serving = [i for i, s in enumerate(self.caches) if not asked & ~s]
            after = (np.array(w)[serving, None] + self._loads[serving]).min(axis=0)
            increase = int(after.min())
            self._known[key] = increase, tuple((after - increase).tolist())
        return self._known[key]
