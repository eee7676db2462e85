"""Choosing among workers with equal values, and comparing shares."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from kvtheory.cache import Scalar
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords

# Shares such as h/L > 0.3 are meant for the decimal that was written: with it a tie is a multiple
# of the last decimal away from anything else, so a margin far below that decides it as meant.
MARGIN = 1e-9


def exceeds(value: Array, share: Array | float, of: Array) -> Bool[Array, "..."]:
    """``value > share·of``, for a ``share`` of a few decimals and whole ``value`` and ``of``."""
    return value - share * of > MARGIN * of


def least(values: Array, among: Bool[Array, " workers"] | None = None) -> Bool[Array, " workers"]:
    """The workers with the smallest value among some, or among all."""
    if among is None:
        return values == values.min()
    top = jnp.inf if jnp.issubdtype(values.dtype, jnp.floating) else jnp.iinfo(values.dtype).max
    return among & (values == jnp.where(among, values, top).min())


def near_least(
    values: Float[Array, " workers"], among: Bool[Array, " workers"] | None = None
) -> Bool[Array, " workers"]:
    """The workers whose value is the smallest up to rounding."""
    if among is not None:
        values = jnp.where(among, values, jnp.inf)
    smallest = values.min()
    return values <= smallest + MARGIN * jnp.abs(smallest)


def first(among: Bool[Array, " workers"]) -> Scalar:
    """The lowest index."""
    return jnp.argmax(among).astype(jnp.int32)


def first_least(*values: Array) -> Scalar:
    """The worker with the smallest values, compared in this order; then the lowest index."""
    among = None
    for value in values:
        among = least(value, among)
    assert among is not None
    return first(among)


def uniform(stream: RandomWords, among: Bool[Array, " workers"]) -> tuple[RandomWords, Scalar]:
    """Next stream, and one of the workers, all being as likely."""
    stream, k = random_words.uniform(stream, among.sum(dtype=jnp.int32))
    rank = jnp.cumsum(among, dtype=jnp.int32)
    return stream, first(among & (rank == k + 1))


def by_weight(stream: RandomWords, weights: Float[Array, " n"]) -> tuple[RandomWords, Scalar]:
    """Next stream, and an index with probability in proportion to its weight, up to 2⁻³²."""
    stream, word = random_words.word(stream)
    sums = jnp.cumsum(weights)
    point = (word.astype(float) + 0.5) / 2.0**32 * sums[-1]
    return stream, ((sums <= point) & (sums < sums[-1])).sum(dtype=jnp.int32)
