"""Routing policies, one a file behind `kvtheory.router.RoutingPolicy`."""

from kvtheory.parameters import parse
from kvtheory.router import RoutingPolicy
from kvtheory.routing.affinity_mw import AffinityMW
from kvtheory.routing.aibrix_prefix import AibrixPrefix
from kvtheory.routing.cache_aware import CacheAware, CacheAwareMinLoad
from kvtheory.routing.cache_aware_spill import CacheAwareSpill
from kvtheory.routing.consistent_hash_bounded import ConsistentHashBounded
from kvtheory.routing.dualmap import DualMap
from kvtheory.routing.dynamo import Dynamo, Dynamo2026
from kvtheory.routing.exp3 import EXP3Router
from kvtheory.routing.exp4 import EXP4Router
from kvtheory.routing.exponential_potential import ExponentialPotential
from kvtheory.routing.fixed_share import FixedShareRouter
from kvtheory.routing.gorgo import Gorgo
from kvtheory.routing.hedge import HedgeRouter
from kvtheory.routing.join_shortest_queue import JoinShortestQueue
from kvtheory.routing.lbgr import LBGR, PublishedLBGR
from kvtheory.routing.least_work_left import LeastWorkLeft
from kvtheory.routing.llm_d import LlmD
from kvtheory.routing.lmetric import LMetric
from kvtheory.routing.max_hit import MaxHit
from kvtheory.routing.power_of_two import PowerOfTwo
from kvtheory.routing.preble_e2 import PrebleE2
from kvtheory.routing.random import RandomWorker
from kvtheory.routing.round_robin import RoundRobin

ROUTERS: dict[str, type[RoutingPolicy]] = {
    kind.name: kind
    for kind in (
        RandomWorker,
        RoundRobin,
        JoinShortestQueue,
        LeastWorkLeft,
        PowerOfTwo,
        ConsistentHashBounded,
        MaxHit,
        CacheAware,
        CacheAwareMinLoad,
        CacheAwareSpill,
        Dynamo,
        Dynamo2026,
        LlmD,
        AibrixPrefix,
        PrebleE2,
        LMetric,
        DualMap,
        Gorgo,
        LBGR,
        PublishedLBGR,
        ExponentialPotential,
        HedgeRouter,
        FixedShareRouter,
        EXP3Router,
        EXP4Router,
        AffinityMW,
    )
}

__all__ = ["ROUTERS", "RoutingPolicy", "router", *(kind.__name__ for kind in ROUTERS.values())]


def router(text: str) -> RoutingPolicy:
    """The router written as ``name`` or ``name:parameter=value,…``.

    Experts are joined by ``+``, one with parameters of its own in brackets:
    ``hedge:eta=0.1,experts=cache_aware+[lbgr:target=latency]``.

    Raises
    ------
    InputError
        For an unknown name or parameter, with the nearest known ones, or a bad value.

    Examples
    --------
    >>> router("lbgr:target=latency").target
    'latency'
    >>> [expert.name for expert in router("hedge:experts=max_hit+[lbgr:tick=0.1,eta=0.2]").experts]
    ['max_hit', 'lbgr']
    """
    return parse(text, ROUTERS, "router")
