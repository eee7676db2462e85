"""MRU: the most recently used leaf unit goes."""

from typing import ClassVar

from kvtheory.cache import NEVER, Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit


class MRU(KeyPolicy):
    """Evict the most recently used leaf unit off the path: good on loops, unbounded otherwise."""

    name: ClassVar[str] = "mru"
    source: ClassVar[str] = "SGLang, LMCache"
    guarantee: ClassVar[str] = "heuristic; no bounded ratio"

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return NEVER - 1 - unit.last
