"""The smallest key among many that change one at a time: minima of blocks of about √n keys."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from kvtheory.cache import NEVER, Scalar, write


class Smallest(NamedTuple):
    """Pairs (key, tie), compared in that order, of all workers; and the least pair of each block.

    A slot without an entry holds the largest pair. Ties must differ between entries.
    """

    key: Int[Array, " workers*slots"]
    tie: Int[Array, " workers*slots"]
    block_key: Int[Array, " workers*blocks"]
    block_tie: Int[Array, " workers*blocks"]


def init(slots: int, workers: int) -> Smallest:
    """No entries; ``slots`` a power of two."""
    blocks = 1 << (slots.bit_length() // 2)
    none = jnp.full(workers * slots, NEVER, jnp.int32)
    block = jnp.full(workers * blocks, NEVER, jnp.int32)
    return Smallest(none, none, block, block)


def put(of: Smallest, at: Scalar, key: Int[Array, ""], tie: Int[Array, ""]) -> Smallest:
    """Set the entry of slot ``at`` (of all workers); NEVER as key and tie removes it.

    Cost: O(√slots), vectorised.
    """
    size = of.key.shape[0] // of.block_key.shape[0]
    block = at // size
    here = jnp.arange(size, dtype=jnp.int32) == at % size
    block_key, block_tie = _least(
        jnp.where(here, key, lax.dynamic_slice(of.key, (block * size,), (size,))),
        jnp.where(here, tie, lax.dynamic_slice(of.tie, (block * size,), (size,))),
    )
    block_key, block_tie, of = lax.optimization_barrier((block_key, block_tie, of))
    return Smallest(
        write(of.key, at, key),
        write(of.tie, at, tie),
        write(of.block_key, block, block_key),
        write(of.block_tie, block, block_tie),
    )


def least(of: Smallest, workers: int, worker: Scalar) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The smallest pair of a worker (NEVER, NEVER if it has none)."""
    blocks = of.block_key.shape[0] // workers
    return _least(
        lax.dynamic_slice(of.block_key, (worker * blocks,), (blocks,)),
        lax.dynamic_slice(of.block_tie, (worker * blocks,), (blocks,)),
    )


def _least(key: Int[Array, " n"], tie: Int[Array, " n"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    # halving keeps the comparison in vector registers, where a reduction of pairs would not be
    while key.shape[0] > 16:
        half = key.shape[0] // 2
        a, b, s, t = key[:half], key[half:], tie[:half], tie[half:]
        first = (a < b) | ((a == b) & (s < t))
        key, tie = jnp.where(first, a, b), jnp.where(first, s, t)
    best = key.min()
    return best, jnp.where(key == best, tie, NEVER).min()
