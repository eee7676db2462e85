"""A stream of random words for use inside a scan, drawn in bulk."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, UInt32

from kvtheory.cache import Scalar, once, read

WORDS = 1024


class RandomWords(NamedTuple):
    """1,024 words of a stream, and the place of the next one."""

    key: Key[Array, ""]
    words: UInt32[Array, " words"]
    place: Scalar
    block: Scalar


def init(key: Key[Array, ""]) -> RandomWords:
    """The start of the stream of ``key``."""
    zero = jnp.zeros((), jnp.int32)
    return RandomWords(key, _block(key, zero), zero, zero)


def _block(key: Key[Array, ""], block: Scalar) -> UInt32[Array, " words"]:
    return jax.random.bits(jax.random.fold_in(key, block), (WORDS,), jnp.uint32)


def below(
    stream: RandomWords, n: Int[Array, ""]
) -> tuple[RandomWords, Scalar, Int[Array, ""]]:
    """Next stream, a number uniform in 0 … n − 1, and whether it counts (0 or 1).

    Lemire's method: the number is the high half of word·n, and a word that would make some
    numbers likelier than others (probability below n/2³²) does not count. Then draw again.
    """
    word, words = read(stream.words, stream.place)
    number, low = _product(word, n.astype(jnp.uint32))
    fair = low >= (-n).astype(jnp.uint32) % jnp.maximum(n, 1).astype(jnp.uint32)
    place = stream.place + 1
    place, block, words = once(
        place == stream.words.shape[0],
        lambda s: (jnp.zeros((), jnp.int32), s[1] + 1, _block(stream.key, s[1] + 1)),
        (place, stream.block, words),
    )
    return (
        RandomWords(stream.key, words, place, block),
        number.astype(jnp.int32),
        fair.astype(jnp.int32),
    )


def _product(a: UInt32[Array, ""], b: UInt32[Array, ""]) -> tuple[Array, Array]:
    # high and low 32 bits of a·b, in 32-bit arithmetic
    half = jnp.uint32(0xFFFF)
    a1, a0, b1, b0 = a >> 16, a & half, b >> 16, b & half
    low = a0 * b0
    mid = a1 * b0 + (low >> 16)
    rest = a0 * b1 + (mid & half)
    return a1 * b1 + (mid >> 16) + (rest >> 16), a * b
