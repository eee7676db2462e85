"""Segmented LRU: leaf units that were used only once go before all others."""

from typing import ClassVar

import jax.numpy as jnp

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit


class SLRU(KeyPolicy):
    """Evict units of count 1 first and units of count >= 2 after all others, each in LRU order.

    The query that loads a unit counts as its first use. A scan of units asked for once passes
    without displacing those in use.
    """

    name: ClassVar[str] = "slru"
    source: ClassVar[str] = "Karedla, Love, Wherry 1994; SGLang"
    remembers_load: ClassVar[bool] = True

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return (unit.count >= 2).astype(jnp.int32)
