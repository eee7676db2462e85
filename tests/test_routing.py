"""Jitted routers and the cluster driver against their slow twins, query by query."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from kvtheory.cache import tape_of
from kvtheory.cluster import Cluster
from kvtheory.cluster_result import ClusterResult
from kvtheory.errors import InputError
from kvtheory.eviction import POLICIES, LeafLRU, policy
from kvtheory.instance import Instance
from kvtheory.parameters import label
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing import (
    LBGR,
    ROUTERS,
    AffinityMW,
    AibrixPrefix,
    CacheAware,
    CacheAwareMinLoad,
    CacheAwareSpill,
    ConsistentHashBounded,
    DualMap,
    Dynamo,
    Dynamo2026,
    EXP3Router,
    EXP4Router,
    ExponentialPotential,
    FixedShareRouter,
    Gorgo,
    HedgeRouter,
    JoinShortestQueue,
    LeastWorkLeft,
    LlmD,
    LMetric,
    MaxHit,
    PowerOfTwo,
    PrebleE2,
    PublishedLBGR,
    RandomWorker,
    RoundRobin,
    router,
)
from kvtheory.routing.ties import first
from kvtheory.simulate import simulate
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.testing import twins_routing_lbgr
from kvtheory.testing.small_clusters import (
    VIEWS,
    ClusterCase,
    Unlike,
    followed,
    random_clusters,
)
from kvtheory.testing.twins_routing import ADVISED, PLAIN

LLRU = LeafLRU()
TIMES = ("start", "first_token", "end")

# Small thresholds and windows, so that 16 queries meet them. Those that count the blocks in flight
# themselves are compared on fresh counts only: a stale view is one of the twin's blocks too.
EXPERTS = (MaxHit(), LeastWorkLeft())
NAMES = {"experts": ("max_hit", "least_work_left")}
COMPARED: list[tuple[RoutingPolicy, dict[str, Any], str, str]] = [
    (RandomWorker(), {}, "oracle", "own_dispatches"),
    (RoundRobin(), {}, "stale", "routed"),
    (JoinShortestQueue(), {}, "own_dispatches", "oracle"),
    (LeastWorkLeft(), {}, "routed", "own_dispatches"),
    (LeastWorkLeft("true"), {"work": "true"}, "oracle", "stale"),
    (PowerOfTwo(), {}, "oracle", "own_dispatches"),
    (ConsistentHashBounded(prefix=2), {"prefix": 2}, "routed", "stale"),
    (MaxHit(), {}, "oracle", "routed"),
    (CacheAware(abs_gap=1.0, rel=1.5), {"abs_gap": 1, "rel": 1.5}, "routed", "stale"),
    (
        CacheAwareMinLoad(threshold=0.3, abs_gap=2.0),
        {"threshold": 0.3, "abs_gap": 2},
        "own_dispatches",
        "routed",
    ),
    (CacheAwareSpill(abs_gap=1.0, rel=1.2), {"abs_gap": 1, "rel": 1.2}, "routed", "oracle"),
    (Dynamo(), {}, "oracle", "routed"),
    (Dynamo(temperature=0.5), {"temperature": 0.5}, "routed", "oracle"),
    (Dynamo2026(delta=0.5), {"delta": 0.5}, "oracle", "routed"),
    (LlmD(), {}, "routed", "oracle"),
    (AibrixPrefix(gap=2.0), {"gap": 2}, "stale", "oracle"),
    (PrebleE2(window=4.0), {"window": 4.0}, "routed", "stale"),
    (LMetric(), {}, "own_dispatches", "oracle"),
    (
        DualMap(budget=4, prefix=2, window=4),
        {"budget": 4, "prefix": 2, "window": 4},
        "oracle",
        "own_dispatches",
    ),
    (Gorgo(seconds_per_token=0.1), {"seconds_per_token": 0.1}, "routed", "own_dispatches"),
    (LBGR(), {}, "routed", "stale"),
    (LBGR(target="latency"), {"target": "latency"}, "oracle", "routed"),
    (LBGR(learner="gradient"), {"learner": "gradient"}, "stale", "oracle"),
    (LBGR(learner="none"), {"learner": "none"}, "own_dispatches", "oracle"),
    (PublishedLBGR(ms_per_token=40.0), {"ms_per_token": 40.0}, "routed", "oracle"),
    (ExponentialPotential(), {}, "routed", "stale"),
    (ExponentialPotential("live"), {"load": "live"}, "oracle", "own_dispatches"),
    (HedgeRouter(EXPERTS), NAMES, "oracle", "routed"),
    (FixedShareRouter(EXPERTS, eta=2.0), NAMES | {"eta": 2.0}, "routed", "stale"),
    (EXP3Router(EXPERTS), NAMES, "own_dispatches", "oracle"),
    (EXP4Router(EXPERTS), NAMES, "routed", "own_dispatches"),
    (AffinityMW(), {}, "oracle", "stale"),
]


SLOW = PLAIN | ADVISED | {PublishedLBGR.name: twins_routing_lbgr.PublishedLBGR}
COUNT_BLOCKS = ("dynamo", "dynamo_2026", "llm_d")


def run(policy: RoutingPolicy, case: ClusterCase, view: str, **more: Any) -> ClusterResult:
    parameters = VIEWS[view] | more
    return simulate_cluster(
        case.instance, case.cluster, policy, LLRU, believed=case.believed, **parameters
    )


def slow(policy: RoutingPolicy, workers: int, parameters: dict[str, Any]) -> Callable[[], Any]:
    def make() -> Any:
        experts = {
            key: [SLOW[name](workers) for name in names]
            for key, names in parameters.items()
            if key == "experts"
        }
        return SLOW[policy.name](workers, **parameters | experts)

    return make


def compare(
    policy: RoutingPolicy, parameters: dict[str, Any], case: ClusterCase, view: str
) -> None:
    """Every decision is one that the twin could make, and then all times and hits agree."""
    result = run(policy, case, view)
    workers = result.worker[0].tolist()
    twin = slow(policy, case.cluster.workers, parameters)
    log, _ = followed(twin, workers, case, VIEWS[view])
    assert result.hits[0].tolist() == [s.hits for s in log], str(case)
    assert result.believed[0].tolist() == [s.believed for s in log], str(case)
    for field in TIMES:
        assert getattr(result, field)[0].tolist() == [getattr(s, field) for s in log], str(case)


def named(value: object) -> str | None:
    return str(value).replace(" ", "") if isinstance(value, RoutingPolicy) else None


def test_every_router_is_compared() -> None:
    assert {policy.name for policy, *_ in COMPARED} == set(ROUTERS)
    assert all(a != b for _, _, a, b in COMPARED)


# one of each router; their variants in the full run
ONE_OF_EACH = [
    pytest.param(*row, marks=[] if i == names.index(row[0].name) else [pytest.mark.slow])
    for names in [[row[0].name for row in COMPARED]]
    for i, row in enumerate(COMPARED)
]


@pytest.mark.parametrize(("policy", "parameters", "three", "two"), ONE_OF_EACH, ids=named)
def test_a_router_decides_as_its_twin(
    policy: RoutingPolicy, parameters: dict[str, Any], three: str, two: str
) -> None:
    for case in random_clusters(40, 1, workers=3, free=policy.name != "lbgr"):
        compare(policy, parameters, case, three)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "parameters", "three", "two"), COMPARED, ids=named)
def test_one_of_two_workers_as_the_twin(
    policy: RoutingPolicy, parameters: dict[str, Any], three: str, two: str
) -> None:
    for case in random_clusters(25, 2, workers=2, free=policy.name != "lbgr"):
        compare(policy, parameters, case, two)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "parameters", "three", "two"), COMPARED, ids=named)
def test_a_router_decides_as_its_twin_in_every_view(
    policy: RoutingPolicy, parameters: dict[str, Any], three: str, two: str
) -> None:
    for workers in (1, 3):
        for view in VIEWS if policy.name not in COUNT_BLOCKS else ("oracle", "routed"):
            for case in random_clusters(60, 3, workers, free=policy.name != "lbgr"):
                compare(policy, parameters, case, view)


class LastShortestQueue(JoinShortestQueue):
    """A mutant: ties to the last worker, not to the smallest total."""

    def propose(self, state: tuple[()], tape: Any, seen: Seen) -> tuple[tuple[()], Any]:
        least = seen.in_flight == seen.in_flight.min()
        return state, seen.workers - 1 - first(least[::-1])


class EagerMaxHit(MaxHit):
    """A mutant: more queries in flight break ties."""

    def propose(self, state: tuple[()], tape: Any, seen: Seen) -> tuple[tuple[()], Any]:
        return state, jnp.lexsort((-seen.in_flight, -seen.hits))[0].astype(jnp.int32)


class ForgetfulPotential(ExponentialPotential):
    """A mutant: the load is never released."""

    def complete(self, state: Any, tape: Any, event: Any) -> Any:
        return state


@pytest.mark.parametrize(
    ("mutant", "parameters"),
    [
        (LastShortestQueue(), {}),
        (EagerMaxHit(), {}),
        (ForgetfulPotential("live"), {"load": "live"}),
    ],
    ids=named,
)
def test_the_comparison_rejects_mutants(mutant: RoutingPolicy, parameters: dict[str, Any]) -> None:
    cases = random_clusters(40, 1, workers=3)
    with pytest.raises(Unlike, match="by the twin to"):
        any(compare(mutant, parameters, case, "oracle") for case in cases)


# The law of random choices. With 1,000 lanes on fixed seeds a fair router fails one of these tests
# with probability 1e-6, had the seeds been drawn.
LANES = 1000
ERROR = 1e-6


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [
        (RandomWorker(), {}),
        (PowerOfTwo(), {}),
        (CacheAwareSpill(abs_gap=1.0, rel=1.2), {"abs_gap": 1, "rel": 1.2}),
        (Dynamo(), {}),
        (Dynamo(temperature=0.5), {"temperature": 0.5}),
        (LlmD(), {}),
        (AibrixPrefix(gap=2.0), {"gap": 2}),
        (HedgeRouter(EXPERTS, eta=2.0), NAMES | {"eta": 2.0}),
        pytest.param(
            FixedShareRouter(EXPERTS, eta=2.0, alpha=0.1),
            NAMES | {"eta": 2.0, "alpha": 0.1},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            EXP4Router(EXPERTS, mixing=0.2), NAMES | {"mixing": 0.2}, marks=pytest.mark.slow
        ),
        (AffinityMW(), {}),
    ],
    ids=named,
)
def test_random_choices_have_the_law_of_the_twin(
    policy: RoutingPolicy, parameters: dict[str, Any]
) -> None:
    case = next(random_clusters(1, 4, workers=3)).cut(4)
    result = run(policy, case, "oracle", seeds=LANES, batching="vmap")
    twin = slow(policy, 3, parameters)
    # histories are few, and the twin says what follows each of them with what probability
    expected: dict[tuple[int, ...], float] = {}
    paths, counts = np.unique(result.worker, axis=0, return_counts=True)
    for path in paths.tolist():
        _, laws = followed(twin, path, case, VIEWS["oracle"])
        expected[tuple(path)] = LANES * np.prod([p[w] for p, w in zip(laws, path, strict=True)])
    want = np.array(list(expected.values()))
    rare = want < 5
    seen = np.append(counts[~rare], LANES - counts[~rare].sum())
    want = np.append(want[~rare], LANES - want[~rare].sum())
    if want[-1] < 1e-6:
        seen, want = seen[:-1], want[:-1]
    assert len(want) > 2
    assert stats.chisquare(seen, want).pvalue > ERROR


# One worker.


@pytest.mark.parametrize("name", [n for n, p in POLICIES.items() if not p.randomised])
def test_one_worker_is_the_one_cache_driver(name: str) -> None:
    eviction = policy(name)
    for case in random_clusters(3, 5, workers=1):
        instance = case.instance
        alone = simulate(instance, case.cluster, eviction)
        result = simulate_cluster(instance, case.cluster, RoundRobin(), eviction)
        assert result.hits.tolist() == alone.hits.tolist()
        assert not result.worker.any()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in ("rlt", "random_leaf") else pytest.mark.slow)
        for n, p in POLICIES.items()
        if p.randomised
    ],
)
def test_one_worker_has_the_law_of_the_one_cache_driver(name: str) -> None:
    eviction = policy(name)
    for case in random_clusters(20, 6, workers=1):
        tight = Cluster([4])
        alone = simulate(case.instance, tight, eviction, seeds=LANES, batching="vmap")
        if len(np.unique(alone.hits.sum(axis=1))) > 1:
            break
    result = simulate_cluster(
        case.instance, tight, RoundRobin(), eviction, seeds=LANES, batching="vmap"
    )
    totals = [r.hits.sum(axis=1) for r in (alone, result)]
    table = np.stack([np.bincount(t, minlength=64) for t in totals])
    table = table[:, table.sum(axis=0) >= 10]
    assert table.any()
    # predictive marking draws so rarely that all lanes may be alike
    assert table.shape[1] == 1 or stats.chi2_contingency(table).pvalue > ERROR


# Errors.

CASE = next(random_clusters(1, 7, workers=2))


def test_arrival_times_are_needed() -> None:
    instance = dataclasses.replace(CASE.instance, arrival=None)
    with pytest.raises(InputError, match=r"no arrival times: pass rate="):
        simulate_cluster(instance, CASE.cluster, RoundRobin(), LLRU)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"view": "routed", "view_capacity": 3}, "view_capacity = 3: must hold the longest query"),
        ({"view": "routed", "view_capacity": 0}, "view_capacity = 0: must be a positive number"),
        ({"view": "oracle", "view_capacity": 9}, "view_capacity = 9: belongs to view='routed'"),
        ({"view": "stale"}, "refresh = None: view='stale' needs the seconds"),
        ({"view": "stale", "refresh": 0.0}, "refresh = 0.0: view='stale' needs the seconds"),
        ({"view": "stale", "refresh": -1.0}, "refresh = -1.0: view='stale' needs"),
        ({"view": "clear"}, "view = 'clear': must be 'oracle', 'routed' or 'stale'"),
        ({"believed": Cluster(np.full(3, 9))}, "believed = '3 workers': must have 2"),
        ({"seeds": 0}, "seeds = 0: must be at least 1"),
        ({"batching": "pmap"}, "batching = 'pmap': must be"),
        ({"key": 3}, "key = 3: must be a typed key"),
    ],
)
def test_bad_arguments_say_what_to_pass(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        simulate_cluster(CASE.instance, CASE.cluster, RoundRobin(), LLRU, **parameters)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("capacity", "parameters", "message"),
    [
        ([], {}, "capacity = []: a cluster has at least one worker"),
        ([4, 4], {"speed": [1.0, 0.0]}, "a worker needs a positive speed"),
        ([4, 4], {"speed": [1.0, -1.0]}, "must be finite and not negative"),
        ([4, 4], {"speed": [1.0, 1.0, 1.0]}, "speed = '3 values': need one per worker, 2"),
        ([4, 4], {"alpha_miss": [1.0]}, "alpha_miss = '1 values': need one per worker, 2"),
        ([4, 0], {}, "capacity[1] = 0: must be at least 1 unit"),
    ],
)
def test_a_bad_cluster_says_what_to_pass(
    capacity: list[int], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as error:
        Cluster(np.array(capacity, np.int64), **parameters)
    assert message in str(error.value)


def test_arrival_times_match_the_queries() -> None:
    with pytest.raises(InputError, match="need one per query, 2"):
        Instance.from_tokens([[1], [2]], arrival=np.zeros(3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cache_awar", "unknown router 'cache_awar': did you mean cache_aware"),
        ("cache_aware:treshold=0.3", "unknown parameter of 'cache_aware' 'treshold': did you mean"),
        ("cache_aware:threshold=much", "threshold = 'much': must be of type float"),
        ("cache_aware:threshold", "needs a value"),
        ("round_robin:turn=1", "'round_robin' has no parameters"),
        ("lbgr:target=hits", "target = 'hits': must be 'service' or 'latency'"),
        ("lbgr:tick=0", "tick = 0.0: must be a positive time"),
        ("exponential_potential:gamma=1", "gamma = 1.0: must be above 1"),
        ("exponential_potential:load=half", "load = 'half': must be 'total' or 'live'"),
        ("least_work_left:work=none", "work = 'none': must be 'believed' or 'true'"),
        ("consistent_hash_bounded:replicas=0", "replicas = 0: must be at least 1"),
        ("dualmap:prefix=0", "prefix = 0: must be at least 1 unit"),
        ("hedge:experts=", "experts = (): pass at least one router"),
        ("hedge:experts=max_hit+lbgx", "unknown router 'lbgx': did you mean lbgr"),
        ("hedge:experts=[lbgr:targt=hits]", "unknown parameter of 'lbgr' 'targt'"),
        ("hedge:experts=[lbgr", "brackets = 'experts=[lbgr': must be closed"),
        ("fixed_share:alpha=2", "alpha = 2.0: must be a share from 0 to 1"),
        ("exp3:mixing=-1", "mixing = -1.0: must be a share"),
        ("exp4:rate=2", "rate = 2.0: must be a share"),
        ("affinity_mw:mixing=2", "mixing = 2.0: must be a share"),
    ],
)
def test_a_router_that_is_not_there_names_the_nearest(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        router(text)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ROUTERS)
def test_a_router_is_made_from_its_name(name: str) -> None:
    made = router(name)
    assert type(made) is ROUTERS[name]
    assert made.name == name
    assert made.source


def test_experts_are_written_as_text() -> None:
    text = "exp4:experts=cache_aware+[hedge:experts=max_hit+[lbgr:tick=0.1,eta=0.2]],mixing=0.1"
    made = router(text)
    assert isinstance(made, EXP4Router)
    plain, inner = made.experts
    assert (plain, made.mixing) == (CacheAware(), 0.1)
    assert isinstance(inner, HedgeRouter)
    assert inner.experts == (MaxHit(), LBGR(tick=0.1, eta=0.2))
    assert label(made) == text
    assert label(router("hedge")) == "hedge"


def test_experts_must_be_routers() -> None:
    for experts, message in [((), "pass at least one router"), (["max_hit"], "must be routers")]:
        with pytest.raises(InputError, match=message):
            HedgeRouter(experts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("forget", "updates"), [(0.992, 86_649), (0.95, 13_570)])
def test_published_lbgr_is_nan_only_with_its_masked_features(forget: float, updates: int) -> None:
    with jax.enable_x64(True):
        tape = tape_of(CASE.instance)
        number, second = jnp.zeros((), jnp.int32), jnp.ones(())
        event = Event(number, number, second, second, second, number, number, second)

        def bias(masked: bool, completions: int) -> float:
            policy = PublishedLBGR(masked=masked, forget=forget)
            first = policy.init(tape, 2, {}, jax.random.key(0))
            last = jax.jit(
                lambda state: jax.lax.fori_loop(
                    0, completions, lambda _, s: policy.complete(s, tape, event), state
                )
            )(first)
            return float(last.bias[0])

        assert np.isfinite(bias(True, updates - 1))
        assert np.isnan(bias(True, updates))
        assert np.isfinite(bias(False, 2 * updates))
