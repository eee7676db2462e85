"""The plain objects decide as the drivers do, and refuse what they cannot do."""

import heapq
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kvtheory.cache import EvictionPolicy, Prepared
from kvtheory.cluster import Cluster
from kvtheory.cluster_result import ClusterResult
from kvtheory.errors import InputError
from kvtheory.eviction import POLICIES, Belady, LeafLRU, policy
from kvtheory.eviction.keyed import KeyPolicy
from kvtheory.instance import Instance
from kvtheory.online import PrefixCache, Request, Router, Served, books, growing_tape, prefix_cache
from kvtheory.result import PolicyError
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing import ROUTERS, router
from kvtheory.simulate import caches, simulate
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.testing.small_clusters import random_clusters

ONLINE = sorted(name for name, kind in POLICIES.items() if kind.online)
VARIANTS = ["rlt:phase=query", "rlt:phase=published", "tail_lru:xi=2"]
FULL = {
    *("rlt:phase=query", "rlt:phase=published", "tail_lru:xi=2"),
    *("duel", "layered", "lfu", "cost_per_unit", "mru", "slru", "tail_lru", "random_leaf"),
}
UNITS = 100  # makes room for 64 queries, 512 units on their paths and 127 distinct ones
RANDOMISED = [text for text in ONLINE + VARIANTS if policy(text).randomised]


def random_queries(seed: int, requests: int, longest: int = 5, ids: int = 3) -> list[list[int]]:
    """Queries that often repeat and often leave each other half way; some are empty."""
    rng = np.random.default_rng(seed)
    queries: list[list[int]] = [[]]
    for _ in range(requests):
        query = list(queries[rng.integers(len(queries))])
        query = query[: rng.integers(len(query) + 1)] if rng.random() < 0.6 else query
        more = rng.integers(longest - len(query) + 1) if rng.random() < 0.7 else 0
        queries.append([*query, *rng.integers(-ids, ids, size=more).tolist()])
    return queries[1:]


# -- caches --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [pytest.param(t, marks=pytest.mark.slow) if t in FULL else t for t in ONLINE + VARIANTS],
)
def test_a_cache_decides_as_the_driver(text: str) -> None:
    capacity, key = 7, jax.random.key(5)
    cache = PrefixCache(text, capacity, seed=1, key=key, units=UNITS)
    rooms = {cache._room}
    for seed in range(6):
        queries = random_queries(seed, 120)
        instance = Instance.from_tokens(queries).uncompressed()
        expected = simulate(instance, capacity, policy(text), seeds=2, key=key).hits[1]
        served = []
        for query in queries:
            found = cache.hits(query)
            served.append(cache.serve(query))
            assert served[-1].hits == found
            assert cache.hits(query) == len(query)
            rooms.add(cache._room)
        assert [s.hits for s in served] == expected.tolist()
        assert [s.misses for s in served] == [
            len(queries[t]) - s.hits for t, s in enumerate(served)
        ]
        assert len(cache) == sum(s.misses - s.evicted for s in served) <= capacity
        cache.clear()
        assert len(cache) == 0
        assert cache.hits(queries[-1]) == 0
    assert len(rooms) > 1  # it has grown on the way


@pytest.mark.parametrize("text", RANDOMISED)
def test_another_seed_is_another_run(text: str) -> None:
    queries = random_queries(0, 60)
    runs = []
    for seed in (0, 1, 1):
        cache = PrefixCache(text, 7, seed=seed, units=UNITS)
        runs.append([cache.serve(query).hits for query in queries])
    assert runs[0] != runs[1] == runs[2]


@pytest.mark.parametrize("text", ["llru", "node_lru"])
def test_the_evicted_units_are_those_that_the_driver_loses(text: str) -> None:
    queries = random_queries(3, 60)
    instance = Instance.from_tokens(queries).uncompressed()
    _, cached = caches(instance, 6, policy(text))
    cache = PrefixCache(text, 6, units=UNITS)
    before = 0
    for query, units in zip(queries, cached.sum(axis=1).tolist(), strict=True):
        served = cache.serve(query)
        assert len(cache) == units
        assert served.evicted == before + served.misses - units
        before = units


