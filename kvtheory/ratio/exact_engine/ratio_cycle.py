"""The cycle of largest Σ cost / Σ increase in a graph with one edge per state and query.

With weights cost − λ·increase a cycle of ratio above λ is one of positive weight. Longest walks are
relaxed in sweeps over all edges; as long as there is a positive cycle they go on, and the edges
that were relaxed last close one, of which the ratio is the next λ. Sweeps that come to rest prove
that no ratio is above λ, and leave the potential that shows it.

References
----------
Dasdan, "Experimental analysis of the fastest optimum cycle ratio and mean algorithms", ACM Trans.
Design Automation 9, 2004. Howard, Dynamic Programming and Markov Processes, 1960.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CHUNK = 1 << 16
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Graph:
    """Edges s → next[s, q], for the states that have any: the first ``len(next)`` of ``states``."""

    states: int
    next: np.ndarray
    increase: np.ndarray


Cost = Callable[[slice], np.ndarray]  # the costs of the edges of a range of states


def relax(
    graph: Graph,
    cost: Cost,
    per_increase: float | int,
    potential: np.ndarray,
    choice: np.ndarray,
    tolerance: float | int,
) -> bool:
    """One sweep: Φ(s) ← max(Φ(s), max over q of cost − λ·increase + Φ(next)).

    ``choice`` gets the query of the last edge that raised each state. Returns whether any did.
    Floats and integers are treated alike; the later states come first, since edges lead forward
    in breadth-first order.
    """
    changed = False
    expanded = len(graph.next)
    for start in reversed(range(0, expanded, CHUNK)):
        part = slice(start, min(start + CHUNK, expanded))
        value = cost(part) - per_increase * graph.increase[part].astype(potential.dtype)
        value += potential[graph.next[part]]
        best = value.argmax(axis=1)
        value = np.take_along_axis(value, best[:, None], axis=1)[:, 0]
        better = value > potential[part] + tolerance
        if better.any():
            changed = True
            potential[part][better] = value[better]
            choice[part][better] = best[better]
    return changed


def cycles_of(graph: Graph, choice: np.ndarray) -> list[list[int]]:
    """The cycles of the graph that has one edge per state: that of ``choice``, none where −1.

    Returns
    -------
    list
        The states of each cycle, in order.
    """
    states = graph.states
    after = np.arange(states)
    moving = np.flatnonzero(choice >= 0)
    after[moving] = graph.next[moving, choice[moving]]
    far = after
    for _ in range(states.bit_length()):
        far = far[far]
    on_cycle = np.unique(far)
    on_cycle = on_cycle[after[on_cycle] != on_cycle]  # resting states, and loops apart
    loops = moving[after[moving] == moving]
    cycles = [[int(s)] for s in loops]
    seen: set[int] = set()
    for s in on_cycle.tolist():
        if s in seen:
            continue
        cycle = [s]
        while (s := int(after[s])) != cycle[0]:
            cycle.append(s)
        seen.update(cycle)
        cycles.append(cycle)
    return cycles


def best_cycle(
    graph: Graph,
    cost: Cost,
    at_least: float,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[int], list[int], float, float] | None:
    """The cycle with the largest ratio above ``at_least``, in floating point.

    Parameters
    ----------
    graph, cost
        Its edges; costs as floats.
    at_least
        Ratios up to this are of no interest.
    stop
        Asked before each sweep; if it is time, the best cycle so far is returned.

    Returns
    -------
    tuple or None
        States and queries along the cycle, Σ cost and Σ increase; None if there is none.
    """
    found = None
    ratio = at_least
    while True:
        potential = np.zeros(graph.states)
        choice = np.full(graph.states, -1, np.int64)
        sweeps, look = 0, 1
        better = None
        while relax(graph, cost, ratio, potential, choice, TOLERANCE):
            sweeps += 1
            if sweeps == look or stop():
                look = sweeps + 1 + sweeps // 4
                better = _best_of(graph, cost, choice, ratio)
                if better is not None or stop():
                    break
        if better is None:
            return found
        found = better
        if found[3] == 0:
            return found
        ratio = found[2] / found[3]


def _best_of(
    graph: Graph, cost: Cost, choice: np.ndarray, above: float
) -> tuple[list[int], list[int], float, float] | None:
    best, best_ratio = None, above + TOLERANCE
    for cycle in cycles_of(graph, choice):
        queries = choice[cycle].tolist()
        costs = sum(float(cost(slice(s, s + 1))[0, q]) for s, q in zip(cycle, queries, strict=True))
        increase = int(graph.increase[cycle, queries].sum(dtype=np.int64))
        if costs <= TOLERANCE:
            continue
        ratio = costs / increase if increase else np.inf
        if ratio > best_ratio:
            best, best_ratio = (cycle, queries, costs, float(increase)), ratio
    return best
