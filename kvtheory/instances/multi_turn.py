"""Conversations whose prompts grow by every answer."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.growing_prompts import growing_prompts
from kvtheory.instances.runs import named, positive, whole


def multi_turn(
    conversations: int = 1000,
    turns: float = 4.0,
    system_tokens: int = 512,
    prompt_tokens: float = 128.0,
    output_tokens: float = 256.0,
    rate: float = 1.0,
    think_seconds: float = 30.0,
    block_size: int = 16,
    seed: int = 0,
    cache_output: bool = False,
) -> Instance:
    """Chats below one system prompt: each turn asks for all that was said before and a bit more.

    Models assistants: the number of turns is geometric, conversations begin by a Poisson
    process, the gap between turns is exponential, and the tokens of prompts and answers are
    geometric. Queries are sorted by arrival. Only full blocks are units, as in vLLM, so a turn
    always extends the path of the one before.

    Parameters
    ----------
    conversations
        Number of conversations.
    turns
        Mean number of turns, at least 1.
    system_tokens
        Tokens of the prompt that all conversations begin with.
    prompt_tokens, output_tokens
        Mean tokens of a user's prompt and of an answer, each at least 1.
    rate
        Conversations that begin per second.
    think_seconds
        Mean time between two turns of a conversation.
    block_size
        Tokens in one unit.
    seed
        Of everything that is drawn.
    cache_output
        Whether answers are cached when they have been given (`Instance.end`), as they are in
        vLLM and SGLang; by default a turn misses the answer of the one before.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance = multi_turn(conversations=3, turns=1, system_tokens=64, block_size=64)
    >>> instance.requests, bool((instance.query_length == instance.input_length // 64).all())
    (3, True)
    """
    parameters = dict(locals())
    whole(1, conversations=conversations, block_size=block_size)
    whole(0, system_tokens=system_tokens, seed=seed)
    positive(rate=rate, think_seconds=think_seconds)
    for key in ("turns", "prompt_tokens", "output_tokens"):
        positive(**{key: parameters[key]})
        if parameters[key] < 1:
            raise bad(key, parameters[key], "is a mean of at least 1")

    rng = np.random.default_rng(seed)
    size = rng.geometric(1 / turns, conversations)
    n = int(size.sum())
    begin = np.cumsum(rng.standard_exponential(conversations)) / rate
    gap = rng.standard_exponential(n) * think_seconds
    prompt = rng.geometric(1 / prompt_tokens, n)
    output = rng.geometric(1 / output_tokens, n)
    return growing_prompts(
        size,
        begin,
        gap,
        prompt,
        output,
        np.zeros(conversations, np.int64),
        np.array([system_tokens]),
        block_size,
        cache_output,
        **named("multi_turn", parameters),
    )
