"""Claim 8: the interval LP is integral."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from kvtheory.instance import Instance
from kvtheory.offline.certificate import consecutive_uses, room
from kvtheory.offline.interval_lp import interval_program, solve_interval_lp
from kvtheory.testing.small_cases import random_cases
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge.caches import most_saved
from proofs_check.judge.intervals import proved_hits

Requests = list[list[int]]
MOST_ROWS = 9


def of_program(requests: Requests, capacity: int) -> np.ndarray:
    """The matrix that the package gives the solver: z and occupancy."""
    instance = Instance.from_tokens(requests)
    uses = consecutive_uses(instance, "forced")
    return interval_program(uses, room(instance, capacity, "forced")).balance.toarray()


def dense(requests: Requests, capacity: int) -> np.ndarray:
    """One row a query, one column a pair of uses of a unit: 1 where the unit takes space."""
    pairs = [pair for _, pair in _pairs(requests)]
    return np.array([[float(s < r < t) for s, t in pairs] for r in range(len(requests))])


def with_ancestors(requests: Requests, capacity: int) -> np.ndarray:
    """`dense`, and a row z_child <= z_parent for each pair of the parent inside one of the child.

    What programs with costs by depth need.
    """
    units = _pairs(requests)
    rows = [
        [float(i == c) - float(i == p) for i in range(len(units))]
        for c, (child, (s, t)) in enumerate(units)
        for p, (parent, (a, b)) in enumerate(units)
        if child[:-1] == parent and s <= a and b <= t
    ]
    return np.concatenate([dense(requests, capacity), np.array(rows).reshape(-1, len(units))])


def with_sizes(requests: Requests, capacity: int) -> np.ndarray:
    """`dense` with units whose size is their depth."""
    sizes = np.array([len(unit) for unit, _ in _pairs(requests)])
    return dense(requests, capacity) * sizes


def _pairs(requests: Requests) -> list[tuple[tuple[int, ...], tuple[int, int]]]:
    last: dict[tuple[int, ...], int] = {}
    found = []
    for t, tokens in enumerate(requests):
        for depth in range(1, len(tokens) + 1):
            unit = tuple(tokens[:depth])
            if unit in last:
                found.append((unit, (last[unit], t)))
            last[unit] = t
    return found


@dataclass(frozen=True)
class Subject:
    """The matrices, and the room for the program."""

    matrices: tuple[Callable[[Requests, int], np.ndarray], ...] = (of_program, dense)
    more_room: int = 0


def check(subject: Subject, task: Task) -> str:
    """Ghouila-Houri on the matrices; solutions whole, and their prices a proof in rationals."""
    matrices = subsets = programs = 0
    for i, case in enumerate(random_cases(task.pick(120, 1000), 8, units=8, requests=10)):
        task.tell(f"case {i}")
        requests = [list(s) for s in case.sequences]
        for make in subject.matrices:
            matrix = make(requests, case.capacity)
            matrix = np.unique(matrix[np.abs(matrix).sum(axis=1) > 0], axis=0)
            if 0 < len(matrix) <= MOST_ROWS and matrix.shape[1]:
                if (rows := _not_fair(matrix)) is not None:
                    raise Refuted(
                        f"{case}: no signs make the sums of the rows {matrix[rows].tolist()} "
                        "−1, 0 or 1",
                        Counterexample(requests, case.capacity, "the matrix is not unimodular"),
                    )
                matrices += 1
                subsets += 1 << len(matrix)
        if i < task.pick(40, 400):
            _check_program(subject, requests, case.capacity)
            programs += 1
    return (
        f"{matrices} matrices with {subsets:,} sets of rows; {programs} programs whole, each with "
        "prices that prove it in rationals"
    )


def _not_fair(matrix: np.ndarray) -> list[int] | None:
    """Rows of which no signs make all sums −1, 0 or 1; None if every set has such signs."""
    signs = np.array(list(product((-1, 0, 1), repeat=len(matrix))))
    fair = np.abs(signs @ matrix).max(axis=1) <= 1
    found = {tuple(row) for row in np.abs(signs[fair]).tolist()}
    for rows in product((0, 1), repeat=len(matrix)):
        if rows not in found:
            return [i for i, taken in enumerate(rows) if taken]
    return None


def _check_program(subject: Subject, requests: Requests, capacity: int) -> None:
    best = most_saved(requests, capacity, lambda depth: 1, leaf_rule=True)
    solution = solve_interval_lp(Instance.from_tokens(requests), capacity + subject.more_room)
    kept = solution.certificate.kept
    if not solution.whole or kept is None:
        raise Refuted(f"B = {capacity}, {requests}: the solution is not whole")
    found = Fraction(float(kept.sum()))
    proved = proved_hits(requests, capacity, solution.certificate.price.tolist())
    if not found == best == proved:
        shows = f"the program has {found} hits, its prices prove {proved}, the optimum has {best}"
        raise Refuted(
            f"B = {capacity}, {requests}: {shows}", Counterexample(requests, capacity, shows)
        )


CLAIM = Claim(
    id="8",
    title="The interval LP is integral",
    statement=(
        "The matrix of the interval LP of one cache is totally unimodular (on units, with one row "
        "a query and in the form with an occupancy recursion), so its vertices are whole; its "
        "value is the optimum's, and its duals prove it."
    ),
    latex=r"\max \{\textstyle\sum z : Az \le b,\ 0 \le z \le \ell\} = \max \{\dots,\ z \in "
    r"\mathbb Z\},\quad A \text{ totally unimodular}",
    source="consecutive ones: folklore for paging; trees: new here; Ghouila-Houri 1962",
    assumptions="offline; equal miss costs and sizes, forced admission, empty cache; batch 1",
    method="exhaustive over all sets of rows (Ghouila-Houri); LP with its prices checked in "
    "rationals",
    scope=(
        "120 random instances of at most 8 units and 10 queries, matrices of at most 9 rows; 40 "
        "programs",
        "1,000 such instances; 400 programs",
    ),
    seconds=(2, 60),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("rows for ancestors", Subject((with_ancestors,))),
        Mutant("units of different sizes", Subject((with_sizes,))),
        Mutant("the program has one unit more", Subject(more_room=1)),
    ),
)
