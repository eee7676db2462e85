"""Long documents with short questions about them."""

from typing import Literal

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.heavy_tail import drawn_tokens
from kvtheory.instances.runs import (
    from_runs,
    in_order,
    named,
    one_of,
    poisson_arrivals,
    positive,
    whole,
)


def documents(
    documents: int = 100,
    questions: int = 8,
    document_tokens: float = 24_000.0,
    spread: float = 0.4,
    question_tokens: float = 32.0,
    longest: int = 131_072,
    block_size: int = 16,
    order: Literal["random", "grouped", "round_robin"] = "random",
    seed: int = 0,
    rate: float | None = None,
) -> Instance:
    """Each document is asked ``questions`` questions, its text first and the question after it.

    Models long-context question answering as in LooGLE: documents of some 24 thousand tokens,
    log-normal, questions of a few dozen, geometric.

    Defeats routers that spread by load alone, and caches that hold parts of many documents: a
    question costs document/question, here some 750, times as much where its document is not cached.
    With room for all, 1/``questions`` of the document tokens are missed.

    Parameters
    ----------
    documents, questions
        Number of documents, and of questions about each.
    document_tokens, spread
        Mean tokens of a document, before the cut at ``longest``, and standard deviation of their
        logarithm.
    question_tokens
        Mean tokens of a question, at least 1.
    longest
        Most tokens of a document.
    block_size
        Tokens in one unit; a query takes whole blocks, its document only full ones.
    order
        ``"grouped"``: document by document. ``"random"``: a permutation of that list.
        ``"round_robin"``: the first question about each document, then the second of each, …
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
    >>> instance = documents(documents=10, questions=4)
    >>> instance.requests, bool(instance.input_length.min() > 5000)
    (40, True)

    References
    ----------
    Li et al., LooGLE: Can Long-Context Language Models Understand Long Contexts?, ACL 2024.
    """
    parameters = dict(locals())
    whole(1, documents=documents, questions=questions, longest=longest, block_size=block_size)
    whole(0, seed=seed)
    positive(document_tokens=document_tokens, spread=spread, question_tokens=question_tokens)
    if question_tokens < 1:
        raise bad("question_tokens", question_tokens, "is a mean of at least 1")
    one_of(("random", "grouped", "round_robin"), order=order)
    positive(rate=rate)

    rng = np.random.default_rng(seed)
    n = documents * questions
    text = drawn_tokens(rng, "lognormal", spread, document_tokens, longest, documents)
    asked = rng.geometric(1 / question_tokens, n)
    number = in_order(order, documents, questions, rng)
    document = number // questions
    common = text // block_size
    total = text[np.arange(n) // questions] + asked
    own = -(-total // block_size) - common[np.arange(n) // questions]
    return from_runs(
        np.column_stack([document, documents + number]).ravel(),
        np.arange(0, 2 * n + 1, 2),
        np.concatenate([common, own]),
        arrival=poisson_arrivals(rate, n, seed),
        input_length=None if block_size == 1 else total[number],
        block_size=block_size,
        **named("documents", parameters),
    )
