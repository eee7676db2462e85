"""The beliefs of an algorithm up to symmetry, and what each query makes of them."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from kvtheory.ratio.exact_engine.beliefs import BeliefModel, Foldable
from kvtheory.ratio.exact_engine.growing import Rows
from kvtheory.ratio.exact_engine.symmetry import Symmetry


class BeliefGraph:
    """Beliefs met so far, one of each orbit, by number.

    Parameters
    ----------
    model
        The algorithm.
    symmetry
        The group; the identity alone unless the model is `Foldable`.
    queries
        The units that may be asked for.

    Attributes
    ----------
    beliefs
        The chosen belief of each orbit.
    costs
        Expected misses of each query, a list of fractions per belief; empty until it is asked for.
    stabilisers
        The subgroups that keep some belief, each once, as numbers of permutations.
    """

    def __init__(self, model: BeliefModel, symmetry: Symmetry, queries: Sequence[int]) -> None:
        self.model, self.symmetry, self.queries = model, symmetry, queries
        self.beliefs: list[Any] = []
        self.costs: list[list[Fraction]] = []
        self.stabilisers: list[np.ndarray] = []
        self._stabiliser_number: dict[bytes, int] = {}
        self._stabiliser = Rows((), np.int64)
        self._number: dict[Any, int] = {}
        self._seen: dict[Any, tuple[int, int]] = {}
        self._next = Rows((len(queries),), np.int64)
        self._turn = Rows((len(queries),), np.int64)
        self._cost = Rows((len(queries),), np.float64)

    def __len__(self) -> int:
        return len(self.beliefs)

    def start(self) -> int:
        """Number of the first belief, which every permutation keeps."""
        return self._fold(self.model.belief_init())[0]

    def after(self, number: int) -> None:
        """Work out what each query makes of a belief, if that is not done."""
        if self.costs[number]:
            return
        costs, nexts, turns = [], [], []
        for q in self.queries:
            cost, belief = self.model.belief_step(self.beliefs[number], q)
            then, turn = self._fold(belief)
            costs.append(cost)
            nexts.append(then)
            turns.append(turn)
        self.costs[number] = costs
        self._next.rows[number] = nexts
        self._turn.rows[number] = turns
        self._cost.rows[number] = costs

    @property
    def next(self) -> np.ndarray:
        """int64[beliefs, queries]; the orbit after each query."""
        return self._next.rows

    @property
    def turn(self) -> np.ndarray:
        """int64[beliefs, queries]; the permutation that moves what comes after to its orbit's."""
        return self._turn.rows

    @property
    def cost(self) -> np.ndarray:
        """float64[beliefs, queries]; the expected misses as floats."""
        return self._cost.rows

    @property
    def stabiliser(self) -> np.ndarray:
        """int64[beliefs]; which of ``stabilisers`` keeps the belief."""
        return self._stabiliser.rows

    def _fold(self, belief: Any) -> tuple[int, int]:
        if (known := self._seen.get(belief)) is None:
            known = self._seen[belief] = self._fold_new(belief)
        return known

    def _fold_new(self, belief: Any) -> tuple[int, int]:
        model, symmetry = self.model, self.symmetry
        if symmetry.order == 1 or not isinstance(model, Foldable):
            return self._number_of(belief, np.zeros(1, np.int64)), 0
        turns = symmetry.first_colourings(model.colours(belief))
        if model.colours_tell_all:
            turns = turns[:1]
        images = [model.relabel(belief, symmetry.as_tuples[t]) for t in turns]
        first = min(range(len(images)), key=lambda i: images[i])
        chosen = images[first]
        if chosen in self._number:
            return self._number[chosen], int(turns[first])
        keeping = symmetry.keeping(model.colours(chosen))
        if not model.colours_tell_all:
            same = [model.relabel(chosen, symmetry.as_tuples[t]) == chosen for t in keeping]
            keeping = keeping[same]
        return self._number_of(chosen, keeping), int(turns[first])

    def _number_of(self, belief: Any, keeping: np.ndarray) -> int:
        number = self._number.setdefault(belief, len(self.beliefs))
        if number == len(self.beliefs):
            key = keeping.tobytes()
            group = self._stabiliser_number.setdefault(key, len(self.stabilisers))
            if group == len(self.stabilisers):
                self.stabilisers.append(keeping)
            self.beliefs.append(belief)
            self.costs.append([])
            self._stabiliser.append(np.array([group]))
            width = len(self.queries)
            self._next.append(np.full((1, width), -1))
            self._turn.append(np.zeros((1, width), np.int64))
            self._cost.append(np.zeros((1, width)))
        return number