@pytest.mark.parametrize("oversize", ["truncate", "skip"])
@pytest.mark.parametrize("text", ["llru", "lfu"])
def test_queries_longer_than_the_cache(text: str, oversize: Any) -> None:
    queries = random_queries(4, 60)
    instance = Instance.from_tokens(queries).uncompressed()
    expected = simulate(instance, 4, policy(text), oversize=oversize)
    cache = PrefixCache(text, 4, oversize=oversize, units=UNITS)
    served = [cache.serve(query) for query in queries]
    assert any(len(query) > 4 for query in queries)
    assert [s.hits for s in served] == expected.hits[0].tolist()
    assert [s.hits + s.misses for s in served] == [len(query) for query in queries]
    assert len(cache) == sum(s.misses - s.evicted for s in served) - sum(
        len(query) - (4 if oversize == "truncate" else s.hits)
        for query, s in zip(queries, served, strict=True)
        if len(query) > 4
    )


def test_a_policy_of_ones_own() -> None:
    class Deepest(KeyPolicy):
        name: ClassVar[str] = "deepest"
        remembers_load: ClassVar[bool] = True

        def key(self, unit: Any, tape: Any) -> Any:
            return 100 - unit.depth

    queries = random_queries(5, 60)
    expected = simulate(Instance.from_tokens(queries).uncompressed(), 6, Deepest())
    cache = PrefixCache(Deepest(), 6, units=UNITS)
    assert [cache.serve(query).hits for query in queries] == expected.hits[0].tolist()


def test_other_parameters_do_not_compile_again() -> None:
    PrefixCache("tail_lru:xi=1", 7, units=UNITS).serve([1])
    before = prefix_cache._serve._cache_size()
    cache = PrefixCache("tail_lru:xi=3", 6, units=UNITS)
    cache.serve([1, 2, 3])
    cache.serve([])
    assert prefix_cache._serve._cache_size() == before


@pytest.mark.parametrize("wide", [False, True])
def test_64_bit_mode_changes_nothing(wide: bool) -> None:
    queries = random_queries(6, 40)
    with jax.enable_x64(wide):
        cache = PrefixCache("tail_lru:xi=2", 6, units=UNITS)
        sent = Router("lbgr", 2, view_capacity=6, units=UNITS)
        got = [cache.serve(query).hits for query in queries]
        workers = [sent.route(query, float(t)).worker for t, query in enumerate(queries)]
    other = PrefixCache("tail_lru:xi=2", 6, units=UNITS)
    again = Router("lbgr", 2, view_capacity=6, units=UNITS)
    assert got == [other.serve(query).hits for query in queries]
    assert workers == [again.route(query, float(t)).worker for t, query in enumerate(queries)]


def test_ids_may_be_any_integers() -> None:
    cache = PrefixCache("llru", 4)
    assert cache.serve(np.array([2**62, -(2**63)])) == Served(0, 2, 0)
    assert cache.serve((2**62, -(2**63), 0)) == Served(2, 1, 0)
    assert cache.serve([]) == cache.serve(np.array([])) == Served(0, 0, 0)
    assert cache.hits([2**62, 0, 7]) == 1


class Lazy(EvictionPolicy):
    """Names no victim."""

    name: ClassVar[str] = "lazy"

    def init(self, *_: Any) -> tuple[()]:
        return ()

    def evict(self, state: Any, *_: Any) -> Any:
        return state, jnp.int32(0), jnp.int32(0)


class Prophet(LeafLRU):
    """Prepares an array per log position."""

    name: ClassVar[str] = "prophet"

    def prepare(self, instance: Instance, served: Any = None) -> Prepared:
        return Prepared({"when": np.arange(len(instance.log.edge))})


class Geographer(LeafLRU):
    """Prepares an array that depends on the tree."""

    name: ClassVar[str] = "geographer"

    def prepare(self, instance: Instance, served: Any = None) -> Prepared:
        return Prepared({}, {"depth": instance.tree.depth})


