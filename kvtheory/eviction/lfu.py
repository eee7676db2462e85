"""LFU: the leaf unit contained in the fewest queries since it was loaded goes."""

from typing import ClassVar

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit


class LFU(KeyPolicy):
    """Evict the leaf unit with the smallest count; the count is lost when the unit goes.

    Every query that contains the unit counts, the one that loads it included.
    """

    name: ClassVar[str] = "lfu"
    source: ClassVar[str] = "SGLang, LMCache"
    guarantee: ClassVar[str] = "heuristic; no constant ratio"
    remembers_load: ClassVar[bool] = True

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return unit.count
