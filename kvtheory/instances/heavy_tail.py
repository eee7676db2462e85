"""Shared prefixes and prompts of heavy-tailed lengths."""

from typing import Literal

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import (
    from_runs,
    named,
    one_of,
    poisson_arrivals,
    positive,
    whole,
)
from kvtheory.instances.zipf import zipf_ranks


def heavy_tail(
    requests: int = 4096,
    groups: int = 128,
    prefix_tokens: float = 1024.0,
    prompt_tokens: float = 512.0,
    law: Literal["pareto", "lognormal"] = "pareto",
    tail: float = 1.5,
    longest: int = 32_768,
    exponent: float = 0.0,
    block_size: int = 16,
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """Prompts of their own below shared prefixes, both of heavy-tailed length.

    Models production traffic, where a few prompts are a hundred times as long as the median:
    one of them empties a cache, and load is unequal even where queries are spread evenly.

    Parameters
    ----------
    requests, groups
        Number of queries, and of prefixes that they choose from.
    prefix_tokens, prompt_tokens
        Mean tokens, before the cut at ``longest``, of a shared prefix and of what follows it.
    law, tail
        ``"pareto"`` with shape ``tail`` > 1 (the smaller, the heavier), or ``"lognormal"`` with
        ``tail`` > 0 the standard deviation of the logarithm (the larger, the heavier).
    longest
        Most tokens of a prefix, and of what follows it.
    exponent
        Zipf exponent of the groups' popularity; 0 is uniform.
    block_size
        Tokens in one unit; a query takes whole blocks, its prefix only full ones.
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
    >>> instance = heavy_tail(requests=1000, longest=10_000)
    >>> instance.requests, bool(instance.input_length.max() <= 20_000)
    (1000, True)

    References
    ----------
    Crovella and Bestavros, Self-similarity in World Wide Web traffic, SIGMETRICS 1996.
    """
    parameters = dict(locals())
    whole(1, requests=requests, groups=groups, longest=longest, block_size=block_size)
    whole(0, seed=seed)
    one_of(("pareto", "lognormal"), law=law)
    positive(prefix_tokens=prefix_tokens, prompt_tokens=prompt_tokens, tail=tail, rate=rate)
    if law == "pareto" and tail <= 1:
        raise bad("tail", tail, "a Pareto law needs a shape above 1 to have a mean")

    rng = np.random.default_rng(seed)
    prefix = drawn_tokens(rng, law, tail, prefix_tokens, longest, groups)
    prompt = drawn_tokens(rng, law, tail, prompt_tokens, longest, requests)
    group = zipf_ranks(groups, exponent, requests, rng)
    common = prefix // block_size
    total = prefix[group] + prompt
    own = -(-total // block_size) - common[group]
    return from_runs(
        np.column_stack([group, groups + np.arange(requests)]).ravel(),
        np.arange(0, 2 * requests + 1, 2),
        np.concatenate([common, own]),
        arrival=poisson_arrivals(rate, requests, seed),
        input_length=None if block_size == 1 else total,
        block_size=block_size,
        **named("heavy_tail", parameters),
    )


def drawn_tokens(
    rng: np.random.Generator, law: str, tail: float, mean: float, longest: int, size: int
) -> np.ndarray:
    """int64[size]; lengths of the given mean, rounded up and cut at ``longest``."""
    if law == "pareto":
        drawn = mean * (tail - 1) / tail * (1 + rng.pareto(tail, size))
    else:
        drawn = mean * np.exp(tail * rng.standard_normal(size) - tail**2 / 2)
    return np.ceil(np.clip(drawn, 1, longest)).astype(np.int64)
