"""LRLT on the edges of a compressed tree, in plain Python: a twin for whole traces."""

import sys
from collections.abc import Callable

from kvtheory.layers import EdgeLayers
from kvtheory.tree import PrefixTree


class EdgeLRLT:
    """Layered randomised leaf-token eviction, edge by edge.

    Parameters
    ----------
    tree, capacity
        The prefix tree, and the units that the cache holds.
    choose
        Called with the number of candidates; returns the index of the one to take.
    stem
        Whether an evicted unit's parent goes next where it may.

    Notes
    -----
    The cached edges and those with dividers, in order of last use, are a dictionary: an edge that
    is used goes to its end. A query that evicts walks it from the start, up to the end of the last
    over-full prefix; which edges those are is told by the clock of their last use. Seconds for
    12,000 queries and a cache of 10,000 units, where the literal twin would take hours.

    Examples
    --------
    >>> lrlt = EdgeLRLT(PrefixTree([-1, -1, -1], [2, 1, 1]), 3, choose=lambda n: 0)
    >>> [lrlt.serve(edge) for edge in [0, 1, 2, 0]]
    [0, 0, 0, 1]
    """

    def __init__(
        self, tree: PrefixTree, capacity: int, *, choose: Callable[[int], int], stem: bool = False
    ) -> None:
        self.layers = EdgeLayers(tree, capacity)
        self.parent = tree.parent.tolist()
        self.length = tree.length.tolist()
        self.choose = choose
        self.stem = stem
        self.cached = [0] * tree.edges
        self.kids = [0] * (tree.edges + 1)  # the last one counts the edges at the root
        self.room = capacity
        self.by_use: dict[int, None] = {}
        self.clock = 0
        self.used = [0] * (tree.edges + 1)  # the last one, the root's, is never reached
        self.used[-1] = sys.maxsize

    def serve(self, edge: int) -> int:
        """Serve the query that ends at this edge (−1: an empty one); its hits in units."""
        self.layers.serve(edge)
        path = []
        while edge >= 0:
            path.append(edge)
            edge = self.parent[edge]
        hits = sum(self.cached[e] for e in path)
        missing = sum(self.length[e] for e in path) - hits
        for e in path:
            self.clock += 1
            self.used[e] = self.clock
            self.by_use.pop(e, None)
        if missing > self.room:
            self.evict(missing - self.room)
        for e in path:
            self.by_use[e] = None
            self.kids[self.parent[e]] += self.cached[e] == 0
            self.cached[e] = self.length[e]
        self.room -= missing
        return hits

    def evict(self, need: int) -> None:
        """Free ``need`` units; the path is not in ``by_use``."""
        cached, kids, dividers = self.cached, self.kids, self.layers.dividers_of
        self.room += need
        leaves: list[int] = []
        empty: list[int] = []
        excess, last = 0, -1
        for e in self.by_use:
            own = dividers(e)
            units = cached[e]
            if own:
                if excess > 0:
                    need -= excess
                    self.take(excess, leaves, last)
                    excess = 0
                    if not need:
                        break
                excess -= own
            elif not units:
                empty.append(e)
            if units:
                excess += units
                if not kids[e]:
                    leaves.append(e)
            last = e
        if need:
            self.take(need, leaves, last)
        for e in empty:
            del self.by_use[e]

    def take(self, units: int, leaves: list[int], last: int) -> None:
        """Evict units from the leaves of a prefix, which ends with the edge ``last``."""
        end = self.used[last]
        index = None
        while units:
            if index is None:
                index = self.choose(len(leaves))
            e = leaves[index]
            gone = min(units, self.cached[e]) if self.stem else 1
            self.cached[e] -= gone
            units -= gone
            grown = False
            if not self.cached[e]:
                above = self.parent[e]
                self.kids[above] -= 1
                grown = not self.kids[above] and self.used[above] <= end
                if grown:
                    leaves[index] = above
                else:
                    leaves[index] = leaves[-1]
                    leaves.pop()
            if not (self.stem and grown):
                index = None
