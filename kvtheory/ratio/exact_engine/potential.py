"""The potential that proves a ratio, in whole numbers: no rounding is left in the proof."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from kvtheory.ratio.exact_engine.ratio_cycle import Graph, cycles_of, relax

ROOM = 1 << 50  # a scale below this leaves 12 bits for walks of a few thousand misses
ROUNDED = 1 << 44
SLACK = 1e-10  # of the ratio, where costs had to be rounded up
SWEEPS = 20_000


@dataclass(frozen=True)
class Potential:
    """Φ with cost + Φ(next) − Φ(state) <= ratio·increase on every edge.

    Parameters
    ----------
    values
        int64[states]; Φ·scale, not negative.
    scale
        What Φ is multiplied by.
    ratio
        The ratio that it proves: the exact one, or one that is above it by at most ``slack``.
    slack
        0 if the proof is exact. Otherwise costs have denominators too large for 64 bits and were
        rounded up.
    """

    values: np.ndarray
    scale: int
    ratio: Fraction
    slack: Fraction


def prove(
    graph: Graph,
    belief: np.ndarray,
    costs: list[list[Fraction]],
    ratio: Fraction,
    stop: Callable[[], bool] = lambda: False,
) -> Potential | tuple[list[int], list[int]] | None:
    """A potential for a ratio, or the states and queries of a cycle above it.

    Parameters
    ----------
    graph
        Its edges.
    belief
        int64[states]; the row of ``costs`` that each state has.
    costs
        The exact costs of each belief and query.
    ratio
        What is to be proved.
    stop
        Asked before each sweep; if it is time, None is returned.

    Raises
    ------
    RuntimeError
        If the sweeps do not come to rest.
    """
    whole = lcm(ratio.denominator, *{c.denominator for row in costs for c in row})
    scale = whole if whole < ROOM else ROUNDED
    width = graph.next.shape[1]
    scaled = np.array([[-(-c * scale // 1) for c in row] or [0] * width for row in costs], np.int64)
    slack = 0 if scale == whole else max(1, int(SLACK * scale))
    while True:
        per_increase = -(-ratio * scale // 1) + slack
        potential = np.zeros(graph.states, np.int64)
        choice = np.full(graph.states, -1, np.int64)
        sweeps, look = 0, 64

        def cost(part: slice) -> np.ndarray:
            return scaled[belief[part]]

        while relax(graph, cost, per_increase, potential, choice, 0):
            sweeps += 1
            if stop():
                return None
            if sweeps == look:
                look *= 2
                cycles = cycles_of(graph, choice)
                if cycles and slack == 0:
                    return cycles[0], choice[cycles[0]].tolist()
                if cycles:
                    break
            if sweeps > SWEEPS:
                raise RuntimeError("the potential does not come to rest")
        else:
            above = Fraction(per_increase, scale)
            return Potential(potential, scale, above, above - ratio)
        slack *= 16
