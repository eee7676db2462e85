"""Skeleton of a generator of request sequences.

Copy me to ``kvtheory/instances/my_generator.py`` and change the lines marked with "yours".
"""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, poisson_arrivals, positive, whole


def my_generator(
    documents: int = 100,
    requests: int = 1000,
    length: int = 8,
    block_size: int = 1,
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """Independent queries for uniform documents that share half of their units.

    Yours: what it models, or which policy it defeats and by how much.

    Parameters
    ----------
    documents, requests
        Number of documents and of queries.
    length
        Units of a query, at least 2; the first half of them is shared.
    block_size
        Tokens in one unit.
    seed
        Of the queries and the arrival times.
    rate
        Queries per second of a Poisson process, or None for no arrival times.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.
    """
    # first, so that nothing else is in it
    parameters = dict(locals())
    whole(1, documents=documents, requests=requests, block_size=block_size)
    whole(2, length=length)
    whole(0, seed=seed)
    positive(rate=rate)

    # yours: run 0 is the shared prefix, run 1 + d what document d adds to it
    document = np.random.default_rng(seed).integers(0, documents, requests)
    flat = np.column_stack([np.zeros(requests, np.int64), 1 + document]).ravel()
    shared = length // 2
    return from_runs(
        flat,
        np.arange(0, 2 * requests + 1, 2),
        np.concatenate([[shared], np.full(documents, length - shared)]),
        arrival=poisson_arrivals(rate, requests, seed),
        block_size=block_size,
        **named("my_generator", parameters),
    )


if __name__ == "__main__":
    from kvtheory.testing.check_generator import check_generator

    print(check_generator(my_generator, documents=5, requests=30, length=4))
