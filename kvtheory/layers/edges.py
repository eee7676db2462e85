"""The layers of one cache on the edges of a compressed tree, in plain Python."""

from collections.abc import Sequence

from kvtheory.errors import bad
from kvtheory.tree import PrefixTree


class EdgeLayers:
    """The layers as dividers in the list of edges by last use, the oldest first.

    A divider stands just before a unit and opens a layer; the units before the first divider are
    outside the support. Inside a query the deeper edge is the older one, and an edge that keeps m
    dividers has them on its m deepest units, so counts are enough. See `kvtheory.layers.Layers`
    for what the layers say.

    Parameters
    ----------
    tree
        The prefix tree.
    capacity
        B, in units.

    Attributes
    ----------
    optimum
        OPT_t: the fewest misses with which one cache serves the queries so far.

    Notes
    -----
    To serve a query with d units:

    1. new = units of the path never used or outside the support; pending = new less the
       dividers that are not in use, at least 0.
    2. Walk the list from the newest edge to the oldest: an edge of the path adds its length to
       pending, and any edge gives up dividers, the shallowest first, as long as some are pending.
    3. wrapped = pending; that many of the newest dividers that are left go.
    4. The path moves to the newest end, deeper edges first, with a divider on every unit.

    OPT rises by new + wrapped. A union-find over the places of the list finds the next older
    divider, so a query costs amortised O(path · α) steps.

    Examples
    --------
    >>> layers = EdgeLayers(PrefixTree([-1, -1], [2, 1]), 2)
    >>> [layers.serve(edge) for edge in [0, 1, 0, -1]], layers.optimum
    ([2, 1, 1, 0], 4)
    """

    def __init__(self, tree: PrefixTree, capacity: int) -> None:
        if capacity < 1:
            raise bad("capacity", capacity, "must be at least 1 unit")
        self.capacity = capacity
        self.optimum = 0
        self._parent: Sequence[int] = tree.parent.tolist()
        self._length: Sequence[int] = tree.length.tolist()
        # place 0 is the old end of the list, before all edges
        self._place = [0] * tree.edges
        self._edge = [-1]
        self._dividers = [0]
        self._older = [0]
        self._in_use = 0

    def serve(self, edge: int) -> int:
        """The increase of OPT by the query that ends at this edge (−1: an empty one).

        Raises
        ------
        InputError
            If the query has more units than the cache.
        """
        path, length = [], 0
        while edge >= 0:
            path.append(edge)
            length += self._length[edge]
            edge = self._parent[edge]
        if length > self.capacity:
            raise bad("edge", path[0], f"has {length} units on its path, B = {self.capacity}")
        # ancestors are newer, so the edges outside the support are the deepest ones
        inside = 0
        while inside < len(path) and self._next(self._place[path[inside]]) == 0:
            inside += 1
        new = sum(self._length[e] for e in path[:inside])
        pending = max(0, new - (self.capacity - self._in_use))
        newest = len(self._dividers) - 1
        at = newest
        for e in reversed(path[inside:]):
            at, pending = self._remove(at, pending, self._place[e])
            at = self._place[e]
            pending += self._length[e] - self._dividers[at]
            self._dividers[at] = 0
        _, wrapped = self._remove(at, pending, 0)
        self._remove(newest, wrapped, 0)
        self._in_use = min(self.capacity, self._in_use + new)
        for e in path:
            self._place[e] = len(self._dividers)
            self._older.append(len(self._dividers) - 1)
            self._dividers.append(self._length[e])
            self._edge.append(e)
        self.optimum += new + wrapped
        return new + wrapped

    def dividers(self) -> list[tuple[int, int]]:
        """The used edges, the oldest first, each with the number of its dividers."""
        return [
            (e, self._dividers[place])
            for place, e in enumerate(self._edge)
            if e >= 0 and self._place[e] == place
        ]

    def dividers_of(self, edge: int) -> int:
        """The dividers of one edge, on its deepest units."""
        return self._dividers[self._place[edge]]

    def _next(self, place: int) -> int:
        """The newest place from here to the older end that has a divider; 0 if there is none."""
        older, dividers = self._older, self._dividers
        while place and not dividers[place]:
            up = older[place]
            if up and not dividers[up]:
                older[place] = up = older[up]
            place = up
        return place

    def _remove(self, place: int, pending: int, stop: int) -> tuple[int, int]:
        """Remove dividers from a place on towards older ones, down to and without ``stop``.

        Returns the place reached and how many are still pending.
        """
        while pending:
            place = self._next(place)
            if place <= stop:
                break
            gone = min(pending, self._dividers[place])
            self._dividers[place] -= gone
            pending -= gone
        return place, pending
