"""Slow twins of the layered policies: the dividers in a literal list of units.

References
----------
Koutsoupias and Papadimitriou, "Beyond competitive analysis", SIAM J. Comput. 30 (2000).
Brodal, Moruz and Negoescu, "OnlineMin: A fast strongly competitive randomized paging algorithm",
Theory Comput. Syst. 56 (2015).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from kvtheory.errors import unknown
from kvtheory.testing.twin_cache import Oversize, Record, Unit
from kvtheory.testing.twins_deterministic import LLRU
from kvtheory.testing.twins_random import Choose, RandomTwin

Victim = Literal["uniform", "stem", "oldest"] | Callable[[Record], float]


class Dividers:
    """The units in order of last use and the dividers among them, as the text has them.

    Parameters
    ----------
    capacity
        Units of the cache, and the most dividers there are.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.order: list[Unit] = []  # the oldest first, inside a query the deeper unit
        self.before: set[Unit] = set()  # the units with a divider just before them
        self.optimum = 0

    def serve(self, path: list[Unit]) -> None:
        """Take the query into account; ``optimum`` rises by what it costs the optimum."""
        if not path:
            return
        support = set(self.order) - set(self.prefixes()[0])
        new = sum(unit not in support for unit in path)
        free = self.capacity - len(self.before)
        pending = max(0, new - free)
        for unit in reversed(self.order):
            if unit in path and unit in support:
                pending += 1
            if unit in self.before and pending > 0:
                self.before.remove(unit)
                pending -= 1
        wrapped = pending
        for unit in reversed(self.order):
            if unit in self.before and pending > 0:
                self.before.remove(unit)
                pending -= 1
        self.order = [unit for unit in self.order if unit not in path] + path[::-1]
        self.before |= set(path)
        self.optimum += new + wrapped

    def prefixes(self) -> list[list[Unit]]:
        """The units before the first divider, those before the second, …, and all."""
        cuts = [i for i, unit in enumerate(self.order) if unit in self.before]
        return [self.order[:cut] for cut in [*cuts, len(self.order)]]


class Layered(RandomTwin):
    """Evict a leaf of the first prefix of layers that holds more cached units than its index.

    Parameters
    ----------
    capacity, choose, oversize
        As for every random twin.
    victim
        Which leaf of the prefix goes. ``"uniform"``: any, equally likely. ``"stem"``: a uniform
        one, and then its parent as long as that has become a leaf of the same prefix while the
        same query is served. ``"oldest"``: the least recently used. Or a key of a record, of
        which the smallest goes.
    """

    def __init__(
        self,
        capacity: int,
        *,
        choose: Choose = lambda n: 0,
        victim: Victim = "uniform",
        oversize: Oversize = "error",
    ) -> None:
        super().__init__(capacity, choose=choose, oversize=oversize)
        if not callable(victim) and victim not in ("uniform", "stem", "oldest"):
            raise unknown("victim", victim, ("uniform", "stem", "oldest"))
        self.rule = victim
        self.dividers = Dividers(capacity)
        self.path: set[Unit] = set()
        self.stem: tuple[int, Unit] = (-1, ())

    def see(self, path: list[Unit]) -> None:
        """Bring the layers up to date."""
        self.dividers.serve(path)
        self.path = set(path)
        self.stem = (-1, ())

    def victim(self, leaves: list[Record]) -> Record:
        """A leaf of the first over-full prefix, chosen by the rule."""
        prefix, candidates = self.over_full(leaves)
        if callable(self.rule):
            return min(candidates, key=lambda r: (self.rule(r), r.last_use, -r.depth))
        if self.rule == "oldest":
            return min(candidates, key=lambda r: (r.last_use, -r.depth))
        grown = [r for r in candidates if (prefix, r.unit) == self.stem]
        chosen = grown[0] if grown else self.draw(candidates)
        if self.rule == "stem":
            self.stem = (prefix, chosen.unit[:-1])
        return chosen

    def over_full(self, leaves: list[Record]) -> tuple[int, list[Record]]:
        """The index of the first over-full prefix, and the leaves in it."""
        held = self.cached | self.path
        for index, prefix in enumerate(self.dividers.prefixes()):
            if len(held & set(prefix)) > index:
                return index, [r for r in leaves if r.unit in set(prefix)]
        raise RuntimeError(f"query {self.now} needs room, but no prefix is over-full")


def lrlt(
    capacity: int, *, choose: Choose, stem: bool = False, oversize: Oversize = "error"
) -> Layered:
    """LRLT, layered randomised leaf-token eviction.

    Examples
    --------
    >>> lrlt(2, choose=lambda n: n - 1).run([[1], [2], [3], [1]])
    [0, 0, 0, 1]
    """
    victim = "stem" if stem else "uniform"
    return Layered(capacity, choose=choose, victim=victim, oversize=oversize)


class Duel(Layered):
    """Follow leaf LRU or LRLT, whichever has had fewer misses.

    Shadow copies of both serve every query first. The guide is leaf LRU at the start, and changes
    when the other one has strictly fewer misses. The oldest leaf of the first over-full prefix
    that the guide does not hold goes.

    Parameters
    ----------
    capacity, choose, oversize
        As for every random twin.
    stem
        Whether the shadow LRLT evicts stems.
    guard
        While the misses are more than (1 + guard)·H_width times the optimum so far, a uniform
        leaf of the prefix goes instead, as with LRLT.
    width
        The effective width of the tree, or a bound on it; 0 means the capacity.
    """

    def __init__(
        self,
        capacity: int,
        *,
        choose: Choose,
        stem: bool = False,
        guard: float = math.inf,
        width: int = 0,
        oversize: Oversize = "error",
    ) -> None:
        super().__init__(capacity, choose=choose, oversize=oversize)
        self.shadows = (LLRU(capacity), lrlt(capacity, choose=choose, stem=stem))
        self.shadow_misses = [0, 0]
        self.guide = 0
        self.misses = 0
        self.guard = guard
        self.harmonic = sum(Fraction(1, i) for i in range(1, (width or capacity) + 1))

    def see(self, path: list[Unit]) -> None:
        """Let the shadows serve the query and choose the guide."""
        super().see(path)
        tokens = path[-1] if path else ()
        for i, shadow in enumerate(self.shadows):
            self.shadow_misses[i] += len(path) - shadow.serve(tokens)
        if self.shadow_misses[1 - self.guide] < self.shadow_misses[self.guide]:
            self.guide = 1 - self.guide
        self.misses += sum(unit not in self.records for unit in path)

    def victim(self, leaves: list[Record]) -> Record:
        """A leaf of the first over-full prefix that the guide does not hold."""
        _, candidates = self.over_full(leaves)
        if self.guard < math.inf:
            allowed = (1 + Fraction(self.guard)) * self.harmonic * self.dividers.optimum
            if self.misses > allowed:
                return self.draw(candidates)
        held = self.shadows[self.guide].cached
        unguided = [r for r in candidates if r.unit not in held]
        return min(unguided, key=lambda r: (r.last_use, -r.depth))
