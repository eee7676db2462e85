"""The linear program over behaviour strategies, and what its duals prove."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtheory.ratio.histories import Kinds, Level

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class _Entries:
    """Rows of a sparse matrix, collected."""

    def __init__(self) -> None:
        self.rows = 0
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def new(self, many: int, each: int) -> np.ndarray:
        """Numbers of the first of ``each`` new rows for ``many`` histories."""
        first = self.rows + each * np.arange(many)
        self.rows += many * each
        return first

    def add(self, row: Any, column: Any, value: Any) -> None:
        """Entries, broadcast together."""
        r, c, v = np.broadcast_arrays(row, column, value)
        self._parts.append((r.ravel(), c.ravel(), v.ravel()))

    def matrix(self, columns: int) -> "csr_array":
        """The matrix."""
        from scipy.sparse import csr_array

        row, column, value = map(np.concatenate, zip(*self._parts, strict=True))
        return csr_array((value.astype(float), (row, column)), shape=(self.rows, columns))


class Program:
    """The linear program over laws, flows and costs.

    Parameters
    ----------
    kinds, levels
        The histories.
    """

    def __init__(self, kinds: Kinds, levels: list[Level]) -> None:
        self.variables = 0
        self.equal, self.leaf = _Entries(), _Entries()
        orbits = np.array([kind.orbits for kind in kinds.kinds])
        law = self._new(orbits[levels[0].kind])
        self.equal.add(self.equal.new(1, 1), law, 1.0)
        cost: np.ndarray | None = None
        for above, level in itertools.pairwise(levels):
            last = level is levels[-1]
            rows = self.leaf.new(len(level.kind), 1) if last else self.equal.new(len(level.kind), 1)
            entries = self.leaf if last else self.equal
            if cost is not None:
                entries.add(rows, cost[level.before], 1.0)
            for k, i, some in level.groups(above):
                step = kinds.steps(k)[i]
                here = law[level.before[some], None]
                o = np.arange(len(step.miss))
                entries.add(rows[some, None], here + o, step.miss)
            if last:
                break
            then = self._new(orbits[level.kind])
            for k, i, some in level.groups(above):
                step = kinds.steps(k)[i]
                here = law[level.before[some], None]
                (row, orbit, share), (leaving, entering) = step.source, step.flow
                flow = self._new(np.full(len(some), len(leaving)))[:, None]
                flow = flow + np.arange(len(leaving))
                out = self.equal.new(len(some), int(row.max()) + 1)[:, None]
                self.equal.add(out + row, here + orbit, share)
                self.equal.add(out + leaving, flow, -1.0)
                into = self.equal.new(len(some), int(orbits[step.child]))[:, None]
                self.equal.add(into + entering, flow, 1.0)
                each = np.arange(orbits[step.child])
                self.equal.add(into + each, then[some, None] + each, -1.0)
            cost = self._new(np.ones(len(level.kind), np.int64))
            self.equal.add(rows, cost, -1.0)
            law = then
        self.optimum = levels[-1].optimum

    def _new(self, sizes: np.ndarray) -> np.ndarray:
        """Numbers of the first variable of each block."""
        first = self.variables + np.cumsum(sizes) - sizes
        self.variables += int(sizes.sum())
        return first

    def solve(
        self, solver: str | None, time_limit: float | None
    ) -> tuple[float, np.ndarray | None, str]:
        """The least ratio, the weight of each sequence of full length, and how it ended."""
        import cvxpy as cp

        from kvtheory.offline.solver import choose, solve

        x = cp.Variable(self.variables, nonneg=True)
        r = cp.Variable()
        start = np.zeros(self.equal.rows)
        start[0] = 1.0
        covered = self.leaf.matrix(self.variables) @ x <= r * self.optimum
        flows = self.equal.matrix(self.variables) @ x == start
        ending = solve(
            cp.Problem(cp.Minimize(r), [flows, covered]), choose(solver), time_limit=time_limit
        )
        if ending.status != "optimal" or r.value is None or covered.dual_value is None:
            return float("nan"), None, ending.status
        weight = np.maximum(np.asarray(covered.dual_value, float), 0.0)
        return float(r.value), weight, ending.status


def proved(kinds: Kinds, levels: list[Level], weight: np.ndarray) -> float:
    """The least expected cost of an online algorithm against a mix of sequences, over OPT's.

    Backwards from the leaves, without the program: the best algorithm knows the mix and the
    history.

    Parameters
    ----------
    kinds, levels
        The histories.
    weight
        float64[sequences]; of each sequence of full length, spread over its images.
    """
    mass = weight
    most = max(kind.orbits for kind in kinds.kinds)
    value = np.zeros((len(mass), most))  # by history and orbit of caches, times the mass
    for above, level in reversed(list(itertools.pairwise(levels))):
        before = np.zeros((len(above.kind), most))
        for k, i, some in level.groups(above):
            step = kinds.steps(k)[i]
            (row, orbit, share), (leaving, entering) = step.source, step.flow
            gain = np.zeros((len(some), most))
            gain[:, : len(step.miss)] = mass[some, None] * step.miss
            for r in range(int(row.max()) + 1):
                best = value[some][:, entering[leaving == r]].min(axis=1)
                gain[:, orbit[row == r]] += best[:, None] * share[row == r]
            np.add.at(before, level.before[some], gain)
        mass = np.bincount(level.before, mass, len(above.kind))
        value = before
    expected = float(weight @ levels[-1].optimum)
    return float(value[0, 0]) / expected if expected > 0 else 1.0
