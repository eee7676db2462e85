"""Generated shared prefix (GSP): groups of prompts that begin alike."""

from fractions import Fraction
from typing import Literal

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import (
    from_runs,
    in_order,
    named,
    one_of,
    poisson_arrivals,
    positive,
    whole,
)


def shared_prefix(
    groups: int = 128,
    prompts: int = 32,
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192),
    shared: float = 0.5,
    block_size: int = 1,
    order: Literal["random", "grouped", "round_robin"] = "random",
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """Each of ``groups`` prefixes under ``prompts`` prompts, every prompt asked once.

    Models system prompts and documents that many users ask about. It is the paper's benchmark:
    whether a router sends a group to one worker decides what the caches are worth.

    Parameters
    ----------
    groups, prompts
        Number of groups, and of prompts in each.
    lengths
        Tokens of a prompt: those of group g have ``lengths[g % len(lengths)]``.
    shared
        Share of a prompt that its whole group has in common, from 0 to 1.
    block_size
        Tokens in one unit; a prompt takes whole blocks, its shared part only full ones.
    order
        ``"grouped"``: group by group. ``"random"``: query t is number
        ``numpy.random.default_rng(seed).permutation(groups * prompts)[t]`` of that list.
        ``"round_robin"``: the first prompt of each group, then the second of each, …
    seed
        Of the order and of the arrival times.
    rate
        Queries per second of a Poisson process, or None for no arrival times.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> shared_prefix()
    Instance('shared_prefix', requests=4096, units=6606336, edges=4224)
    >>> shared_prefix(groups=2, prompts=2, lengths=(64,), shared=0.75, block_size=16).tree.length
    array([3, 1, 3, 1, 1, 1], dtype=int32)

    References
    ----------
    Wu, Silwal and Zhang, Randomization Boosts KV Caching, Learning Balances Query Load, ICLR 2026.
    """
    parameters = dict(locals())
    whole(1, groups=groups, prompts=prompts, block_size=block_size)
    whole(0, seed=seed)
    if not lengths:
        raise bad("lengths", lengths, "must hold at least one length")
    for tokens in lengths:
        whole(1, lengths=tokens)
    if not 0 <= shared <= 1:
        raise bad("shared", shared, "must be a share from 0 to 1")
    one_of(("random", "grouped", "round_robin"), order=order)
    positive(rate=rate)

    total = np.array([-(-tokens // block_size) for tokens in lengths])
    # exact: 0.7 of 10 tokens are 7, though 0.7 * 10 is not
    share = Fraction(str(shared))
    common = np.array([int(share * tokens) // block_size for tokens in lengths])
    kind = np.arange(groups) % len(lengths)
    length = np.concatenate([common[kind], np.repeat((total - common)[kind], prompts)])

    n = groups * prompts
    number = in_order(order, groups, prompts, np.random.default_rng(seed))
    group = number // prompts
    tokens = np.array(lengths)[kind[group]]
    return from_runs(
        np.column_stack([group, groups + number]).ravel(),
        np.arange(0, 2 * n + 1, 2),
        length,
        arrival=poisson_arrivals(rate, n, seed),
        input_length=None if (total * block_size == lengths).all() else tokens,
        block_size=block_size,
        **named("shared_prefix", parameters),
    )
