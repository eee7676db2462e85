"""The best ratio of any randomised online algorithm over a finite horizon, as a linear program."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kvtheory.errors import bad
from kvtheory.ratio.exact_engine.forest import Forest, Queries, chosen_queries, forest, mask_of
from kvtheory.ratio.histories import Kinds, Level, count_histories, levels_of
from kvtheory.ratio.strategy_program import Program, proved
from kvtheory.tree import PrefixTree

MOST_HISTORIES = 200_000
Start = Literal["full", "empty"] | Sequence[int]


@dataclass(frozen=True)
class BestRandomised:
    """What no randomised online algorithm can beat within T queries, and who shows it.

    Attributes
    ----------
    ratio
        The least r with E[cost(σ)] <= r·OPT(σ) for all σ of length T; nan without a solution.
    lower
        What the adversary proves by dynamic programming, the program left aside: no online
        algorithm has an expected cost below ``lower`` times the expected optimum.
    horizon, start
        T, and the units in the cache at the beginning.
    histories, variables
        Size of the program; histories that an automorphism maps to each other count once.
    status
        How the solve ended.
    seconds
        Wall time.
    """

    ratio: float
    lower: float
    horizon: int
    start: tuple[int, ...]
    histories: int
    variables: int
    status: str
    seconds: float
    _leaves: list[tuple[tuple[int, ...], float]] = field(default_factory=list, repr=False)
    _symmetries: list[tuple[int, ...]] = field(default_factory=list, repr=False)

    def adversary(self) -> dict[tuple[int, ...], float]:
        """The distribution over request sequences against which no algorithm is better.

        Returns
        -------
        dict
            Sequences of T units at which queries end, with their probabilities; by Yao's principle
            the ratio of expectations bounds every randomised algorithm from below.
        """
        spread: dict[tuple[int, ...], float] = {}
        for sequence, weight in self._leaves:
            images = {tuple(p[q] for q in sequence) for p in self._symmetries}
            for image in images:
                spread[image] = spread.get(image, 0.0) + weight / len(images)
        return spread


def best_randomised(
    tree: Forest | PrefixTree | Sequence[int] | str,
    capacity: int,
    horizon: int,
    start: Start = "full",
    *,
    queries: Queries = "all",
    solver: str | None = None,
    time_limit: float | None = None,
    symmetry: bool = True,
    most_histories: int = MOST_HISTORIES,
) -> BestRandomised:
    """The optimal strict ratio of any randomised online algorithm against T queries.

    A behaviour strategy gives, for every history of requests, a law of the cache; mass flows from
    the caches before a query to those that may come after it. The program is linear in these
    flows. Its duals are the adversary's best distribution over request sequences.

    Parameters
    ----------
    tree, capacity, queries
        As for `exact`.
    horizon
        T, queries in a sequence.
    start
        What is cached at the beginning, for the algorithm and the optimum: ``"full"`` (the first B
        units, for example whole chains), ``"empty"``, or a list of units.
    solver, time_limit
        As cvxpy names it, HiGHS by default; seconds.
    symmetry
        Whether histories that an automorphism maps to each other share their law. By averaging
        that costs nothing.
    most_histories
        More than this are refused before anything is built.

    Raises
    ------
    InputError
        For bad arguments, or if there are too many histories: the message says how many.

    Guarantee
    ---------
    Forced admission, equal miss costs, an oblivious adversary who knows the algorithm. The ratio
    rises with T; with a full start it tends to the least competitive ratio there is.

    Notes
    -----
    Nothing is evicted without need, which costs nothing. Size: queries^T / symmetries histories.

    Examples
    --------
    >>> result = best_randomised("star:leaves=3", 2, 3)
    >>> round(result.ratio, 9), round(result.lower, 9), round(sum(result.adversary().values()), 9)
    (1.5, 1.5, 1.0)

    References
    ----------
    Yao, FOCS 1977. Koller, Megiddo, von Stengel, "Efficient computation of equilibria for extensive
    two-person games", Games and Economic Behavior 14, 1996 (behaviour strategies as flows).
    """
    begin = time.perf_counter()
    units = forest(tree)
    if capacity < 1:
        raise bad("capacity", capacity, "must be at least 1 unit")
    if horizon < 1:
        raise bad("horizon", horizon, "must be at least 1 query")
    asked = chosen_queries(units, queries, capacity)
    first = start_cache(units, capacity, start)
    kinds = Kinds(units, capacity, asked, mask_of(first), symmetry)
    histories = count_histories(kinds, horizon)
    if histories > most_histories:
        raise bad(
            "horizon", horizon, f"needs {histories:,} histories, more than {most_histories:,}"
        )
    levels = levels_of(kinds, horizon)
    program = Program(kinds, levels)
    ratio, dual, status = program.solve(solver, time_limit)
    leaves: list[tuple[tuple[int, ...], float]] = []
    lower = 1.0
    if dual is not None:
        dual = dual / dual.sum()
        lower = proved(kinds, levels, dual)
        leaves = _sequences(levels, asked, dual)
    return BestRandomised(
        ratio=ratio,
        lower=lower,
        horizon=horizon,
        start=first,
        histories=histories,
        variables=program.variables,
        status=status,
        seconds=time.perf_counter() - begin,
        _leaves=leaves,
        _symmetries=[kinds.symmetry.as_tuples[g] for g in kinds.kinds[0].group],
    )


def start_cache(units: Forest, capacity: int, start: Start) -> tuple[int, ...]:
    """The units cached at the beginning.

    Raises
    ------
    InputError
        If they are no ancestor-closed set of at most B units.
    """
    if isinstance(start, str):
        if start not in ("full", "empty"):
            raise bad("start", start, "must be 'full', 'empty' or a list of units")
        return tuple(range(min(capacity, units.units))) if start == "full" else ()
    chosen = tuple(sorted(set(start)))
    closed = all(0 <= u < units.units for u in chosen) and all(
        units.parents[u] < 0 or units.parents[u] in chosen for u in chosen
    )
    if not closed or len(chosen) > capacity:
        rule = f"must be an ancestor-closed set of at most {capacity} units"
        raise bad("start", list(chosen), rule)
    return chosen


def _sequences(
    levels: list[Level], queries: Sequence[int], weight: np.ndarray
) -> list[tuple[tuple[int, ...], float]]:
    at = np.flatnonzero(weight > 0)
    kept, asked = weight[at], []
    for level in reversed(levels[1:]):
        asked.append(np.asarray(queries)[level.query[at]])
        at = level.before[at]
    return [
        (tuple(s), float(p)) for s, p in zip(np.array(asked)[::-1].T.tolist(), kept, strict=True)
    ]
