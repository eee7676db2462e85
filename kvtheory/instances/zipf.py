"""Requests for documents of Zipf popularity, flat or in a prefix tree."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import (
    document_runs,
    from_runs,
    named,
    poisson_arrivals,
    positive,
    whole,
)


def zipf(
    documents: int = 1000,
    requests: int = 10_000,
    exponent: float = 1.0,
    levels: int = 1,
    branching: int = 2,
    length: int = 1,
    block_size: int = 1,
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """Independent requests; the r-th most popular document has weight r to the −``exponent``.

    Models popularity as measured on the web. Documents are the leaves of a tree in which each
    node has ``branching`` children, and popularity is dealt out to them at random. With one
    level of one unit it is classic paging, where FIFO and random eviction have equal hit rates.

    Parameters
    ----------
    documents
        Number of documents.
    requests
        Number of queries.
    exponent
        Of the weights, at least 0; 0 is uniform.
    levels, branching
        Edges on a path, and children of each inner node: documents that share the top l edges
        are ``branching ** (levels - l)`` in a row.
    length
        Units of each edge.
    block_size
        Tokens in one unit.
    seed
        Of the popularity, the queries and the arrival times.
    rate
        Queries per second of a Poisson process, or None for no arrival times.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> zipf(documents=8, requests=500, levels=3, length=10)
    Instance('zipf', requests=500, units=140, edges=14)

    References
    ----------
    Breslau et al., Web caching and Zipf-like distributions, INFOCOM 1999. Gelenbe, A unified
    approach to the evaluation of a class of replacement algorithms, 1973.
    """
    parameters = dict(locals())
    whole(1, documents=documents, requests=requests, levels=levels, branching=branching)
    whole(1, length=length, block_size=block_size)
    whole(0, seed=seed)
    positive(rate=rate)

    rng = np.random.default_rng(seed)
    document = rng.permutation(documents)[zipf_ranks(documents, exponent, requests, rng)]
    flat, start, nodes = document_runs(document, documents, levels, branching)
    return from_runs(
        flat,
        start,
        np.full(nodes, length, np.int64),
        arrival=poisson_arrivals(rate, requests, seed),
        block_size=block_size,
        **named("zipf", parameters),
    )


def zipf_ranks(n: int, exponent: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """int64[size]; independent ranks from 0 to ``n`` − 1, rank r with weight (r + 1)^−exponent."""
    if not 0 <= exponent < np.inf:
        raise bad("exponent", exponent, "must be finite and not negative")
    total = np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -exponent)
    return np.searchsorted(total, rng.random(size) * total[-1], side="right")