def test_a_policy_that_breaks_the_rules() -> None:
    cache = PrefixCache(Lazy(), 2, units=UNITS)
    cache.serve([1, 2])
    with pytest.raises(PolicyError, match="'lazy' named no victim"):
        cache.serve([3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrefixCache("lru", 4), "unknown eviction policy 'lru'"),
        (lambda: PrefixCache("belady", 4), "'belady': sees the queries to come"),
        (lambda: PrefixCache(Belady(), 4), "run it with kvtheory.simulate.simulate"),
        (lambda: PrefixCache("marking", 4), "policy = 'marking'"),
        (lambda: PrefixCache(Prophet(), 4), "'prophet' prepares arrays from the whole sequence"),
        (lambda: PrefixCache(Geographer(), 4), "'geographer' prepares arrays"),
        (lambda: PrefixCache(7, 4), "policy = 7: must be an EvictionPolicy"),
        (lambda: PrefixCache("llru", 0), "capacity = 0: must be at least 1 unit"),
        (lambda: PrefixCache("llru", 4, seed=-1), "seed = -1"),
        (lambda: PrefixCache("llru", 4, key=3), "key = 3: must be a typed key"),
        (lambda: PrefixCache("llru", 4, oversize="cut"), "oversize = 'cut'"),
        (lambda: PrefixCache("llru", 4, units=0), "units = 0: must be at least 1"),
        (lambda: PrefixCache("llru", 4, units=2**28), r"and below 2³⁰/4"),
        (lambda: PrefixCache("llru", 4).serve([1, 2, 3, 4, 5]), r"len\(tokens\) = 5: longer than"),
        (lambda: PrefixCache("llru", 4).serve([1.5]), r"tokens = \[1.5\]: must be a flat sequence"),
        (lambda: PrefixCache("llru", 4).serve([[1]]), "must be a flat sequence"),
        (lambda: PrefixCache("llru", 4).serve("12"), "must be a flat sequence"),
        (lambda: PrefixCache("llru", 4).hits([2**63]), "of 64 bits"),
    ],
)
def test_bad_input_to_a_cache(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_refused_query_changes_nothing() -> None:
    cache = PrefixCache("llru", 2)
    cache.serve([1, 2])
    with pytest.raises(InputError):
        cache.serve([1, 2, 3])
    assert cache.serve([1, 2]) == Served(2, 0, 0)


def test_a_history_that_is_full_can_be_cleared() -> None:
    with mock.patch.object(growing_tape, "MOST", 64):
        cache = PrefixCache("llru", 4, units=15)
        for _ in range(64):
            cache.serve([1])
        with pytest.raises(InputError, match=r"history.*call clear\(\)"):
            cache.serve([1])
        cache.clear()
        assert cache.serve([1, 2]) == Served(0, 2, 0)


# -- routers -------------------------------------------------------------------------------

# Small thresholds and windows, so that a few queries meet them.
SMALL: dict[str, list[str]] = {
    "cache_aware": ["abs_gap=1,rel=1.5"],
    "cache_aware_min_load": ["threshold=0.3,abs_gap=2"],
    "cache_aware_spill": ["abs_gap=1,rel=1.2"],
    "consistent_hash_bounded": ["prefix=2"],
    "dualmap": ["budget=4,prefix=2,window=4"],
    "dynamo": ["", "temperature=0.5"],
    "dynamo_2026": ["delta=0.5"],
    "exponential_potential": ["", "load=live"],
    "gorgo": ["seconds_per_token=0.1"],
    "lbgr": ["", "target=latency", "learner=gradient"],
    "lbgr_published": ["ms_per_token=40"],
    "preble_e2": ["window=4"],
}
TEXTS = {
    name: [f"{name}:{parameters}".rstrip(":") for parameters in SMALL.get(name, [""])]
    for name in ROUTERS
}
# One of each kind of state; the others run in the full lane.
FAST = {"cache_aware", "lbgr"}
QUICK = [
    text if k == 0 and name in FAST else pytest.param(text, marks=pytest.mark.slow)
    for name, texts in TEXTS.items()
    for k, text in enumerate(texts)
]
KINDS = ("start", "first_token", "end")


def replay(own: Router, result: ClusterResult, *, starts: bool) -> Iterator[Request]:
    """Route the queries of a run of the driver, and report what happened when it did."""
    instance = result.instance
    assert instance.arrival is not None
    assert instance.output_length is not None
    report = (own.start, own.first_token, own.complete)
    coming: list[tuple[float, int, int]] = []
    requests: list[Request] = []
    sequences = instance.sequences()
    for t, now in enumerate(instance.arrival.tolist()):
        while coming and coming[0][0] <= now:
            time, query, kind = heapq.heappop(coming)
            report[kind](requests[query], time)
        requests.append(own.route(sequences[t], now, output=int(instance.output_length[t])))
        yield requests[-1]
        for kind, name in enumerate(KINDS):
            if kind or starts:
                heapq.heappush(coming, (float(getattr(result, name)[0, t]), t, kind))


def compare(
    text: str, instance: Instance, cluster: Cluster, believed: Cluster | None, **more: Any
) -> None:
    trees = {"view_capacity": 6}
    for starts, seed in (("inferred", 3), ("reported", 4)):
        key = jax.random.key(seed)
        result = simulate_cluster(
            instance, cluster, router(text), LeafLRU(), believed=believed, key=key, **trees
        )
        own = Router(text, believed or cluster, key=key, starts=starts, **trees, **more)
        requests = list(replay(own, result, starts=starts == "reported"))
        assert [r.worker for r in requests] == result.worker[0].tolist()
        assert [r.hits for r in requests] == result.believed[0].tolist()
        assert [r.length for r in requests] == instance.query_length.tolist()


@pytest.mark.parametrize("text", QUICK)
def test_a_router_decides_as_in_the_driver(text: str) -> None:
    for case in random_clusters(12, 1, workers=3, free=not text.startswith("lbgr")):
        compare(text, case.instance, case.cluster, case.believed, units=UNITS)


def long_case(seed: int, requests: int) -> tuple[Instance, Cluster]:
    """Times and costs that are no multiples of anything; more queries than there is room for."""
    rng = np.random.default_rng(seed)
    instance = Instance.from_tokens(
        random_queries(seed, requests),
        arrival=np.cumsum(rng.exponential(2.0, requests)),
        output_length=rng.integers(1, 9, requests),
        block_size=16,
    )
    cluster = Cluster(
        np.array([6, 8, 7]),
        block_size=16,
        alpha_cached=rng.uniform(0.01, 0.1, 3),
        alpha_miss=rng.uniform(0.5, 1.5, 3),
        alpha_out=rng.uniform(0.1, 0.4, 3),
        speed=rng.uniform(0.5, 2.0, 3),
    )
    return instance, cluster


@pytest.mark.parametrize(
    "text",
    [
        "lbgr",
        pytest.param("dualmap:budget=64,prefix=1,window=16", marks=pytest.mark.slow),
    ],
)
def test_a_router_that_grows_decides_as_in_the_driver(text: str) -> None:
    compare(text, *long_case(1, 150), None, units=UNITS)


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for texts in TEXTS.values() for text in texts])
def test_every_router_decides_as_in_the_driver_when_it_grows(text: str) -> None:
    for seed in range(3):
        compare(text, *long_case(seed, 400), None, units=UNITS)


