"""The graph whose cycles are the worst cases: beliefs of the algorithm times work functions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvtheory.ratio.exact_engine.belief_graph import BeliefGraph
from kvtheory.ratio.exact_engine.growing import Pairs, Rows
from kvtheory.ratio.exact_engine.symmetry import Symmetry
from kvtheory.ratio.exact_engine.work_function import WorkFunctions

BATCH = 1 << 15
SHIFT = 32
SUMS = 1 << 23


@dataclass
class Product:
    """States reached from the start, and an edge for each state and query.

    Attributes
    ----------
    belief, work
        int64[states]; numbers in the belief graph and among the work functions.
    next
        int32[expanded, queries]; the state after each query. Only the first ``expanded`` states
        have edges, all of them if the search was not stopped.
    turn
        int32[expanded, queries]; the permutation that moves what comes after to ``next``.
    increase
        int8[expanded, queries]; how much OPT grows.
    parent, asked
        int32[states]; the state from which each was first reached and which query, −1 at the start.
    stopped
        Why the search ended early; empty if it did not.
    """

    belief: np.ndarray
    work: np.ndarray
    next: np.ndarray
    turn: np.ndarray
    increase: np.ndarray
    parent: np.ndarray
    asked: np.ndarray
    stopped: str

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.belief)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return self.next.size


def explore(
    beliefs: BeliefGraph,
    work: WorkFunctions,
    symmetry: Symmetry,
    stop: Callable[[int], str],
) -> Product:
    """All states that requests can lead to, breadth first.

    A state (b, w) and its image under a permutation are one: b is the chosen belief of its orbit,
    and w the first of its images under the permutations that keep b.

    Parameters
    ----------
    beliefs, work
        The two chains; what they have met grows.
    symmetry
        The group.
    stop
        Called with the number of states before each batch: the reason to stop, or nothing.
    """
    fold = Fold(beliefs, work, symmetry)
    pairs = Pairs()
    queries = len(beliefs.queries)
    start = np.array([beliefs.start() << SHIFT | work.start()])
    _, keys = pairs.of(start)
    found = Rows((3,), np.int64)  # key, parent, query
    found.append(np.stack([keys, [-1], [-1]], axis=1))
    nexts, turns = Rows((queries,), np.int32), Rows((queries,), np.int32)
    increases = Rows((queries,), np.int8)
    done, why = 0, ""
    while done < len(found):
        if why := stop(len(found)):
            break
        batch = np.arange(done, min(len(found), done + BATCH))
        key = found.rows[batch, 0]
        b, w = key >> SHIFT, key & ((1 << SHIFT) - 1)
        for number in np.unique(b):
            beliefs.after(int(number))
            if why := stop(len(found)):
                break
        if why:
            break
        after, increase = work.after(w)
        then, turn = fold(beliefs.next[b].ravel(), after.ravel(), beliefs.turn[b].ravel())
        number, new = pairs.of(then)
        first = np.unique(number, return_index=True)
        fresh = first[0] >= len(found)
        at = first[1][fresh]
        found.append(np.stack([new, batch[at // queries], at % queries], axis=1))
        nexts.append(number.reshape(-1, queries))
        turns.append(turn.reshape(-1, queries))
        increases.append(increase)
        done = int(batch[-1]) + 1
    key, parent, asked = found.rows.T
    return Product(
        belief=key >> SHIFT,
        work=key & ((1 << SHIFT) - 1),
        next=nexts.rows,
        turn=turns.rows,
        increase=increases.rows,
        parent=parent.astype(np.int32),
        asked=asked.astype(np.int32),
        stopped=why,
    )


class Fold:
    """Moves work functions along with their beliefs, and to the first of their images."""

    def __init__(self, beliefs: BeliefGraph, work: WorkFunctions, symmetry: Symmetry) -> None:
        self.beliefs, self.work, self.symmetry = beliefs, work, symmetry
        self.trivial = symmetry.order == 1
        if not self.trivial:
            self.places = symmetry.on_sets(work.sets)
            # sums that floats hold exactly; which image has the smallest one tells them apart
            draws = np.random.default_rng(0).integers(1, 1 << 38, len(work.sets))
            self.draws = draws.astype(np.float64)

    def __call__(
        self, belief: np.ndarray, work: np.ndarray, turn: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the folded states, and the permutations that lead there."""
        if self.trivial:
            return belief << SHIFT | work, turn
        group = self.beliefs.stabiliser[belief]
        # many edges share their work function and permutation
        code = (group * self.symmetry.order + turn) << SHIFT | work
        distinct, which = np.unique(code, return_inverse=True)
        w = distinct & ((1 << SHIFT) - 1)
        group, turn = np.divmod(distinct >> SHIFT, self.symmetry.order)
        values = np.take_along_axis(self.work.values[w], self.places[turn], axis=1)
        order = np.argsort(group, kind="stable")
        ends = np.flatnonzero(np.diff(group[order], append=-1)) + 1
        start = 0
        for end in ends.tolist():
            rows = order[start:end]
            start = end
            keeping = self.beliefs.stabilisers[int(group[rows[0]])]
            if len(keeping) == 1:
                continue
            # the sum over S of draws[S]·w(g⁻¹S), for every g that keeps the belief
            weights = np.zeros((len(self.draws), len(keeping)))
            np.put_along_axis(weights, self.places[keeping].T, self.draws[:, None], axis=0)
            most = max(1, SUMS // len(keeping))
            for some in (rows[i : i + most] for i in range(0, len(rows), most)):
                best = np.argmin(values[some].astype(np.float64) @ weights, axis=1)
                values[some] = np.take_along_axis(values[some], self.places[keeping[best]], axis=1)
                turn[some] = self.symmetry.then(turn[some], keeping[best])
        number = self.work.number(values)
        return belief << SHIFT | number[which], turn[which]
