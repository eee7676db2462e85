"""The work function as a chain of vectors: the optimum of every request sequence at once.

w_t(S) is the least cost of serving t queries and ending in the cache S, an ancestor-closed set of
at most B units. Loading a unit costs 1 and dropping one costs nothing, so w(S) <= w(P) + |S \\ P|
for any two caches. To serve q the cache must hold path(q) at one moment:

    w'(S) = min over P ⊇ path(q) of w(P) + |S \\ P|,

and OPT grows by min over P ⊇ path(q) of w(P) − min w. Units loaded before they are asked for cost
the same then as later, so prefetching does not change OPT. States are w − min w, at most B.

References
----------
Koutsoupias and Papadimitriou, "Beyond competitive analysis", SIAM J. Comput. 30, 2000.
"""

from collections.abc import Sequence

import numpy as np

from kvtheory.ratio.exact_engine.forest import Forest
from kvtheory.ratio.exact_engine.growing import Numbering, Rows


class WorkFunctions:
    """The work functions met so far, by number, and what each query makes of them.

    Parameters
    ----------
    forest, capacity
        The units and B.
    queries
        The units that may be asked for.

    Attributes
    ----------
    sets
        The ancestor-closed sets of at most B units: w is a vector over them.
    """

    def __init__(self, forest: Forest, capacity: int, queries: Sequence[int]) -> None:
        self.sets = forest.closed_sets(capacity)
        sets = np.array(self.sets, np.int64)
        # units that lead from cache P (row) to cache S (column)
        self._distance = np.bitwise_count(sets[None, :] & ~sets[:, None]).astype(np.uint8)
        paths = [forest.path_mask(q) for q in queries]
        self._serving = [np.flatnonzero(sets & path == path) for path in paths]
        self._known = Numbering(len(sets))
        self._next = Rows((len(queries),), np.int64)
        self._increase = Rows((len(queries),), np.int8)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def values(self) -> np.ndarray:
        """uint8[len, sets]; w − min w of each work function."""
        return self._known.rows

    def start(self) -> int:
        """Number of the work function of an empty cache that has served nothing: w(S) = |S|."""
        return int(self.number(np.bitwise_count(np.array([self.sets], np.int64)))[0])

    def number(self, values: np.ndarray) -> np.ndarray:
        """The numbers of work functions given by their values."""
        out = self._known.of(values.astype(np.uint8, copy=False))
        missing = len(self._known) - len(self._next)
        if missing:
            width = len(self._serving)
            self._next.append(np.full((missing, width), -1))
            self._increase.append(np.zeros((missing, width), np.int8))
        return out

    def after(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each query makes of some work functions.

        Returns
        -------
        tuple
            int64[numbers, queries], the work function after the query, and int8 of the same
            shape, the increase of OPT.
        """
        todo = np.unique(numbers)
        todo = todo[self._next.rows[todo, 0] < 0]
        if len(todo):
            w = self.values[todo]
            nexts, increases = [], []
            for serving in self._serving:
                after = np.full(w.shape, 255, np.uint8)
                for p in serving:
                    np.minimum(after, w[:, p, None] + self._distance[p], out=after)
                increase = after.min(axis=1)
                nexts.append(self.number(after - increase[:, None]))
                increases.append(increase)
            self._next.rows[todo] = np.stack(nexts, axis=1)
            self._increase.rows[todo] = np.stack(increases, axis=1)
        return self._next.rows[numbers], self._increase.rows[numbers]