@pytest.mark.slow
def test_experts_that_prepare() -> None:
    text = "hedge:experts=[dualmap:prefix=1,budget=64,window=8]+[consistent_hash_bounded:prefix=2]"
    compare(text, *long_case(2, 60), None, units=UNITS)


COUNTS = ("in_flight", "queued", "pending", "waiting", "work")


class Told(RoutingPolicy):
    """Sends queries to worker 0, but an empty one to 1 + a count of all workers."""

    count: int = 0

    name: ClassVar[str] = "told"

    def init(self, *_: Any) -> tuple[()]:
        return ()

    def propose(self, state: Any, tape: Any, seen: Seen) -> Any:
        told = jnp.stack([getattr(seen, name).sum().astype(jnp.int32) for name in COUNTS])
        return state, jnp.where(seen.length > 0, 0, 1 + told[self.count])


class Group:
    """A router for each count, all told the same."""

    def __init__(self, starts: Any) -> None:
        cluster = Cluster(np.full(10, 100))
        self.routers = [
            Router(Told(k), cluster, starts=starts, units=UNITS) for k in range(len(COUNTS))
        ]

    def route(self, tokens: list[int]) -> list[Request]:
        return [each.route(tokens, 1.0) for each in self.routers]

    def tell(self, what: str, requests: list[Request]) -> None:
        for each, request in zip(self.routers, requests, strict=True):
            getattr(each, what)(request, 1.0)

    def counts(self) -> tuple[int, ...]:
        empty = self.route([])
        self.tell("complete", empty)
        return tuple(request.worker - 1 for request in empty)


