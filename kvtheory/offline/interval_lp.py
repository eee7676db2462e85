"""The optimum of one cache as a linear program over the pairs of consecutive uses."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kvtheory.instance import Instance
from kvtheory.offline import solver as solvers
from kvtheory.offline.certificate import (
    TOLERANCE,
    Certificate,
    Uses,
    consecutive_uses,
    hits_bound,
    room,
)
from kvtheory.offline.schedule import Admission, check_admission

# Up to some ten thousand rows simplex is several times faster; beyond, interior points lose at
# most a factor of 3 and save minutes on some sequences.
_MANY = 30_000


class Program(NamedTuple):
    """The linear program: maximise Σ z subject to ``balance @ (z, occupancy) = 0`` and bounds.

    Column j < m is z_j, the units kept over one group of intervals; column m + k is the
    occupancy of segment k, a run of queries over which no interval begins or ends.
    """

    group: np.ndarray  # int64[uses]; the column of each pair of uses, −1 if it takes no space
    upper: np.ndarray  # float64[m + K]
    balance: Any  # scipy.sparse.csr_array[K, m + K]
    tightest: np.ndarray  # int64[K]; the query with the least room in each segment

    @property
    def columns(self) -> int:
        """Number of groups, m."""
        return len(self.upper) - len(self.tightest)


class Solution(NamedTuple):
    """What the solver found: any part may be missing, but the certificate is always valid."""

    ending: solvers.Ending
    certificate: Certificate
    whole: bool  # whether ``certificate.kept`` is a whole-numbered optimum
    nonzeros: int


def interval_program(uses: Uses, space: np.ndarray) -> Program:
    """The interval LP with an occupancy recursion, in sparse form.

    Parameters
    ----------
    uses
        Pairs of consecutive uses (`consecutive_uses`).
    space
        int64[n]; units that may be kept across each query (`room`).

    Notes
    -----
    Written with one sum per query, the program is dense: an interval occurs at every query that
    it spans. With occ_k = occ_{k−1} + starts − ends it occurs twice. Edges of one path with the
    same next use have equal columns and are one variable; the queries of a segment have one
    occupancy, so only the one with the least room matters; intervals that span no query are
    left out: all their units are kept.
    """
    from scipy import sparse

    n = len(space)
    spans = uses.enter < uses.leave
    pair, column = np.unique(uses.enter[spans] * (n + 1) + uses.leave[spans], return_inverse=True)
    group = np.full(len(spans), -1, np.int64)
    group[spans] = column
    enter, leave = pair // (n + 1), pair % (n + 1)
    units = np.bincount(column, weights=uses.length[spans], minlength=len(pair))
    first = np.unique(np.concatenate([enter, leave]))
    m, k = len(pair), len(first)
    segment = np.searchsorted(first, np.arange(n), side="right") - 1
    order = np.lexsort((space, segment))
    tightest = order[np.searchsorted(segment[order], np.arange(k))]
    here, z = np.arange(k), np.arange(m)
    rows = np.concatenate(
        [here, here[1:], np.searchsorted(first, enter), np.searchsorted(first, leave)]
    )
    columns = np.concatenate([m + here, m + here[:-1], z, z])
    values = np.repeat([1.0, -1.0, -1.0, 1.0], [k, max(k - 1, 0), m, m])
    balance = sparse.csr_array((values, (rows, columns)), shape=(k, m + k))
    return Program(group, np.concatenate([units, space[tightest]]), balance, tightest)


def solve_interval_lp(
    instance: Instance,
    capacity: int,
    admission: Admission = "forced",
    *,
    solver: str | None = None,
    time_limit: float | None = None,
    solver_options: Mapping[str, Any] | None = None,
) -> Solution:
    """Solve the interval LP of one cache and turn its duals into prices of cache space.

    Parameters
    ----------
    instance
        The request sequence, without queries longer than the cache.
    capacity
        Units of the cache.
    admission
        ``"forced"`` or ``"bypass"``.
    solver
        A cvxpy solver; HiGHS if None.
    time_limit
        Seconds for the solver, or None.
    solver_options
        Options of the solver under its own names, for example ``{"solver": "ipm"}``. HiGHS runs
        its dual simplex method, or interior points and a crossover on long sequences, unless one
        is chosen; both end at a vertex, which is whole.

    Returns
    -------
    Solution
        With a certificate even if the solver failed: zero prices prove that no schedule hits
        more than all units that are not new.

    Raises
    ------
    InputError
        For a solver that is not installed or refuses an option.

    Notes
    -----
    Guarantee: the matrix has consecutive ones, so vertices are whole and the program is exact
    (equal miss costs). The bound of the certificate does not rest on the solver: weak duality
    holds for any prices, and where rounding them makes the bound no worse they are whole and the
    bound is exact.

    Cost: 24 thousand nonzeros and a quarter of a second for a conversation trace of 12 thousand
    requests (forced); half a minute for flat sequences of 100 thousand. Belady's rule is faster.
    """
    check_admission(admission)
    name = solvers.choose(solver)
    uses = consecutive_uses(instance, admission)
    space = room(instance, capacity, admission)
    program = interval_program(uses, space)
    values, dual, ending = _run(program, name, time_limit, solver_options)

    candidates = [np.zeros(instance.requests)]
    if dual is not None and np.isfinite(dual).all():
        step = np.append(dual[1:], 0) - dual
        for along in (step, -step):  # solvers differ in the sign of an equality's dual
            price = np.zeros(instance.requests)
            price[program.tightest] = np.maximum(along, 0)
            candidates += [np.rint(price), price]
    bounds = [hits_bound(price, uses, space) for price in candidates]
    # the first of the best: whole prices where they are as good
    best = next(i for i, b in enumerate(bounds) if b <= min(bounds) + TOLERANCE / 2)

    kept, whole = None, False
    if ending.status == "optimal" and values is not None:
        z = values[: program.columns]
        whole = bool(np.abs(z - np.rint(z)).max(initial=0) <= TOLERANCE)
        kept = _by_edge(instance, uses, program, np.rint(z) if whole else z)
    certificate = Certificate(candidates[best], kept)
    return Solution(ending, certificate, whole, program.balance.nnz)


def _run(
    program: Program, name: str, time_limit: float | None, options: Mapping[str, Any] | None
) -> tuple[np.ndarray | None, np.ndarray | None, solvers.Ending]:
    if program.columns == 0:
        return np.zeros(0), None, solvers.Ending("optimal", True)
    import cvxpy as cp

    x = cp.Variable(len(program.upper), bounds=[np.zeros(len(program.upper)), program.upper])
    balance = program.balance @ x == 0
    problem = cp.Problem(cp.Maximize(cp.sum(x[: program.columns])), [balance])
    defaults = None
    if name == solvers.DEFAULT:
        many = len(program.tightest) > _MANY
        defaults = {"solver": "ipm" if many else "simplex"}
    ending = solvers.solve(problem, name, time_limit=time_limit, options=options, defaults=defaults)
    return x.value, balance.dual_value, ending


def _by_edge(instance: Instance, uses: Uses, program: Program, z: np.ndarray) -> np.ndarray:
    """float64[P]; the units kept of each edge: a group keeps its upper units."""
    tree, edge = instance.tree, instance.log.edge[uses.position]
    top = (tree.depth - tree.length)[edge]
    group = program.group
    kept = uses.length.astype(np.float64)
    spans = group >= 0
    highest = np.full(len(z), np.iinfo(np.int32).max)
    np.minimum.at(highest, group[spans], top[spans])
    above = top[spans] - highest[group[spans]]
    kept[spans] = np.clip(z[group[spans]] - above, 0, kept[spans])
    everywhere = np.zeros(len(instance.log.edge))
    everywhere[uses.position] = kept
    return everywhere
