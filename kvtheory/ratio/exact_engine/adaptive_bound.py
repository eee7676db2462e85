"""Upper bounds for policies without a finite belief: against an adversary who sees the coins.

The state of the policy itself is finite even where its law is not. An adversary who sees it can do
whatever one who does not see it can, so the ratio against the first is a bound on that against the
second. It is a Markov decision process on pairs of a state and a work function, and a potential
proves it: for every pair and every query

    misses + E[Φ(next)] − Φ <= ratio · ΔOPT.

The potential comes from a linear program in floating point. It is rounded to fractions, and the
inequality is then worked out without rounding, so a bound never rests on the solver.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from kvtheory.ratio.exact_engine.no_finite_belief import State, UniformUnmarked
from kvtheory.ratio.exact_engine.work_function import WorkFunctions

SLACK = 1e-5  # by which moves cost more in the program, so that rounding breaks no inequality
GRAIN = 10**9  # potentials are multiples of one over this

Pair = tuple[State, int]


@dataclass(frozen=True, eq=False, repr=False)
class AdaptiveBound:
    """E[ALG] <= ratio·E[OPT] + Φ(start), against every adversary, with the proof.

    Attributes
    ----------
    ratio
        What is proved; above the least such ratio by some hundred-thousandths.
    sets
        The caches as bit masks.
    cached, marked
        Of the policy, by pair, as bit masks.
    work
        uint8[pairs, sets]; w − min w. Pair 0 is the start.
    potential
        Φ by pair.
    """

    ratio: Fraction
    sets: tuple[int, ...]
    cached: tuple[int, ...]
    marked: tuple[int, ...]
    work: np.ndarray
    potential: tuple[Fraction, ...]


@dataclass(frozen=True)
class Edge:
    """One query at one pair: what it costs, and where it leads to with which probability."""

    pair: int
    misses: Fraction
    increase: int
    chances: tuple[tuple[int, Fraction], ...]


def adaptive_bound(
    policy: UniformUnmarked,
    work: WorkFunctions,
    queries: tuple[int, ...],
    stop: Callable[[int], object] = lambda pairs: False,
) -> AdaptiveBound | None:
    """The least ratio against an adversary who sees the cache and the marks, from above.

    Parameters
    ----------
    policy
        What is bounded.
    work
        The work functions of the same forest, capacity and queries.
    queries
        The units that may be asked for.
    stop
        Called with the number of pairs now and then; something true ends the search.

    Returns
    -------
    AdaptiveBound or None
        None if the search was stopped, or there is no bound.

    Notes
    -----
    Cost: pairs × queries rows of a linear program; the pairs are up to states × work functions.
    """
    found = _explore(policy, work, queries, stop)
    if found is None:
        return None
    pairs, edges = found
    rough = _potential(len(pairs), edges)
    if rough is None:
        return None
    phi = [Fraction(round(value * GRAIN), GRAIN) for value in rough.tolist()]
    ratio = Fraction(0)
    for edge in edges:
        left = edge.misses - phi[edge.pair] + sum(p * phi[j] for j, p in edge.chances)
        if edge.increase:
            ratio = max(ratio, left / edge.increase)
        elif left > 0:
            return None  # the slack was too small: no proof is better than a wrong one
    return AdaptiveBound(
        ratio=ratio,
        sets=tuple(work.sets),
        cached=tuple(cached for (cached, _), _ in pairs),
        marked=tuple(marked for (_, marked), _ in pairs),
        work=work.values[[w for _, w in pairs]],
        potential=tuple(phi),
    )


def _explore(
    policy: UniformUnmarked,
    work: WorkFunctions,
    queries: tuple[int, ...],
    stop: Callable[[int], object],
) -> tuple[list[Pair], list[Edge]] | None:
    start = (policy.start, work.start())
    number = {start: 0}
    pairs, edges = [start], []
    for i, (state, w) in enumerate(pairs):  # grows while it is walked
        if i % 256 == 0 and stop(len(pairs)):
            return None
        after, increases = work.after(np.array([w]))
        for k, query in enumerate(queries):
            misses, chances = Fraction(0), dict[int, Fraction]()
            for probability, missed, then in policy.outcomes(state, query):
                pair = (then, int(after[0, k]))
                if pair not in number:
                    number[pair] = len(pairs)
                    pairs.append(pair)
                j = number[pair]
                chances[j] = chances.get(j, Fraction(0)) + probability
                misses += probability * missed
            if chances != {i: Fraction(1)}:  # a query that changes nothing costs nothing
                edges.append(Edge(i, misses, int(increases[0, k]), tuple(chances.items())))
    return pairs, edges


def _potential(pairs: int, edges: list[Edge]) -> np.ndarray | None:
    """Φ by the program min r: misses + slack + E[Φ(next)] − Φ − r·increase <= 0."""
    row, column, value = [], [], []
    for e, edge in enumerate(edges):
        entries = {edge.pair: -1.0, pairs: -float(edge.increase)}
        for j, p in edge.chances:
            entries[j] = entries.get(j, 0.0) + float(p)
        row += [e] * len(entries)
        column += entries
        value += entries.values()
    matrix = csr_array((value, (row, column)), shape=(len(edges), pairs + 1))
    bounds = [(0, 0), *[(None, None)] * (pairs - 1), (0, None)]
    solved = linprog(
        c=np.eye(1, pairs + 1, pairs)[0],
        A_ub=matrix,
        b_ub=[-float(edge.misses) - SLACK for edge in edges],
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    return solved.x[:pairs] if solved.status == 0 else None
