"""Arrival times and lengths for sequences that have none, as a replay on a server needs them."""

from dataclasses import replace

import numpy as np

from kvtheory.instance import Instance
from kvtheory.instances.runs import poisson_arrivals, positive, whole


def timed(
    instance: Instance,
    rate: float | None = None,
    output_tokens: int | None = None,
    seed: int = 0,
) -> Instance:
    """The same queries with Poisson arrivals, prompt lengths and output lengths.

    Parameters
    ----------
    instance
        The request sequence; without input lengths it gets ``block_size`` tokens for each unit.
    rate
        Queries per second; None keeps the arrivals that there are. New ones know nothing of answers
        that a query of a conversation has to wait for.
    output_tokens
        Output tokens of every query; None keeps those that there are.
    seed
        Of the arrivals.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> one = timed(Instance.from_tokens([[1, 2], [1, 3]], block_size=16), 2.0, 128)
    >>> one.input_length.tolist(), one.output_length.tolist(), bool(one.arrival[0] > 0)
    ([32, 32], [128, 128], True)
    """
    positive(rate=rate)
    whole(0, seed=seed)
    told = instance.source
    if rate is not None:
        instance = replace(instance, arrival=poisson_arrivals(rate, instance.requests, seed))
        told += f" at {rate} queries/s, seed {seed}"
    if output_tokens is not None:
        whole(0, output_tokens=output_tokens)
        output = np.full(instance.requests, output_tokens)
        instance = replace(instance, output_length=output)
        told += f" with {output_tokens} output tokens"
    return replace(instance, input_length=instance.tokens, source=told)
