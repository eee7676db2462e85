"""The joint problem of routing and eviction as one sparse program."""

import math
from typing import Any, NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline.equal_workers import classes, query_order
from kvtheory.offline.grain import grain_of, step_of
from kvtheory.offline.joint_gaps import Costs, Gaps, joint_costs, joint_gaps
from kvtheory.offline.objective import Objective, alpha_depth
from kvtheory.offline.schedule import Admission
from kvtheory.offline.sparse_rows import Rows
from kvtheory.oversize import path_units

# Beyond so many steps of the grain a bound is not worth rounding, nor safe to round.
_MOST_GRAINS = 1e6


class JointProgram(NamedTuple):
    """Minimise the last column subject to rows, bounds and whole numbers.

    Columns: x[M, n], who serves each query; a[M, G], units kept over each gap and hit at its end;
    b[M, G], units kept and carried on; occupancy[M, n]; the objective, divided by ``scale``. Units
    are counted in multiples of ``step``.
    """

    lower: np.ndarray  # float64[columns]
    upper: np.ndarray  # float64[columns]
    equal: Any  # csr[., columns]; assignment and occupancy
    equal_to: np.ndarray
    below: Any  # csr[., columns]; blocks as ``rows`` says
    at_most: np.ndarray
    rows: dict[str, slice]  # rows of ``below``: space, link, load, nested, …
    whole: np.ndarray  # int64[W]; columns that are whole
    scale: float  # seconds (or units) in one of the objective's column
    grain: float  # the objective is a multiple of this; 0 if no use can be made of it
    step: int
    gaps: Gaps
    costs: Costs

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.upper)

    @property
    def sizes(self) -> dict[str, int]:
        """Rows, columns, whole columns and nonzeros."""
        return {
            "rows": self.equal.shape[0] + self.below.shape[0],
            "columns": self.columns,
            "whole": len(self.whole),
            "nonzeros": self.equal.nnz + self.below.nnz,
        }


