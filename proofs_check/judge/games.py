"""Exact values of small games, in rationals."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product

Matrix = Sequence[Sequence[Fraction]]


@cache
def minimax_regret(experts: int, rounds: int) -> Fraction:
    """The least regret that a player can guarantee against losses in {0, 1}, exactly.

    Losses in [0, 1] give the adversary no more: what is at stake after them is convex.
    """
    return _to_go(rounds, (0,) * experts)


@cache
def _to_go(rounds: int, lead: tuple[int, ...]) -> Fraction:
    """Σ loss still to come, less what the best expert will have in all; lead[-1] = 0."""
    if not rounds:
        return -Fraction(min(lead))
    columns = []
    for loss in product((0, 1), repeat=len(lead)):
        total = sorted((a + b for a, b in zip(lead, loss, strict=True)), reverse=True)
        after = _to_go(rounds - 1, tuple(a - total[-1] for a in total)) - total[-1]
        columns.append([after + x for x in loss])
    return value_of_game(list(zip(*columns, strict=True)))


def value_of_game(loss: Matrix) -> Fraction:
    """min over p of max over columns of Σ p_i·loss_ij: by equalising strategies of each size.

    The answer is proved before it is given: a p and a mix of columns with this value.
    """
    rows, columns = len(loss), len(loss[0])
    for size in range(1, min(rows, columns) + 1):
        for some_rows in combinations(range(rows), size):
            for some in combinations(range(columns), size):
                square = [[Fraction(loss[i][j]) for j in some] for i in some_rows]
                p = _equaliser([list(column) for column in zip(*square, strict=True)])
                q = _equaliser(square)
                if p is None or q is None or min(*p[:-1], *q[:-1]) < 0:
                    continue
                most = max(
                    sum(x * loss[i][j] for x, i in zip(p, some_rows, strict=False))
                    for j in range(columns)
                )
                least = min(
                    sum(x * loss[i][j] for x, j in zip(q, some, strict=False)) for i in range(rows)
                )
                if most == least:
                    return Fraction(most)
    raise AssertionError("every finite game has a value")


def _equaliser(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """(p, v) with Σ p = 1 and every row·p = v, if there is just one."""
    n = len(rows)
    table = [[*row, Fraction(-1), Fraction(0)] for row in rows]
    table.append([*[Fraction(1)] * n, Fraction(0), Fraction(1)])
    for k in range(n + 1):
        pivot = next((i for i in range(k, n + 1) if table[i][k]), None)
        if pivot is None:
            return None
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [x / table[k][k] for x in table[k]]
        for i in range(n + 1):
            if i != k and table[i][k]:
                factor = table[i][k]
                table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    return [row[-1] for row in table]
