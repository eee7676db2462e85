"""What `multi_turn` and `agentic` share: prompts that grow by every answer."""

import numpy as np

from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs


def growing_prompts(
    size: np.ndarray,
    begin: np.ndarray,
    gap: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    root: np.ndarray,
    root_tokens: np.ndarray,
    block_size: int,
    cache_output: bool,
    **fields: object,
) -> Instance:
    """Each turn asks for all that was said before in its conversation and a bit more.

    Only full blocks are units, so a turn always extends the path of the one before. Queries are
    sorted by arrival.

    Parameters
    ----------
    size, begin, root
        int64[c] turns, float64[c] seconds of the first one, int64[c] what it begins with.
    gap, prompt, output
        float64[n] seconds since the turn before (ignored for first ones), int64[n] tokens of a
        prompt beyond what was said, and of an answer; conversation by conversation.
    root_tokens
        int64[r]; tokens of each thing that conversations begin with.
    block_size, cache_output
        Tokens in one unit, and whether answers are cached (`Instance.end`).
    """
    n, roots = int(size.sum()), len(root_tokens)
    first = np.cumsum(size) - size  # the first turn of each conversation
    chat = np.repeat(np.arange(len(size)), size)
    gap = gap.copy()
    gap[first] = begin
    asked = root_tokens[root][chat] + within(prompt, first, size)
    asked += within(output, first, size) - output
    # After the roots, turn t adds run 2t, its prompt, and run 2t + 1, its answer.
    units, answered = asked // block_size, (asked + output) // block_size
    above = np.roll(answered, 1)
    above[first] = root_tokens[root] // block_size
    length = np.empty(roots + 2 * n, np.int64)
    length[:roots] = root_tokens // block_size
    length[roots::2], length[roots + 1 :: 2] = units - above, answered - units
    arrival = within(gap, first, size)

    order = np.argsort(arrival, kind="stable")
    turn = np.arange(n) - first[chat]
    runs = 2 * turn[order] + 2  # of a query: the root, and all turns up to its prompt
    begins = roots - 1 + 2 * first[chat[order]]
    top = root[chat[order]]
    if cache_output:
        runs, begins, top = np.concatenate([runs, runs + 1]), np.tile(begins, 2), np.tile(top, 2)
    start = np.zeros(len(runs) + 1, np.int64)
    np.cumsum(runs, out=start[1:])
    inner = np.arange(start[-1]) - np.repeat(start[:-1], runs)
    flat = np.where(inner == 0, np.repeat(top, runs), np.repeat(begins, runs) + inner)
    return from_runs(
        flat,
        start,
        length,
        cache_output,
        arrival=arrival[order],
        input_length=asked[order],
        output_length=output[order],
        block_size=block_size,
        **fields,
    )


def within(values: np.ndarray, first: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Running sums that begin anew at each ``first``."""
    total = np.cumsum(values)
    return total - np.repeat(total[first] - values[first], size)
