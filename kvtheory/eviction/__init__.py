"""Eviction policies, one a file behind `kvtheory.cache.EvictionPolicy`."""

from kvtheory.cache import EvictionPolicy
from kvtheory.eviction.belady import Belady
from kvtheory.eviction.cost_per_unit import CostPerUnit
from kvtheory.eviction.duel import Duel
from kvtheory.eviction.fifo import FIFO
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit
from kvtheory.eviction.layered import LRLT, Layered
from kvtheory.eviction.lfu import LFU
from kvtheory.eviction.llru import LeafLRU
from kvtheory.eviction.marking import Marking, perturbed_next_uses
from kvtheory.eviction.mru import MRU
from kvtheory.eviction.node_lru import NodeLRU
from kvtheory.eviction.random_leaf import RandomLeaf
from kvtheory.eviction.replay import Replay
from kvtheory.eviction.rlt import RLT
from kvtheory.eviction.slru import SLRU
from kvtheory.eviction.tail_lru import TailLRU
from kvtheory.parameters import parse

POLICIES: dict[str, type[EvictionPolicy]] = {
    kind.name: kind
    for kind in (
        LeafLRU,
        RLT,
        LRLT,
        Layered,
        Duel,
        RandomLeaf,
        FIFO,
        LFU,
        MRU,
        SLRU,
        CostPerUnit,
        TailLRU,
        NodeLRU,
        Marking,
        Belady,
    )
}

__all__ = [
    "FIFO",
    "LFU",
    "LRLT",
    "MRU",
    "POLICIES",
    "RLT",
    "SLRU",
    "Belady",
    "CostPerUnit",
    "Duel",
    "EvictionPolicy",
    "KeyPolicy",
    "Layered",
    "LeafLRU",
    "LeafUnit",
    "Marking",
    "NodeLRU",
    "RandomLeaf",
    "Replay",
    "TailLRU",
    "perturbed_next_uses",
    "policy",
]


def policy(text: str) -> EvictionPolicy:
    """The policy written as ``name`` or ``name:parameter=value,…``.

    Raises
    ------
    InputError
        For an unknown name or parameter, with the nearest known ones, or a bad value.

    Examples
    --------
    >>> policy("rlt:phase=query")
    RLT(phase='query')
    >>> policy("tail_lru:xi=8").xi
    8
    """
    return parse(text, POLICIES, "eviction policy")
