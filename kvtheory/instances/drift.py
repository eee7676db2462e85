"""Requests for a popular set that changes from time to time."""

import numpy as np

from kvtheory.errors import bad
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


def drift(
    documents: int = 1000,
    requests: int = 10_000,
    hot: int = 32,
    period: int = 1000,
    popularity: float = 0.9,
    keep: float = 0.0,
    levels: int = 1,
    branching: int = 2,
    length: int = 1,
    block_size: int = 1,
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """Most queries are for a few hot documents, of which a part is exchanged in every period.

    Models news and shifting products. Those that come in are drawn from the documents that were not
    hot in the period before.

    Defeats LFU and whatever holds on to what was popular: with B = ``hot`` units, one for each
    document, and ``popularity`` = 1, ``keep`` = 0, its cache is full of documents with counts that
    newcomers, whose counts are lost with them, do not reach. From the second period on it hits only
    when a document is asked for twice in a row, with probability 1/``hot``, where the optimum
    misses ``hot`` queries in a period and leaf LRU hardly more.

    Parameters
    ----------
    documents
        Number of documents, at least 2·``hot``.
    requests
        Number of queries.
    hot
        Number of popular documents.
    period
        Queries between two changes.
    popularity
        Share of the queries for a popular document, all being as likely; the others are for any.
    keep
        Share of the popular ones, rounded down to whole documents, that stay when the set changes.
    levels, branching, length
        Of the tree, as for `zipf`.
    block_size
        Tokens in one unit.
    seed
        Of everything that is drawn.
    rate
        Queries per second of a Poisson process, or None for no arrival times.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance = drift(documents=100, requests=60, hot=3, period=20, popularity=1.0)
    >>> instance.tree.edges  # three in each of three periods
    9
    """
    parameters = dict(locals())
    whole(1, documents=documents, requests=requests, hot=hot, period=period)
    whole(1, levels=levels, branching=branching, length=length, block_size=block_size)
    whole(0, seed=seed)
    share(popularity=popularity, keep=keep)
    positive(rate=rate)
    if documents < 2 * hot:
        raise bad("documents", documents, f"must be at least twice the hot ones, {2 * hot}")

    rng = np.random.default_rng(seed)
    stay = int(keep * hot)
    popular = rng.permutation(documents)[:hot]
    sets = []
    for _ in range(0, requests, period):
        sets.append(popular)
        others = np.setdiff1d(np.arange(documents), popular)
        new = rng.choice(others, hot - stay, replace=False)
        popular = np.concatenate([rng.choice(popular, stay, replace=False), new])
    which = np.stack(sets)[np.arange(requests) // period, rng.integers(0, hot, requests)]
    any_one = rng.integers(0, documents, requests)
    document = np.where(rng.random(requests) < popularity, which, any_one)
    flat, start, nodes = document_runs(document, documents, levels, branching)
    return from_runs(
        flat,
        start,
        np.full(nodes, length, np.int64),
        arrival=poisson_arrivals(rate, requests, seed),
        block_size=block_size,
        **named("drift", parameters),
    )
