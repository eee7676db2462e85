"""The broom whose leaves are asked for in turn: leaf LRU's worst case."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.instances.broom import broom, leaf_count
from kvtheory.instances.runs import named, whole


def cyclic_broom(
    capacity: int = 8, length: int = 1, leaves: int | None = None, rounds: int = 100
) -> Instance:
    """A path of ``length`` − 1 units with leaves below it, asked for one after the other.

    Defeats leaf LRU, and any policy that keeps what it used last: with one leaf more than fits,
    the leaf asked for is always the one just evicted. The optimum misses once in B − L + 1
    queries, so the ratio tends to B − L + 1.

    Parameters
    ----------
    capacity
        B, units of the cache that this is made for.
    length
        L, units of each query; 1 gives a star: classic paging.
    leaves
        Number of leaves; None for B − L + 2, one more than fits.
    rounds
        How many times each leaf is asked for.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance = cyclic_broom(capacity=5, length=3, rounds=2)
    >>> instance.query.tolist(), instance.tree.length.tolist()
    ([1, 2, 3, 4, 1, 2, 3, 4], [2, 1, 1, 1, 1])

    References
    ----------
    Sleator and Tarjan, Amortized efficiency of list update and paging rules, CACM 1985.
    """
    parameters = dict(locals())
    n = leaf_count(capacity, length, leaves)
    whole(1, rounds=rounds)
    return broom(np.tile(np.arange(n), rounds), length, **named("cyclic_broom", parameters))
