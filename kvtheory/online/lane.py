"""The random stream of one lane of a driver."""

import jax
from jaxtyping import Array, Key

from kvtheory.errors import bad
from kvtheory.simulate import check_key


def lane_key(key: Key[Array, ""] | None, seed: int) -> Key[Array, ""]:
    """The key of lane ``seed`` of a driver that was given ``key``."""
    if isinstance(seed, bool) or not 0 <= seed < 2**31:
        raise bad("seed", seed, "must be a whole number of at least 0 that fits 31 bits")
    return jax.random.fold_in(check_key(jax.random.key(0) if key is None else key), seed)
