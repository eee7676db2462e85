"""Average reward of a finite Markov chain in rational arithmetic."""

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any

Step = tuple[Fraction, Fraction | int, Hashable]  # probability, reward, where it leads


def average_reward(start: Hashable, moves: Callable[[Any], Iterable[Step]]) -> Fraction:
    """The expected reward per step in the long run.

    Parameters
    ----------
    start, moves
        The chain; from the start one class of recurrent states must be reached for sure.

    Notes
    -----
    Solves μ = μP on the recurrent states by elimination of states, one by one: what flows into a
    state that is taken out goes on to where it leads, so nothing is subtracted. Steps get longer
    by that, and their lengths are carried along with their rewards.
    """
    number, steps = {start: 0}, []
    for state in (order := [start]):
        row = []
        for p, reward, then in moves(state):
            if then not in number:
                number[then] = len(number)
                order.append(then)
            row.append((p, reward, number[then]))
        steps.append(row)
    # row[i][j]: probability, and its product with the expected reward and length of the step
    rows: list[dict[int, tuple[Fraction, Fraction, Fraction]]] = []
    for row in steps:
        merged: dict[int, tuple[Fraction, Fraction, Fraction]] = {}
        for p, reward, j in row:
            a, b, c = merged.get(j, (Fraction(0),) * 3)
            merged[j] = (a + p, b + p * reward, c + p)
        rows.append(merged)
    keep = _recurrent(rows)
    into: list[set[int]] = [set() for _ in rows]
    for i, row in enumerate(rows):
        for j in row:
            into[j].add(i)
    for gone in range(len(rows)):
        if gone == keep:
            continue
        row = rows[gone]
        stay = row.pop(gone, (Fraction(0),) * 3)
        out = 1 - stay[0]
        # leaving for j: with the loops before it
        leave = {
            j: (p / out, r / out + p * stay[1] / out**2, t / out + p * stay[2] / out**2)
            for j, (p, r, t) in row.items()
        }
        for i in into[gone] - {gone}:
            p0, r0, t0 = rows[i].pop(gone)
            for j, (p, r, t) in leave.items():
                a, b, c = rows[i].get(j, (Fraction(0),) * 3)
                rows[i][j] = (a + p0 * p, b + r0 * p + p0 * r, c + t0 * p + p0 * t)
                into[j].add(i)
        for j in row:
            into[j].discard(gone)
    _, reward, time = rows[keep][keep]
    return reward / time


def _recurrent(rows: list[dict[int, Any]]) -> int:
    """A state that is reached from everywhere."""
    for state in reversed(range(len(rows))):
        back: list[set[int]] = [set() for _ in rows]
        for i, row in enumerate(rows):
            for j in row:
                back[j].add(i)
        seen, todo = {state}, [state]
        while todo:
            for i in back[todo.pop()] - seen:
                seen.add(i)
                todo.append(i)
        if len(seen) == len(rows):
            return state
    raise ValueError("the chain has more than one class of recurrent states")
