"""The least average cost of a Markov decision process, between two fractions that are proved."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

SWEEPS = 200_000
AT_REST = 1e-14
# Values are rounded to fractions with these denominators until the two bounds meet.
DENOMINATORS = (10**3, 10**6, 10**9)

type Move[S] = tuple[Fraction, int, Sequence[S]]
"""Probability and cost of what may happen, and the states to choose from then."""


@dataclass(frozen=True)
class Problem:
    """A decision process whose choices come after chance.

    Attributes
    ----------
    probability, cost
        Of each move from each state.
    options
        The states to choose from after each move.
    """

    probability: list[list[Fraction]]
    cost: list[list[int]]
    options: list[list[list[int]]]


@dataclass(frozen=True)
class Average:
    """Proved bounds on the least average cost per step; from some state on at worst and at best."""

    low: Fraction
    high: Fraction
    states: int


def explored[S: Hashable](start: S, moves: Callable[[S], Sequence[Move[S]]]) -> Problem:
    """The process on the states that ``moves`` leads to from ``start``."""
    number = {start: 0}
    states = [start]
    problem = Problem([], [], [])
    for state in states:  # grows while it is walked
        found = moves(state)
        for _, _, nexts in found:
            for then in nexts:
                if then not in number:
                    number[then] = len(states)
                    states.append(then)
        problem.probability.append([p for p, _, _ in found])
        problem.cost.append([cost for _, cost, _ in found])
        problem.options.append([[number[then] for then in nexts] for _, _, nexts in found])
    return problem


def least_average(problem: Problem) -> Average:
    """The least average cost per step.

    Notes
    -----
    For any values h of the states, with (Th)(s) = E[cost + min h(next)], no policy has an average
    cost below min (Th − h), and the one that is greedy for h none above max (Th − h), from any
    state. Values are iterated in floating point and rounded to fractions; the two bounds are then
    worked out exactly. They meet if every state has the same least average cost and the fractions
    are the true ones.

    References
    ----------
    Puterman, Markov Decision Processes, 1994, theorem 8.5.5.

    Examples
    --------
    Heads costs 1 and tails nothing, one coin a step.

    >>> half = Fraction(1, 2)
    >>> least_average(explored(0, lambda s: [(half, 1, [0]), (half, 0, [0])])).low
    Fraction(1, 2)
    """
    values = _values(problem).tolist()
    best = None
    for most in DENOMINATORS:
        h = [Fraction(v).limit_denominator(most) for v in values]
        gains = []
        rows = zip(problem.probability, problem.cost, problem.options, strict=True)
        for here, row in zip(h, rows, strict=True):
            then = (p * (c + min(h[s] for s in nexts)) for p, c, nexts in zip(*row, strict=True))
            gains.append(sum(then, -here))
        bounds = Average(min(gains), max(gains), len(h))
        if best is None or bounds.high - bounds.low < best.high - best.low:
            best = bounds
        if best.low == best.high:
            break
    assert best is not None
    return best


def _values(problem: Problem) -> np.ndarray:
    """Relative values by iteration, every step taken with probability one half."""
    n = len(problem.cost)
    moves = max(map(len, problem.cost))
    width = max(len(nexts) for row in problem.options for nexts in row)
    p, c = np.zeros((n, moves)), np.zeros((n, moves))
    at = np.zeros((n, moves, width), np.int64)
    for i in range(n):
        p[i, : len(problem.cost[i])] = [float(x) for x in problem.probability[i]]
        c[i, : len(problem.cost[i])] = problem.cost[i]
        for j, nexts in enumerate(problem.options[i]):
            at[i, j] = [*nexts, *[nexts[0]] * (width - len(nexts))]
    fixed = (p * c).sum(axis=1)
    h = np.zeros(n)
    for _ in range(SWEEPS):
        gain = fixed + (p * h[at].min(axis=2)).sum(axis=1) - h
        h = h + gain / 2
        h -= h[0]
        if np.ptp(gain) < AT_REST:
            break
    return h
