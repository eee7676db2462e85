"""The only cached child of an edge, in one word: the exclusive or of all its cached children."""

import jax.numpy as jnp
from jaxtyping import Array, Int

from kvtheory.cache import Scalar, read, write


def init(slots: int) -> Int[Array, " slots"]:
    """No cached children."""
    return jnp.zeros(slots, jnp.int32)


def toggle(child: Int[Array, " slots"], parent: Scalar, edge: Scalar) -> Int[Array, " slots"]:
    """A child of ``parent`` has come or gone; ``edge`` 0 changes nothing.

    Edge 0 lies at the root, so it is never the child of an edge.
    """
    old, child = read(child, parent)
    return write(child, parent, old ^ edge)