def test_what_is_counted_where_starts_are_inferred() -> None:
    group = Group("inferred")
    a, b, c = group.route([1, 2]), group.route([1, 2, 3, 4]), group.route([9])
    assert group.counts() == (3, 2, 5, 3, 5)
    group.tell("complete", c)  # out of turn: it has started and had its first token as well
    assert group.counts() == (2, 1, 4, 2, 4)
    group.tell("first_token", a)
    assert group.counts() == (2, 1, 2, 2, 4)
    group.tell("complete", a)
    assert group.counts() == (1, 0, 2, 0, 2)
    assert group.routers[0].in_flight == [1, *[0] * 9]
    group.tell("complete", b)
    assert group.counts() == (0, 0, 0, 0, 0)


def test_what_is_counted_where_starts_are_reported() -> None:
    group = Group("reported")
    a, b, c = group.route([1, 2]), group.route([1, 2, 3, 4]), group.route([9])
    assert group.counts() == (3, 3, 5, 5, 5)
    group.tell("start", c)
    group.tell("start", b)
    assert group.counts() == (3, 1, 5, 2, 5)
    group.tell("first_token", a)
    assert group.counts() == (3, 0, 3, 0, 5)
    group.tell("complete", b)
    assert group.counts() == (2, 0, 1, 0, 3)
    group.tell("complete", a)
    group.tell("complete", c)
    assert group.counts() == (0, 0, 0, 0, 0)


def test_time_is_counted_from_the_origin() -> None:
    instance, cluster = long_case(0, 60)
    base = 1.8e9
    plain, unix = (
        Router("lbgr", cluster, units=UNITS),
        Router("lbgr", cluster, origin=base, units=UNITS),
    )
    arrival = np.round(instance.arrival)
    for now, tokens in zip(arrival.tolist(), instance.sequences(), strict=True):
        one, two = plain.route(tokens, now), unix.route(tokens, now + base)
        assert (one.worker, two.arrival) == (two.worker, now + base)
        plain.complete(one, now)
        unix.complete(two, now + base)


def test_a_router_can_be_cleared_and_shows_its_trees() -> None:
    own = Router("power_of_two", 3, view_capacity=8, seed=2, units=UNITS)
    queries = random_queries(7, 60)
    runs = []
    for _ in range(2):
        requests = [own.route(query, float(t)) for t, query in enumerate(queries)]
        runs.append([request.worker for request in requests])
        last = requests[-1]
        assert own.hits(queries[-1])[last.worker] == len(queries[-1])
        own.clear()
        assert own.in_flight == [0, 0, 0]
        assert own.hits(queries[-1]) == [0, 0, 0]
        with pytest.raises(InputError, match="was not routed by this router"):
            own.complete(last, 1e6)
    assert runs[0] == runs[1]


def test_long_queries_can_be_routed_by_their_first_units() -> None:
    instance, cluster = long_case(3, 60)
    cluster = Cluster(np.array([4, 4, 4]), block_size=16, alpha_miss=cluster.alpha_miss)
    result = simulate_cluster(
        instance, cluster, router("max_hit"), LeafLRU(), oversize="truncate", view_capacity=6
    )
    own = Router("max_hit", cluster, oversize="truncate", view_capacity=6, units=UNITS)
    requests = list(replay(own, result, starts=False))
    assert int(instance.query_length.max()) > 4
    assert [r.worker for r in requests] == result.worker[0].tolist()
    assert [r.hits for r in requests] == result.believed[0].tolist()


def test_another_router_of_a_kind_does_not_compile_again() -> None:
    Router("gorgo", 3, view_capacity=8, units=UNITS).route([1], 0.0)
    before = books.apply._cache_size()
    own = Router("gorgo:seconds_per_token=0.5", Cluster(np.array([9, 8, 7])), units=UNITS)
    for t in range(5):
        own.complete(own.route([t, 1], float(t)), float(t))
    assert books.apply._cache_size() == before


class Astray(RoutingPolicy):
    """Names a worker that is not there."""

    name: ClassVar[str] = "astray"

    def init(self, *_: Any) -> tuple[()]:
        return ()

    def propose(self, state: Any, tape: Any, seen: Seen) -> Any:
        return state, jnp.int32(seen.workers)


