"""Agents that call tools in a loop: every step extends one prefix."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.growing_prompts import growing_prompts
from kvtheory.instances.heavy_tail import drawn_tokens
from kvtheory.instances.runs import named, positive, whole


def agentic(
    tasks: int = 200,
    steps: float = 12.0,
    agents: int = 4,
    system_tokens: int = 4096,
    task_tokens: float = 256.0,
    result_tokens: float = 512.0,
    tail: float = 1.0,
    output_tokens: float = 96.0,
    rate: float = 0.5,
    tool_seconds: float = 3.0,
    block_size: int = 16,
    seed: int = 0,
    cache_output: bool = True,
) -> Instance:
    """Tasks whose prompt grows by each tool call and its result, below the prompt of their agent.

    Models coding and research agents: a long prompt with the tools, many short steps, results of
    log-normal length, seconds between steps. The number of steps is geometric, tasks begin by a
    Poisson process.

    Defeats whatever lets the prefix of a running task go: it is asked for again within seconds,
    whole and a bit longer. Without a cache a task of m = ``steps`` steps costs m times its tokens:
    if the task and each result have r in the mean, and each output o, its prompts hold
    r·m² + o·(m² − m) tokens, of which r·m are new, beside the prompt of the agent.

    Parameters
    ----------
    tasks
        Number of tasks.
    steps
        Mean number of steps, at least 1; every step is one query.
    agents
        Number of agents, each with a system prompt of its own; tasks choose one at random.
    system_tokens
        Tokens of a system prompt with its tools.
    task_tokens, result_tokens
        Mean tokens of what a task is, and of the result of a tool.
    tail
        Standard deviation of the logarithm of the tokens of a result.
    output_tokens
        Mean tokens of a tool call, at least 1, geometric.
    rate
        Tasks that begin per second.
    tool_seconds
        Mean time between two steps, exponential.
    block_size
        Tokens in one unit.
    seed
        Of everything that is drawn.
    cache_output
        Whether what the model wrote is cached when it has been written (`Instance.end`).

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> instance = agentic(tasks=10, steps=5)
    >>> instance.requests > 20, bool((instance.query_length >= 4096 // 16).all())
    (True, True)
    """
    parameters = dict(locals())
    whole(1, tasks=tasks, agents=agents, block_size=block_size)
    whole(0, system_tokens=system_tokens, seed=seed)
    positive(tail=tail, rate=rate, tool_seconds=tool_seconds)
    for key in ("steps", "task_tokens", "result_tokens", "output_tokens"):
        positive(**{key: parameters[key]})
        if parameters[key] < 1:
            raise bad(key, parameters[key], "is a mean of at least 1")

    rng = np.random.default_rng(seed)
    size = rng.geometric(1 / steps, tasks)
    n = int(size.sum())
    begin = np.cumsum(rng.standard_exponential(tasks)) / rate
    gap = rng.standard_exponential(n) * tool_seconds
    prompt = drawn_tokens(rng, "lognormal", tail, result_tokens, 1 << 20, n)
    prompt[np.cumsum(size) - size] = rng.geometric(1 / task_tokens, tasks)
    output = rng.geometric(1 / output_tokens, n)
    return growing_prompts(
        size,
        begin,
        gap,
        prompt,
        output,
        rng.integers(0, agents, tasks),
        np.full(agents, system_tokens),
        block_size,
        cache_output,
        **named("agentic", parameters),
    )
