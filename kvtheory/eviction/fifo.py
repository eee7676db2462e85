"""FIFO: the leaf unit that was loaded first goes."""

from typing import ClassVar

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit


class FIFO(KeyPolicy):
    """Evict the leaf unit with the oldest load; hits change nothing."""

    name: ClassVar[str] = "fifo"
    source: ClassVar[str] = "Sleator and Tarjan 1985; SGLang"
    guarantee: ClassVar[str] = "B-competitive on single units; heuristic on trees"
    remembers_load: ClassVar[bool] = True

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return unit.loaded
