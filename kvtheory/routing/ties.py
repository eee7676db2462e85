"""Choosing among workers with equal values."""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from kvtheory.cache import Scalar


def least(values: Array, among: Bool[Array, " workers"] | None = None) -> Bool[Array, " workers"]:
    """The workers with the smallest value among some, or among all."""
    if among is None:
        return values == values.min()
    top = jnp.inf if jnp.issubdtype(values.dtype, jnp.floating) else jnp.iinfo(values.dtype).max
    return among & (values == jnp.where(among, values, top).min())


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
