"""Shared prefixes on four workers at 12 queries/s: the figures of an independent simulator."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from kvtheory.cluster import Cluster
from kvtheory.eviction import policy
from kvtheory.instances import shared_prefix
from kvtheory.instances.runs import poisson_arrivals
from kvtheory.routing import router
from kvtheory.simulate_cluster import simulate_cluster

BLOCK, WORKERS, RATE = 16, 4, 12.0
TREE = 2**24 // BLOCK
GSP = shared_prefix(block_size=BLOCK, rate=RATE)
CLUSTER = Cluster(np.full(WORKERS, 192_000 // BLOCK), block_size=BLOCK, alpha_miss=0.16e-3 * BLOCK)
# sglang-router and the paper's keep trees of 2^24 tokens per worker
OWN_TREES = {
    name: {"view_capacity": TREE} for name in ("cache_aware", "cache_aware_spill", "lbgr_published")
}
SLOW_FIRST = replace(CLUSTER, speed=np.array([0.25, 1.0, 1.0, 1.0]))


class Measured(NamedTuple):
    """One number per seed: unit hit rate, and seconds."""

    hit_rate: np.ndarray
    p50: np.ndarray
    p95: np.ndarray
    makespan: np.ndarray


@cache
def measured(
    router_text: str, eviction: str, seeds: int = 8, rate: float = RATE, **given: Any
) -> Measured:
    """Lane s has arrivals of seed s; the sequence of queries is the same."""
    name = router_text.partition(":")[0]
    rows = []
    for seed in range(seeds):
        result = simulate_cluster(
            replace(GSP, arrival=poisson_arrivals(rate, GSP.requests, seed)),
            given.get("cluster", CLUSTER),
            router(router_text),
            policy(eviction),
            key=jax.random.key(seed),
            view=given.get("view", "routed"),
            believed=given.get("believed"),
            **OWN_TREES.get(name, {}),
        )
        latency = np.percentile(result.latency[0], [50, 95])
        rows.append([result.cached.hit_rate_units[0], *latency, result.makespan[0]])
    return Measured(*np.array(rows).T)


TABLE = [  # router, view: hit rate, P50, P95, makespan with L-LRU; then with RLT
    ("random", "routed", (0.201, 36.7, 79, 434), (0.230, 29.5, 65, 417)),
    ("least_work_left", "routed", (0.201, 38.7, 66, 410), (0.229, 31.1, 52, 396)),
    ("cache_aware", "routed", (0.201, 38.9, 67, 413), (0.226, 33.0, 54, 399)),
    ("cache_aware_spill", "routed", (0.462, 0.97, 5.2, 300), (0.470, 0.87, 4.6, 294)),
    ("max_hit", "routed", (0.462, 0.81, 3.9, 290), (0.461, 0.83, 3.9, 290)),
    ("lbgr", "routed", (0.391, 0.90, 5.0, 313), (0.383, 1.01, 5.0, 320)),
    ("lbgr", "oracle", (0.391, 0.90, 5.0, 313), (0.402, 0.75, 4.9, 308)),
    ("lbgr:target=latency", "routed", (0.225, 42.5, 207, 551), (0.251, 40.7, 199, 538)),
    ("lbgr_published", "routed", (0.345, 2.2, 8.1, 339), (0.367, 1.2, 5.3, 328)),
    ("exponential_potential", "routed", (0.462, 0.92, 3.9, 280), (0.460, 0.93, 3.9, 281)),
    ("dynamo", "routed", (0.302, 14.1, 19, 358), (0.309, 11.9, 16, 355)),
    ("llm_d", "routed", (0.317, 9.2, 14, 352), (0.323, 8.1, 13, 348)),
    ("dualmap", "routed", (0.463, 0.84, 3.8, 284), (0.464, 0.83, 3.8, 284)),
]

QUICK = ("lbgr",)
FLOOR = Measured(0.005, 0.05, 0.05, 0.01)  # of the hit rate; of the times, relative


def agrees(found: Measured, published: tuple[float, ...]) -> bool:
    """Whether figures of other seeds lie in the range of ours, widened by half of it."""
    for name, values, other, floor in zip(Measured._fields, found, published, FLOOR, strict=True):
        scale = 1.0 if name == "hit_rate" else other
        margin = max((values.max() - values.min()) / 2, floor * scale)
        if not values.min() - margin <= other <= values.max() + margin:
            return False
    return True


@pytest.mark.parametrize(
    ("name", "view", "llru", "rlt"),
    [
        pytest.param(
            *row, marks=[] if row[:2] in [(q, "routed") for q in QUICK] else [pytest.mark.slow]
        )
        for row in TABLE
    ],
)
def test_the_table_of_an_independent_simulator(
    name: str, view: str, llru: tuple[float, ...], rlt: tuple[float, ...]
) -> None:
    assert agrees(measured(name, "llru", view=view), llru)
    assert agrees(measured(name, "rlt", view=view), rlt)


@pytest.mark.parametrize(
    ("one", "like"),
    [
        ("lbgr", {"lbgr"}),
        pytest.param(
            "cache_aware", {"cache_aware", "random", "least_work_left"}, marks=pytest.mark.slow
        ),
        pytest.param(
            "exponential_potential",
            {"exponential_potential", "max_hit", "cache_aware_spill", "dualmap"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rows_of_other_routers_do_not_agree(one: str, like: set[str]) -> None:
    for other, _, row, _ in TABLE:
        if other not in like:
            assert not agrees(measured(one, "llru", view="routed"), row), other


def test_lbgr_with_rlt_hits_more_and_is_faster_than_cache_aware_with_lru() -> None:
    ours, baseline = (
        measured("lbgr", "rlt", view="routed"),
        measured("cache_aware", "llru", view="routed"),
    )
    assert (ours.hit_rate >= 1.5 * baseline.hit_rate).all()
    assert (5 * ours.p50 <= baseline.p50).all()


def test_rlt_hits_more_than_leaf_lru_under_cache_aware_routing_in_every_seed() -> None:
    lru, rlt = (measured("cache_aware", e, view="routed").hit_rate for e in ("llru", "rlt"))
    assert (rlt > lru).all()


def test_learning_the_latency_collapses_and_learning_the_service_does_not() -> None:
    service = measured("lbgr", "llru", view="routed")
    latency = measured("lbgr:target=latency", "llru", view="routed")
    assert (latency.p50 > 15).all()
    assert (service.p50 < 2).all()
    assert (latency.hit_rate < 0.65 * service.hit_rate).all()


def test_routers_that_beat_lbgr_in_hit_rate_and_makespan() -> None:
    lbgr, better = (
        measured(name, "llru", view="routed") for name in ("lbgr", "exponential_potential")
    )
    assert (better.hit_rate > lbgr.hit_rate).all()
    assert (better.makespan < lbgr.makespan).all()


@pytest.mark.parametrize("rate", [8.0, 10.0])
def test_an_unknown_slow_worker_is_learned(rate: float) -> None:
    learning, believing = (
        measured(name, "llru", rate=rate, cluster=SLOW_FIRST, believed=CLUSTER)
        for name in ("lbgr", "lbgr:learner=none")
    )
    assert (10 * learning.p95 <= believing.p95).all()


@pytest.mark.slow
def test_one_slow_worker_that_is_known() -> None:
    even, *others = (
        measured(name, "llru", seeds=16, cluster=SLOW_FIRST)
        for name in ("round_robin", "lbgr", "exponential_potential")
    )
    for other in others:
        assert (2 * other.makespan <= even.makespan).all()
