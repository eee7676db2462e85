"""The online algorithms that the exact engine knows, by name."""

from kvtheory.parameters import parse
from kvtheory.ratio.exact_engine.beliefs import Beliefs
from kvtheory.ratio.exact_engine.in_order import FIFO, LFU, LLRU, MRU, SLRU
from kvtheory.ratio.exact_engine.layered import LRLT, Layered
from kvtheory.ratio.exact_engine.no_finite_belief import RandomLeaf
from kvtheory.ratio.exact_engine.rlt import RLT

MODELS: dict[str, type[Beliefs]] = {
    kind.name: kind for kind in (LLRU, FIFO, MRU, LFU, SLRU, RLT, LRLT, Layered, RandomLeaf)
}


def beliefs(text: str) -> Beliefs:
    """The algorithm written as ``name`` or ``name:parameter=value,…``.

    Raises
    ------
    InputError
        For an unknown name or parameter, with the nearest known ones, or a bad value.

    Examples
    --------
    >>> beliefs("lrlt:stem=true")
    LRLT(stem=True)
    """
    return parse(text, MODELS, "policy of the exact engine")
