"""A stream of random words for use inside a scan.

JAX's own generator is made for drawing in bulk: one word at a time it costs as much as ten
evictions, and a buffer that is refilled costs a loop at every draw. So a JAX key seeds
xoroshiro64**, whose state is two words; lanes have keys of their own and so streams of their own.

References
----------
Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47 (2021).
Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Key, UInt32

from kvtheory.cache import Scalar

Word = UInt32[Array, ""]


class RandomWords(NamedTuple):
    """State of xoroshiro64**, never both zero."""

    a: Word
    b: Word


def init(key: Key[Array, ""]) -> RandomWords:
    """The start of the stream of ``key``."""
    a, b = jax.random.bits(key, (2,), jnp.uint32)
    return RandomWords(a, jnp.where((a | b) == 0, jnp.uint32(1), b))


def word(stream: RandomWords) -> tuple[RandomWords, Word]:
    """Next stream, and 32 random bits."""
    a, b = stream
    out = _rotate(a * jnp.uint32(0x9E3779BB), 5) * jnp.uint32(5)
    b = b ^ a
    return RandomWords(_rotate(a, 26) ^ b ^ (b << 9), _rotate(b, 13)), out


def _rotate(x: Word, by: int) -> Word:
    return (x << by) | (x >> (32 - by))


def below(stream: RandomWords, n: Int[Array, ""]) -> tuple[RandomWords, Scalar, Scalar]:
    """Next stream, a number uniform in 0 … n − 1, and whether the draw counts (1 or 0).

    Lemire's method: the number is the high half of word·n. Some numbers would be likelier than
    others, so a draw whose low half is below 2³² mod n does not count and has to be made again
    (probability below n/2³²).
    """
    stream, random = word(stream)
    size = n.astype(jnp.uint32)
    number, low = _product(random, size)
    counts = low >= (jnp.uint32(0) - size) % jnp.maximum(size, 1)
    return stream, number.astype(jnp.int32), counts.astype(jnp.int32)


def uniform(stream: RandomWords, n: int | Int[Array, ""]) -> tuple[RandomWords, Scalar]:
    """Next stream, and a number uniform in 0 … n − 1, drawn until it counts."""
    size = jnp.asarray(n, jnp.int32)
    stream, number, _ = lax.while_loop(
        lambda carry: carry[2] == 0, lambda carry: below(carry[0], size), below(stream, size)
    )
    return stream, number


def _product(a: Word, b: Word) -> tuple[Word, Word]:
    # high and low 32 bits of a·b, in 32-bit arithmetic
    half = jnp.uint32(0xFFFF)
    a1, a0, b1, b0 = a >> 16, a & half, b >> 16, b & half
    low = a0 * b0
    mid = a1 * b0 + (low >> 16)
    rest = a0 * b1 + (mid & half)
    return a1 * b1 + (mid >> 16) + (rest >> 16), a * b