class Secretive(Astray):
    """Keeps what it prepares in another form."""

    name: ClassVar[str] = "secretive"

    def prepare(self, instance: Instance, workers: int) -> dict[str, Any]:
        return {"length": instance.query_length}

    def init(self, tape: Any, workers: int, prepared: Any, key: Any) -> Any:
        return prepared["length"] + 1


class Planner(Astray):
    """Prepares from all queries."""

    name: ClassVar[str] = "planner"

    def prepare(self, instance: Instance, workers: int) -> dict[str, Any]:
        return {"rank": np.arange(instance.requests)}


def two(**more: Any) -> Router:
    return Router("round_robin", 2, view_capacity=4, units=UNITS, **more)


def test_a_router_that_names_no_worker() -> None:
    with pytest.raises(PolicyError, match="'astray' named a worker that is not there"):
        Router(Astray(), 2, view_capacity=4, units=UNITS).route([1], 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Router("sticky", 2, view_capacity=4), "unknown router 'sticky'"),
        (lambda: Router(LeafLRU(), 2, view_capacity=4), "must be a RoutingPolicy"),
        (lambda: Router("least_work_left:work=true", 2, view_capacity=4), "known to the driver"),
        (
            lambda: Router("hedge:experts=[least_work_left:work=true]", 2, view_capacity=4),
            "policy = 'hedge': work='true' is known",
        ),
        (lambda: Router(Planner(), 2, view_capacity=4), "'planner' prepares arrays from the whole"),
        (lambda: Router(Secretive(), 2, view_capacity=4), "'secretive' does not keep what"),
        (lambda: Router("random", 0, view_capacity=4), "workers = 0: must be a Cluster or"),
        (lambda: Router("random", 2.0, view_capacity=4), "workers = 2.0"),
        (lambda: Router("random", 2), "view_capacity = None: is needed"),
        (lambda: Router("random", 2, view_capacity=[4]), "must be one number of units, or 2"),
        (lambda: Router("random", 2, view_capacity=0), "view_capacity = 0: must be at least 1"),
        (lambda: two(starts="guessed"), "starts = 'guessed'"),
        (lambda: two(oversize="skip"), "oversize = 'skip'"),
        (lambda: two(origin=math.nan), "origin = nan"),
        (lambda: two().route([1] * 5, 0.0), r"len\(tokens\) = 5: longer than the smallest"),
        (lambda: two().route([0.5], 0.0), "tokens = "),
        (lambda: two().route([1], -1.0), "now = -1.0: must be at most"),
        (lambda: two().route([1], math.nan), "now = nan"),
        (lambda: two().route([1], 1.8e9), "seconds after the origin"),
        (lambda: two().route([1], 0.0, output=-1), "output = -1"),
        (lambda: two().start(two().route([1], 0.0), 0.0), "starts are inferred"),
        (lambda: two().complete(0, 0.0), r"request = 0: must be what route\(\) returned"),
        (lambda: two().complete(two().route([1], 0.0), 0.0), "was not routed by this router"),
    ],
)
def test_bad_input_to_a_router(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_reports_must_come_in_order() -> None:
    own = two(starts="reported")
    request = own.route([1], 3.0)
    with pytest.raises(InputError, match=r"now = 2\.0: must not be before 3\.0, the latest"):
        own.start(request, 2.0)
    own.start(request, 3.0)
    with pytest.raises(InputError, match="has started before"):
        own.start(request, 4.0)
    own.first_token(request, 4.0)
    with pytest.raises(InputError, match="has had its first token before"):
        own.first_token(request, 5.0)
    own.complete(request, 5.0)
    for late in (own.start, own.first_token, own.complete):
        with pytest.raises(InputError, match="before"):
            late(request, 6.0)
    with pytest.raises(InputError, match=r"must not be before 5\.0"):
        own.route([1], 4.5)
    assert own.in_flight == [0, 0]


def test_the_history_of_a_router_can_be_full() -> None:
    with mock.patch.object(growing_tape, "MOST", 64):
        own = Router("round_robin", 2, view_capacity=4, units=15)
        for _ in range(64):
            own.route([1], 0.0)
        with pytest.raises(InputError, match=r"call clear\(\)"):
            own.route([1], 0.0)
        own.clear()
        assert own.route([1], 0.0).worker == 0
