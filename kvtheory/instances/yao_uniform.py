"""The broom whose leaves are asked for at random: no randomised algorithm does well on it."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.instances.broom import broom, leaf_count
from kvtheory.instances.runs import named, whole


def yao_uniform(
    capacity: int = 8,
    length: int = 1,
    leaves: int | None = None,
    requests: int = 10_000,
    seed: int = 0,
) -> Instance:
    """A path of ``length`` − 1 units with leaves below it, each query a uniform one of them.

    Defeats every algorithm, randomised ones too: whatever is cached, one leaf of B − L + 2 is
    missing, so each query misses with probability 1/(B − L + 2), and the optimum misses once
    in (B − L + 2)·H_{B−L+1} queries. By Yao's principle no ratio is below H_{B−L+1}.

    Parameters
    ----------
    capacity
        B, units of the cache that this is made for.
    length
        L, units of each query; 1 gives a star: classic paging.
    leaves
        Number of leaves to draw from; None for B − L + 2, one more than fits.
    requests
        Number of queries.
    seed
        Of the leaves.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance = yao_uniform(capacity=4, length=2, requests=1000)
    >>> instance.tree.length.tolist(), instance.requests
    ([1, 1, 1, 1, 1], 1000)

    References
    ----------
    Borodin and El-Yaniv, Online Computation and Competitive Analysis, 1998, chapter 8.
    """
    parameters = dict(locals())
    n = leaf_count(capacity, length, leaves)
    whole(1, requests=requests)
    whole(0, seed=seed)
    leaf = np.random.default_rng(seed).integers(0, n, requests)
    return broom(leaf, length, **named("yao_uniform", parameters))
