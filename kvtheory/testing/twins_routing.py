"""The slow routers by name: ``ROUTERS[name](workers, draws=..., **parameters)``.

Those of ``ADVISED`` also need ``experts``, fresh routers for as many workers. Nothing here shares
code with the fast routers: they are what those are compared with, decision by decision.
"""

from collections.abc import Callable

from kvtheory.testing.twin_router import RouterTwin
from kvtheory.testing.twins_routing_deployed import (
    AibrixPrefix,
    CacheAware,
    CacheAwareMinLoad,
    CacheAwareSpill,
    Dynamo,
    Dynamo2026,
    LlmD,
)
from kvtheory.testing.twins_routing_lbgr import LBGR, PublishedLBGR
from kvtheory.testing.twins_routing_load import (
    ConsistentHashBounded,
    JoinShortestQueue,
    LeastWorkLeft,
    MaxHit,
    PowerOfTwo,
    RandomWorker,
    RoundRobin,
)
from kvtheory.testing.twins_routing_papers import DualMap, Gorgo, LMetric, PrebleE2
from kvtheory.testing.twins_routing_potential import ExponentialPotential
from kvtheory.testing.twins_routing_weights import (
    AffinityMW,
    EXP3Router,
    EXP4Router,
    FixedShareRouter,
    HedgeRouter,
)

PLAIN: dict[str, Callable[..., RouterTwin]] = {
    "affinity_mw": AffinityMW,
    "aibrix_prefix": AibrixPrefix,
    "cache_aware": CacheAware,
    "cache_aware_min_load": CacheAwareMinLoad,
    "cache_aware_spill": CacheAwareSpill,
    "consistent_hash_bounded": ConsistentHashBounded,
    "dualmap": DualMap,
    "dynamo": Dynamo,
    "dynamo_2026": Dynamo2026,
    "exponential_potential": ExponentialPotential,
    "gorgo": Gorgo,
    "join_shortest_queue": JoinShortestQueue,
    "lbgr": LBGR,
    "lbgr.published": PublishedLBGR,
    "least_work_left": LeastWorkLeft,
    "llm_d": LlmD,
    "lmetric": LMetric,
    "max_hit": MaxHit,
    "power_of_two": PowerOfTwo,
    "preble_e2": PrebleE2,
    "random": RandomWorker,
    "round_robin": RoundRobin,
}

ADVISED: dict[str, Callable[..., RouterTwin]] = {
    "exp3": EXP3Router,
    "exp4": EXP4Router,
    "fixed_share": FixedShareRouter,
    "hedge": HedgeRouter,
}

ROUTERS: dict[str, Callable[..., RouterTwin]] = PLAIN | ADVISED
