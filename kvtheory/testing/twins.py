"""The slow literal twins by name: plain Python on raw token lists, unit by unit.

A twin is made by ``TWINS[name](capacity, **parameters)`` and run by ``twin.run(sequences)``,
which returns the hits of each query in units. Twins read no prefix tree and share no code with
the fast policies: they are what those are compared with, query by query.
"""

import math
from collections.abc import Callable, Sequence

from kvtheory.testing.twin_cache import Twin, Unit, path_of
from kvtheory.testing.twin_radix import NodeLRU
from kvtheory.testing.twins_deterministic import (
    FIFO,
    LFU,
    LLRU,
    MRU,
    SLRU,
    Belady,
    CostPerUnit,
    TailLRU,
)
from kvtheory.testing.twins_layered import Duel, Layered, lrlt
from kvtheory.testing.twins_random import Marking, RandomLeaf, rlt

DETERMINISTIC: dict[str, Callable[..., Twin]] = {
    "belady": Belady,
    "cost_per_unit": CostPerUnit,
    "fifo": FIFO,
    "lfu": LFU,
    "llru": LLRU,
    "mru": MRU,
    "node_lru": NodeLRU,
    "slru": SLRU,
    "tail_lru": TailLRU,
}

RANDOM: dict[str, Callable[..., Twin]] = {
    "duel": Duel,
    "layered": Layered,
    "lrlt": lrlt,
    "marking": Marking,
    "random_leaf": RandomLeaf,
    "rlt": rlt,
}

TWINS: dict[str, Callable[..., Twin]] = DETERMINISTIC | RANDOM


def true_next_uses(sequences: Sequence[Sequence[int]]) -> list[list[float]]:
    """Perfect predictions for ``marking``: when each unit of each query is used next.

    Returns
    -------
    list
        ``[t][d]``, the index of the next query after t that contains the unit at depth d + 1 of
        query t, infinity if there is none.

    Examples
    --------
    >>> true_next_uses([[1, 2], [3], [1]])
    [[2, inf], [inf], [inf]]
    """
    following: dict[Unit, int] = {}
    uses: list[list[float]] = []
    for t in reversed(range(len(sequences))):
        path = path_of(sequences[t])
        uses.append([following.get(unit, math.inf) for unit in path])
        following.update(dict.fromkeys(path, t))
    return uses[::-1]
