"""Eviction policies, one a file behind `kvtheory.cache.EvictionPolicy`."""

from kvtheory.cache import EvictionPolicy
from kvtheory.errors import bad, unknown
from kvtheory.eviction.belady import Belady
from kvtheory.eviction.cost_per_unit import CostPerUnit
from kvtheory.eviction.fifo import FIFO
from kvtheory.eviction.lfu import LFU
from kvtheory.eviction.llru import LeafLRU
from kvtheory.eviction.mru import MRU
from kvtheory.eviction.node_lru import NodeLRU
from kvtheory.eviction.random_leaf import RandomLeaf
from kvtheory.eviction.rlt import RLT
from kvtheory.eviction.slru import SLRU
from kvtheory.eviction.tail_lru import TailLRU

POLICIES: dict[str, type[EvictionPolicy]] = {
    policy.name: policy
    for policy in (
        LeafLRU,
        RLT,
        RandomLeaf,
        FIFO,
        LFU,
        MRU,
        SLRU,
        CostPerUnit,
        TailLRU,
        NodeLRU,
        Belady,
    )
}
