"""LRLT on the edges of a compressed tree, in plain Python: a twin for whole traces."""

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
    is used goes to its end. A query that evicts walks it from the start. Seconds for 12,000 queries
    and a cache of 10,000 units, where the literal twin would take hours.

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
        walked: set[int] = set()
        empty: list[int] = []
        excess = 0
        for e in self.by_use:
            own = dividers(e)
            if own and excess > 0:
                need -= excess
                self.take(excess, leaves, walked)
                excess = 0
                if not need:
                    break
            if cached[e]:
                excess += cached[e]
                if not kids[e]:
                    leaves.append(e)
            elif not own:
                empty.append(e)
            excess -= own
            walked.add(e)
        if need:
            self.take(need, leaves, walked)
        for e in empty:
            del self.by_use[e]

    def take(self, units: int, leaves: list[int], walked: set[int]) -> None:
        """Evict units from the leaves of a prefix, the edges ``walked``."""
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
                grown = above in walked and not self.kids[above]
                if grown:
                    leaves[index] = above
                else:
                    leaves[index] = leaves[-1]
                    leaves.pop()
            if not (self.stem and grown):
                index = None
