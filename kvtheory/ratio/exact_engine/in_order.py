"""Deterministic policies whose state is an order of the cached units, and counts at most.

Records are those of `kvtheory.testing`'s twins: all hits of a query are touched as one event, then
leaf units off its path go one at a time until cache and path fit, then the missing units are
loaded. Inside a query the deeper unit counts as the older one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from kvtheory.errors import bad
from kvtheory.ratio.exact_engine.forest import Forest, mask_of

Entry = tuple[int, int]  # a unit and its count
Order = tuple[Entry, ...]  # cached units, the oldest first


class InOrder:
    """A policy with one record per cached unit.

    Parameters
    ----------
    forest, capacity
        The units and B.
    refresh
        Whether a hit makes a unit the newest.
    newest
        Whether the newest leaf goes instead of the oldest.
    cap
        Counts are kept up to this; the leaf with the smallest one goes, ties to the order.
    """

    colours_tell_all: ClassVar[bool] = True

    def __init__(
        self,
        forest: Forest,
        capacity: int,
        *,
        refresh: bool = True,
        newest: bool = False,
        cap: int = 1,
    ) -> None:
        self.forest, self.capacity = forest, capacity
        self.refresh, self.newest, self.cap = refresh, newest, cap

    def belief_init(self) -> Order:
        """Nothing is cached."""
        return ()

    def belief_step(self, belief: Order, query: int) -> tuple[Fraction, Order]:
        """Serve a query."""
        path = self.forest.path(query)
        known = dict(belief)
        missing = [u for u in path if u not in known]
        count = {u: min(known.get(u, 0) + 1, self.cap) for u in path}
        left = [(u, count.get(u, c)) for u, c in belief]
        cached = mask_of(known)
        for _ in range(len(known) + len(missing) - self.capacity):
            victim = self._victim(left, cached, count)
            left.remove(victim)
            cached &= ~(1 << victim[0])
        moving = path if self.refresh else missing
        order = [entry for entry in left if entry[0] not in moving]
        order += [(u, count[u]) for u in reversed(moving)]
        return Fraction(len(missing)), tuple(order)

    def _victim(self, left: Sequence[Entry], cached: int, path: dict[int, int]) -> Entry:
        leaves = [
            entry
            for entry in left
            if entry[0] not in path and not self.forest.children[entry[0]] & cached
        ]
        if self.newest:
            leaves.reverse()
        return min(leaves, key=lambda entry: entry[1])  # the first one of the smallest count

    def relabel(self, belief: Order, permutation: Sequence[int]) -> Order:
        """The belief with the units renamed."""
        return tuple((permutation[u], c) for u, c in belief)

    def colours(self, belief: Order) -> Sequence[Any]:
        """Place and count of each unit."""
        colour = [(-1, 0)] * self.forest.units
        for place, (u, c) in enumerate(belief):
            colour[u] = (place, c)
        return colour

    def belief_bound(self) -> int:
        """At most as many beliefs as orders of at most B units, with counts."""
        total, orders = 1, 1
        for length in range(1, min(self.capacity, self.forest.units) + 1):
            orders *= (self.forest.units - length + 1) * self.cap
            total += orders
        return total


@dataclass(frozen=True)
class LLRU:
    """Leaf LRU: the leaf unit with the oldest last use goes."""

    name: ClassVar[str] = "llru"

    def on(self, forest: Forest, capacity: int) -> InOrder:
        """On a forest."""
        return InOrder(forest, capacity)


@dataclass(frozen=True)
class FIFO:
    """The leaf unit that was loaded first goes.

    Units loaded by one query lie on one path, so the ancestor's last use is never older and ties
    go to the deeper unit: the order of loading is the whole state.
    """

    name: ClassVar[str] = "fifo"

    def on(self, forest: Forest, capacity: int) -> InOrder:
        """On a forest."""
        return InOrder(forest, capacity, refresh=False)


@dataclass(frozen=True)
class MRU:
    """The leaf unit with the newest last use goes, off the path of the query."""

    name: ClassVar[str] = "mru"

    def on(self, forest: Forest, capacity: int) -> InOrder:
        """On a forest."""
        return InOrder(forest, capacity, newest=True)


@dataclass(frozen=True)
class LFU:
    """The leaf unit with the smallest count goes, ties to the oldest last use.

    Parameters
    ----------
    cap
        Counts stop here, which keeps the states finite and makes it a policy of its own.
    """

    cap: int = 3
    name: ClassVar[str] = "lfu"

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise bad("cap", self.cap, "must be at least 1")

    def on(self, forest: Forest, capacity: int) -> InOrder:
        """On a forest."""
        return InOrder(forest, capacity, cap=self.cap)


@dataclass(frozen=True)
class SLRU:
    """Units that were used at least twice go after all others, LRU within either class."""

    name: ClassVar[str] = "slru"

    def on(self, forest: Forest, capacity: int) -> InOrder:
        """On a forest."""
        return InOrder(forest, capacity, cap=2)
