"""Slow literal twins of the curves: one list of units that holds the caches of all capacities.

Plain Python on raw token lists, after Mattson, Gecsei, Slutz and Traiger (1970): if the cache of
B units is always part of that of B + 1, the caches are the beginnings of one list, the stack, and
a unit hits at every capacity from its place on.
"""

import math
from collections.abc import Callable, Sequence

from kvtheory.testing.twin_cache import Unit, distinct_units, path_of
from kvtheory.testing.twins import true_next_uses

Rank = Callable[[Unit], tuple[float, ...]]
"""What is kept first: the unit of lower rank."""


def update(stack: Sequence[Unit], path: Sequence[Unit], rank: Rank) -> list[Unit]:
    """The stack after a query whose path must stay, when the others go by rank.

    The cache of each capacity keeps the path and the best of its other units. One unit more than
    the cache below it had is added to the choice at each place, so the worst so far moves on.

    Examples
    --------
    >>> update(["b", "c", "a"], ["a"], lambda unit: (ord(unit),))
    ['a', 'b', 'c']
    """
    chosen = list(path)
    best: list[Unit] = []
    for place, unit in enumerate(stack, start=1):
        if unit not in path:
            best.append(unit)
            best.sort(key=rank)
        room = place - len(path)
        if room > len(chosen) - len(path):
            chosen.append(best.pop(0))
    return chosen + best


def hits(
    sequences: Sequence[Sequence[int]], ranks: Callable[[int, dict[Unit, int]], Rank]
) -> list[list[int]]:
    """``[B - 1][t]``: hits of query t with B units of cache, B from 1 to all distinct units.

    Parameters
    ----------
    sequences
        The queries.
    ranks
        The ranks at query t, given that the units were used last by the queries named.

    Notes
    -----
    What is said of a capacity that cannot serve the longest query has no meaning.
    """
    units = len(distinct_units(sequences))
    table = [[0] * len(sequences) for _ in range(units)]
    stack: list[Unit] = []
    last: dict[Unit, int] = {}
    for t, tokens in enumerate(sequences):
        path = path_of(tokens)
        for unit in path:
            if unit in last:
                for capacity in range(stack.index(unit) + 1, units + 1):
                    table[capacity - 1][t] += 1
        stack = update(stack, path, ranks(t, last))
        last |= dict.fromkeys(path, t)
    return table


def leaf_lru_hits(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Hits of leaf LRU: the unit used latest first, the shallower of two used together.

    Examples
    --------
    >>> leaf_lru_hits([[1], [2], [1], [2]])
    [[0, 0, 0, 0], [0, 0, 1, 1]]
    """
    return hits(sequences, lambda t, last: lambda unit: (-last[unit], len(unit)))


def optimum_hits(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Hits of Belady's rule: the unit needed next first, the shallower of two needed together.

    Examples
    --------
    >>> [sum(row) for row in optimum_hits([[1], [2], [3], [4]] * 4)]
    [0, 4, 8, 12]
    """
    following = true_next_uses(sequences)

    def ranks(t: int, last: dict[Unit, int]) -> Rank:
        def rank(unit: Unit) -> tuple[float, ...]:
            needed = following[last[unit]][len(unit) - 1]
            # which of two units that are never needed again goes changes no hit
            return (needed, len(unit), -last[unit] if math.isinf(needed) else 0)

        return rank

    return hits(sequences, ranks)
