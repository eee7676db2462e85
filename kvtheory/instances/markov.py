"""Requests in which one document leads to the next."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.instances.runs import (
    document_runs,
    from_runs,
    named,
    poisson_arrivals,
    positive,
    share,
    whole,
)
from kvtheory.instances.zipf import zipf_ranks


def markov(
    documents: int = 1000,
    requests: int = 10_000,
    follow: float = 0.9,
    exponent: float = 1.0,
    levels: int = 1,
    branching: int = 2,
    length: int = 1,
    block_size: int = 1,
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """A Markov chain: the document that follows the last one on a ring, or a new one by popularity.

    Models workflows, in which one prompt leads to the next. The documents lie on a ring in random
    order; with probability ``follow`` the next query is for the one after the last, otherwise it is
    drawn as in `zipf`. So runs along the ring have a geometric length of 1/(1 − ``follow``) in the
    mean.

    Defeats leaf LRU and whatever takes recency for a sign of reuse: with ``follow`` = 1 and one
    document more than fits in B units, of one unit each, it misses every query and its ratio is B.

    Parameters
    ----------
    documents
        Number of documents.
    requests
        Number of queries.
    follow
        Probability, from 0 to 1, of going on along the ring.
    exponent
        Zipf exponent of the others, at least 0; 0 is uniform.
    levels, branching, length
        Of the tree, as for `zipf`.
    block_size
        Tokens in one unit.
    seed
        Of the ring, the queries and the arrival times.
    rate
        Queries per second of a Poisson process, or None for no arrival times.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> markov(documents=4, requests=6, follow=1.0).query.tolist()
    [0, 1, 2, 3, 0, 1]

    References
    ----------
    Karlin, Phillips and Raghavan, Markov paging, SIAM J. Comput. 30 (2000).
    """
    parameters = dict(locals())
    whole(1, documents=documents, requests=requests, levels=levels, branching=branching)
    whole(1, length=length, block_size=block_size)
    whole(0, seed=seed)
    share(follow=follow)
    positive(rate=rate)

    rng = np.random.default_rng(seed)
    ring = rng.permutation(documents)
    fresh = rng.random(requests) >= follow
    fresh[0] = True
    # place on the ring of the popularity ranks: those of neighbours have nothing in common
    drawn = rng.permutation(documents)[zipf_ranks(documents, exponent, requests, rng)]
    began = np.maximum.accumulate(np.where(fresh, np.arange(requests), 0))
    place = (drawn[began] + np.arange(requests) - began) % documents
    flat, start, nodes = document_runs(ring[place], documents, levels, branching)
    return from_runs(
        flat,
        start,
        np.full(nodes, length, np.int64),
        arrival=poisson_arrivals(rate, requests, seed),
        block_size=block_size,
        **named("markov", parameters),
    )