def joint_program(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission,
    *,
    integral: bool = True,
    least: float = 0.0,
) -> JointProgram:
    """The mixed-integer program, or its relaxation, as sparse matrices.

    Parameters
    ----------
    instance, cluster, objective, admission
        The problem. With costs that depend on depth the program is exact on the uncompressed tree;
        on longer edges a part of an edge saves the edge's mean, which only lowers the optimum.
    integral
        Whether x is whole. Then equal workers are told apart as well.
    least
        A lower bound known already, which spares the search some work; the relaxation goes without,
        lest its prices prove less.

    Notes
    -----
    For each gap g of ℓ units, entered at query s and left at query t, on each worker:

        a_g <= ℓ x_t,   b_g <= ℓ (1 − x_t),   a_g + b_g <= Σ b of the gaps before g + ℓ x_s.

    Space, forced admission, at each query r: the units kept over gaps with s < r < t, plus b_g of
    gaps with t = r, plus |path(r)| x_r, are at most B_i. Where x_r = 1 that is the capacity while r
    is served; where x_r = 0 it says what the last query served there said already. With bypass:
    the units kept over gaps with s <= r < t are at most B_i. An occupancy recursion makes it
    sparse.

    For a given x every worker has an interval program, whose vertices are whole: only x needs to
    be declared so. Nor does the ancestor rule need a row with equal costs: a unit can be exchanged
    for a missing ancestor without loss (`kvtheory.offline.exchange`). With costs that depend on
    depth both are needed. The queries are given to equal workers in the order of first use, longest
    first: of a class of equal workers the first serves the first of them.

    If all costs are multiples of a grain, so is the optimum, and the objective's column is whole:
    this lets a solver round its bounds, which shortens the search severalfold.
    """
    depth = objective != "misses" and bool(np.any(alpha_depth(cluster)))
    gaps = joint_gaps(instance, deep=depth)
    costs = joint_costs(instance, cluster, gaps, objective)
    workers, n, count = cluster.workers, instance.requests, len(gaps.enter)
    step = step_of(instance, cluster)
    grain = grain_of(instance, cluster, objective, 1 if depth else step)
    worst = float(np.where(costs.fits, costs.missed, 0).max(axis=0).sum())
    if not grain or worst / grain > _MOST_GRAINS:
        grain = 0.0
    scale = grain or float(costs.missed.max(initial=0.0)) / 1000 or 1.0

    x = np.arange(workers * n).reshape(workers, n)
    a = x.size + np.arange(workers * count).reshape(workers, count)
    b = a + workers * count
    occupancy = x.size + 2 * a.size + x
    goal = 2 * (x.size + a.size)
    units = gaps.units / step
    room = cluster.capacity / step
    upper = np.full(goal + 1, np.inf)
    upper[x] = costs.fits
    upper[a] = units
    upper[b] = np.where(gaps.carried, units, 0)
    lower = np.zeros(goal + 1)
    if integral:
        upper[occupancy] = room[:, None]
    else:
        # the rows imply the bounds of occupancy, which would only share in their prices
        lower[occupancy] = -np.inf

    equal = Rows(goal + 1)
    query = np.arange(n)
    equal.add("once", n, 1.0, (np.tile(query, workers), x.ravel(), 1.0))
    below = Rows(goal + 1)
    each, carried = np.arange(count), np.flatnonzero(gaps.carried)
    forced = admission == "forced"
    first = gaps.enter + forced
    spans = np.flatnonzero(first < gaps.leave)
    path = path_units(instance) / step
    for i in range(workers):
        over = [(a[i][spans], -1.0, first[spans]), (b[i][spans], -1.0, first[spans])]
        over += [(a[i][spans], 1.0, gaps.leave[spans]), (b[i][spans], 1.0, gaps.leave[spans])]
        equal.add(
            "occupancy",
            n,
            0.0,
            (query, occupancy[i], 1.0),
            (query[1:], occupancy[i][:-1], -1.0),
            *((row, column, sign) for column, sign, row in over),
        )
        held = [(query, occupancy[i], 1.0)]
        if forced:
            held += [(query, x[i], path), (gaps.leave[carried], b[i][carried], 1.0)]
        below.add("space", n, room[i], *held)
        below.add(
            "link",
            count,
            0.0,
            (each, a[i], 1.0),
            (each, b[i], 1.0),
            (gaps.following[carried], b[i][carried], -1.0),
            (each, x[i][gaps.enter], -units),
        )
        below.add("hit", count, 0.0, (each, a[i], 1.0), (each, x[i][gaps.leave], -units))
        inside = np.arange(len(carried))
        left = x[i][gaps.leave[carried]]
        size = units[carried]
        below.add("carry", len(carried), size, (inside, b[i][carried], 1.0), (inside, left, size))
        inside = np.arange(len(gaps.below))
        part, whole = 1 / units[gaps.below], -1 / units[gaps.above]
        below.add(
            "nested",
            len(inside),
            0.0,
            *((inside, kept[i][gaps.below], part) for kept in (a, b)),
            *((inside, kept[i][gaps.above], whole) for kept in (a, b)),
        )
    charged, saved = costs.missed / scale, -costs.saved * (step / scale)
    if objective == "makespan":
        for i in range(workers):
            below.add("load", 1, 0.0, (0, x[i], charged[i]), (0, a[i], saved[i]), (0, goal, -1.0))
    else:
        below.add("load", 1, 0.0, (0, x, charged), (0, a, saved), (0, goal, -1.0))
    whole = np.zeros(0, np.int64)
    if integral:
        bound = math.ceil(least / scale - 1e-6) if grain else least / scale * (1 - 1e-9)
        below.add("least", 1, -max(0.0, float(bound)), (0, goal, -1.0))
        parts = [x.ravel(), *([np.array([goal])] if grain else [])]
        if depth and (gaps.units == 1).all():
            parts += [a.ravel(), b.ravel()]
        whole = np.concatenate(parts)
        _tell_apart(below, upper, x, classes(cluster, objective), query_order(instance))
    matrix, at_most = below.matrix()
    equations, equal_to = equal.matrix()
    return JointProgram(
        lower,
        upper,
        equations,
        equal_to,
        matrix,
        at_most,
        below.blocks,
        whole,
        scale,
        grain,
        step,
        gaps,
        costs,
    )


# Rows for a few queries tell equal workers apart; for all of them they would be dense.
_TOLD_APART = 4


def _tell_apart(
    below: Rows, upper: np.ndarray, x: np.ndarray, groups: list[np.ndarray], order: np.ndarray
) -> None:
    for members in groups:
        for rank, (worker, before) in enumerate(zip(members[1:], members[:-1], strict=True)):
            upper[x[worker, order[: rank + 1]]] = 0
            for k in range(rank + 1, min(len(order), _TOLD_APART * len(members))):
                mine, theirs = x[worker, order[k : k + 1]], x[before, order[:k]]
                below.add("symmetry", 1, 0.0, (0, mine, 1.0), (0, theirs, -1.0))
