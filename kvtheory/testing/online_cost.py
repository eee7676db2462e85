"""What the best online algorithm pays against a known distribution of request sequences."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache

from kvtheory.testing.exhaustive import closed_subsets
from kvtheory.testing.twin_cache import path_of

Sequences = Mapping[tuple[int, ...], Fraction]


def online_cost(
    parents: Sequence[int],
    capacity: int,
    start: Sequence[int],
    adversary: Mapping[tuple[int, ...], float | Fraction],
) -> tuple[Fraction, Fraction]:
    """Least expected misses of an online algorithm, and the expected optimum, exactly.

    Parameters
    ----------
    parents
        The unit above each unit, −1 at a root.
    capacity
        B.
    start
        Units in the cache at the beginning.
    adversary
        The probability of each request sequence, as units at which queries end.

    Returns
    -------
    tuple
        Both as fractions: their ratio bounds every randomised algorithm from below (Yao 1977).

    Notes
    -----
    The algorithm knows the distribution and the requests so far. It may keep any ancestor-closed
    set of at most B units of cache and path that contains the path.

    Examples
    --------
    >>> third = Fraction(1, 3)
    >>> online_cost([-1, -1, -1], 2, [0, 1], {(2, q): third for q in range(3)})
    (Fraction(4, 3), Fraction(1, 1))
    """
    paths: list[list[int]] = []
    for u, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent >= 0 else []), u])
    units = [frozenset(path_of(path)) for path in paths]
    exact = {s: Fraction(p) for s, p in adversary.items() if p}

    @cache
    def after(cached: frozenset, query: int) -> tuple[int, list[frozenset]]:
        served = units[query]
        outcomes = closed_subsets(cached | served, served, capacity)
        return len(served - cached), list(outcomes)

    known: dict[tuple[frozenset, tuple[int, ...]], Fraction] = {}

    def online(cached: frozenset, history: tuple[int, ...], sequences: Sequences) -> Fraction:
        """Cost from here on, times the probability of the history."""
        if (cached, history) in known:
            return known[cached, history]
        t = len(history)
        branches: dict[int, dict[tuple[int, ...], Fraction]] = {}
        for s, p in sequences.items():
            if len(s) > t:
                branches.setdefault(s[t], {})[s] = p
        total = Fraction(0)
        for query, branch in branches.items():
            misses, outcomes = after(cached, query)
            then = (*history, query)
            total += sum(branch.values(), Fraction(0)) * misses
            total += min(online(outcome, then, branch) for outcome in outcomes)
        known[cached, history] = total
        return total

    def optimum(sequence: tuple[int, ...]) -> int:
        fewest = {first: 0}
        for query in sequence:
            then: dict[frozenset, int] = {}
            for cached, cost in fewest.items():
                misses, outcomes = after(cached, query)
                for outcome in outcomes:
                    then[outcome] = min(cost + misses, then.get(outcome, cost + misses))
            fewest = then
        return min(fewest.values())

    first = frozenset(unit for u in start for unit in path_of(paths[u]))
    best = online(first, (), exact)
    return best, sum((p * optimum(s) for s, p in exact.items()), Fraction(0))
