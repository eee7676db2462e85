"""The smallest key among many that change one at a time: a wide, flat tournament.

Keys stand in groups of at most 128, the winners of the groups again in groups, and so on up to one
group for each worker. A change renews one group a level, in vector registers.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from kvtheory.cache import NEVER, Scalar, write

GROUP_BITS = 7


class Smallest(NamedTuple):
    """Pairs (key, tie), compared in that order, at each level from the entries to the top group.

    A slot without an entry holds the largest pair. Ties must differ between entries.
    """

    key: tuple[Int[Array, " workers*slots"], ...]
    tie: tuple[Int[Array, " workers*slots"], ...]


def init(slots: int, workers: int) -> Smallest:
    """No entries; ``slots`` a power of two."""
    bits = slots.bit_length() - 1
    levels = -(-bits // GROUP_BITS)
    # the bits of a slot are shared out evenly over the levels, rounded down from the bottom up
    sizes = [slots >> (bits * level // levels) for level in range(levels)]
    none = tuple(jnp.full(workers * size, NEVER, jnp.int32) for size in sizes)
    return Smallest(none, none)


def put(of: Smallest, at: Scalar, key: Int[Array, ""], tie: Int[Array, ""]) -> Smallest:
    """Set the entry of slot ``at`` (of all workers); NEVER as key and tie removes it."""
    keys, ties = [], []
    slots = [level.shape[0] for level in of.key]
    for level, size in enumerate(slots):
        old_key, old_tie = of.key[level], of.tie[level]
        if level + 1 == len(slots):
            keys.append(write(old_key, at, key))
            ties.append(write(old_tie, at, tie))
            break
        group = size // slots[level + 1]
        first = at // group * group
        here = jnp.arange(group, dtype=jnp.int32) == at % group
        best = _least(
            jnp.where(here, key, lax.dynamic_slice(old_key, (first,), (group,))),
            jnp.where(here, tie, lax.dynamic_slice(old_tie, (first,), (group,))),
        )
        best, old_key, old_tie = lax.optimization_barrier((best, old_key, old_tie))
        keys.append(write(old_key, at, key))
        ties.append(write(old_tie, at, tie))
        key, tie = best
        at = at // group
    return Smallest(tuple(keys), tuple(ties))


def remove(of: Smallest, at: Scalar) -> Smallest:
    """Clear slot ``at`` (of all workers)."""
    return put(of, at, jnp.int32(NEVER), jnp.int32(NEVER))


def least(of: Smallest, workers: int, worker: Scalar) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The smallest pair of a worker (NEVER, NEVER if it has none)."""
    group = of.key[-1].shape[0] // workers
    first = worker * group
    return _least(
        lax.dynamic_slice(of.key[-1], (first,), (group,)),
        lax.dynamic_slice(of.tie[-1], (first,), (group,)),
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
