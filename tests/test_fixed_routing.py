"""Belady on every worker, and bounds on all routings, against search over routings and caches."""

import functools
import itertools

import numpy as np
import pytest

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.offline import replay
from kvtheory.offline.fixed_routing import best_for_routing, hits_alone, routed_hits
from kvtheory.offline.objective import OBJECTIVES, loads, service, value
from kvtheory.offline.partition import partition, subtrees
from kvtheory.offline.policy_bounds import policy_bounds
from kvtheory.offline.pooled import (
    longest_queries,
    lower_bounds,
    pooled_misses,
    priced_bound,
    unavoidable,
)
from kvtheory.testing import optimum_by_search
from kvtheory.testing.exhaustive import closed_subsets
from kvtheory.testing.small_cases import random_cases
from kvtheory.testing.twin_cache import path_of

ADMISSIONS = ("forced", "bypass")


def random_cluster(rng, workers, longest, *, depth=False, upside_down=False):
    cached = rng.choice([0.0, 0.25, 0.5], workers)
    return Cluster(
        longest + rng.integers(0, 4, workers),
        alpha_cached=cached,
        alpha_miss=np.full(workers, 0.125) if upside_down else cached + rng.choice([0.5, 1, 2]),
        alpha_out=rng.choice([0.0, 0.5], workers),
        overhead=rng.choice([0.0, 1.0], workers),
        speed=rng.choice([0.5, 1.0, 2.0], workers),
        alpha_depth=rng.choice([0.25, 0.5], workers) if depth else 0.0,
    )


def small_problems(examples, seed, **kind):
    """Instances of at most 6 queries with clusters of 2 or 3 workers, and an admission."""
    for i, case in enumerate(random_cases(examples, seed, units=7, requests=6)):
        rng = np.random.default_rng([seed, i])
        output = rng.integers(0, 3, len(case.sequences))
        instance = Instance.from_tokens([list(s) for s in case.sequences], output_length=output)
        workers = 2 if instance.requests > 5 else int(rng.integers(2, 4))
        cluster = random_cluster(rng, workers, max(1, case.longest), **kind)
        yield instance, cluster, ADMISSIONS[i % 2]


def seconds_of(cluster, i, length, hits, tokens):
    """Service of one query, unit by unit."""
    total = cluster.alpha_out[i] * tokens + cluster.overhead[i]
    for depth in range(1, length + 1):
        missed = cluster.alpha_miss[i] + cluster.alpha_depth[i] * depth
        total += cluster.alpha_cached[i] if depth <= hits else missed
    return total / cluster.speed[i]


def cheapest(sequences, capacity, admission, price):
    """The least Σ price(query, hits) over all ways to evict, by search over every cache."""
    least = {frozenset(): 0.0}
    for t, tokens in sequences:
        path = path_of(tokens)
        after = {}
        for cache, cost in least.items():
            cost += price(t, sum(unit in cache for unit in path))
            kept = frozenset(path) if admission == "forced" else frozenset()
            for outcome in closed_subsets(cache | frozenset(path), kept, capacity):
                after[outcome] = min(cost, after.get(outcome, np.inf))
        least = after
    return min(least.values())


def optimum_by_force(instance, cluster, admission):
    """Each objective at its best over all routings and all evictions."""
    sequences = instance.sequences()
    n = len(sequences)
    tokens = instance.output_length.tolist()

    @functools.cache
    def one(i, chosen, objective):
        own = [(t, sequences[t]) for t in chosen]

        def price(t, hits):
            length = len(sequences[t])
            if objective == "misses":
                return length - hits
            return seconds_of(cluster, i, length, hits, tokens[t])

        return cheapest(own, int(cluster.capacity[i]), admission, price)

    best = dict.fromkeys(OBJECTIVES, np.inf)
    for worker in itertools.product(range(cluster.workers), repeat=n):
        parts = [tuple(t for t in range(n) if worker[t] == i) for i in range(cluster.workers)]
        misses = [one(i, part, "misses") for i, part in enumerate(parts)]
        seconds = [one(i, part, "cost") for i, part in enumerate(parts)]
        found = (sum(misses), sum(seconds), max(seconds))
        best = {key: min(best[key], new) for key, new in zip(OBJECTIVES, found, strict=True)}
    return best


@functools.cache
def solved(kind):
    options = {"plain": {}, "depth": {"depth": True}, "upside down": {"upside_down": True}}[kind]
    problems = list(small_problems(24 if kind == "plain" else 8, 5, **options))
    if kind == "plain":
        # full caches: two that share the work, and one with which bypass pays
        cycle = Instance.from_blocks([[1], [2]] * 3, output_length=np.zeros(6, np.int64))
        problems += [(cycle, Cluster([1, 1]), "forced"), (cycle, Cluster([1]), "bypass")]
    return [(*problem, optimum_by_force(*problem)) for problem in problems]


# -- a given routing --------------------------------------------------------------------------


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_each_worker_is_at_its_optimum(admission):
    for i, case in enumerate(random_cases(60, 11)):
        rng = np.random.default_rng(i)
        instance, workers = case.instance, int(rng.integers(1, 4))
        cluster = Cluster(max(1, case.longest) + rng.integers(0, 4, workers))
        worker = rng.integers(workers, size=instance.requests)
        schedule, hits = best_for_routing(instance, cluster, worker, admission)
        assert np.array_equal(replay(schedule, instance, cluster.capacity), hits)
        assert np.array_equal(routed_hits(instance, cluster, worker, admission), hits)
        assert np.array_equal(schedule.worker, worker)
        length = instance.query_length
        for w, capacity in enumerate(cluster.capacity.tolist()):
            own = [list(case.sequences[t]) for t in np.flatnonzero(worker == w)]
            least = optimum_by_search(own, capacity, admission)
            assert (length - hits)[worker == w].sum() == least


def test_the_fast_path_equals_belady():
    instance = shared_prefix(groups=8, prompts=12, block_size=64, lengths=(512, 1024, 2048))
    rng = np.random.default_rng(0)
    for capacity in (32, 64, 100, 200, 400, 2000):
        for admission in ADMISSIONS:
            queries = np.flatnonzero(rng.random(instance.requests) < 0.5)
            part = Instance(instance.tree, instance.query[queries])
            zero = np.zeros(len(queries), np.int32)
            _, hits = best_for_routing(part, Cluster([capacity]), zero, admission)
            assert np.array_equal(hits_alone(instance, queries, capacity, admission), hits)
    assert hits_alone(instance, np.zeros(0, np.int64), 32).tolist() == []


def test_units_below_a_cut_are_always_missed():
    instance = Instance.from_tokens([[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]]).truncate(2)
    cluster = Cluster([2, 2])
    _, hits = best_for_routing(instance, cluster, np.array([0, 0, 1]))
    assert hits.tolist() == [0, 2, 0]
    assert value("misses", instance, cluster, np.array([0, 0, 1]), hits) == 10
    assert lower_bounds(instance, cluster, "misses")[0].value == 8


def test_a_routing_that_does_not_fit_is_refused():
    instance = Instance.from_tokens([[1, 2, 3], [4]])
    cluster = Cluster([2, 4])
    with pytest.raises(InputError, match="query 0 has 3 units and worker 0 a cache of 2"):
        best_for_routing(instance, cluster, np.array([0, 1]))
    for wrong in ([1], [1.0, 1.0], [1, 2], [-1, 1]):
        with pytest.raises(InputError, match="worker"):
            best_for_routing(instance, cluster, np.array(wrong))
    with pytest.raises(InputError, match="admission"):
        best_for_routing(instance, cluster, np.array([1, 1]), "maybe")
    with pytest.raises(InputError, match="query 0 has 3 units and the largest cache only 2"):
        lower_bounds(instance, Cluster([2, 1]), "cost")
    warm = Instance.from_tokens([[1, 2]], warm=[(0, [1])])
    with pytest.raises(InputError, match=r"instance\.warm"):
        best_for_routing(warm, cluster, np.array([0]))
    with pytest.raises(InputError, match="objective"):
        lower_bounds(instance, cluster, "speed")


# -- objectives -------------------------------------------------------------------------------


def test_service_is_the_sum_over_units():
    rng = np.random.default_rng(2)
    for instance, cluster, admission in small_problems(10, 3, depth=True):
        worker = rng.integers(cluster.workers, size=instance.requests)
        _, hits = best_for_routing(instance, cluster, worker, admission)
        length, tokens = instance.query_length.tolist(), instance.output_length.tolist()
        each = [
            seconds_of(cluster, w, length[t], hits[t], tokens[t])
            for t, w in enumerate(worker.tolist())
        ]
        assert service(instance, cluster, worker, hits) == pytest.approx(each)
        load = loads(instance, cluster, worker, hits)
        assert load.sum() == pytest.approx(sum(each))
        assert value("cost", instance, cluster, worker, hits) == pytest.approx(sum(each))
        assert value("makespan", instance, cluster, worker, hits) == load.max()


# -- bounds on all routings -------------------------------------------------------------------


def exceeded(kind, bound, objectives=OBJECTIVES):
    """Bounds that some schedule beats: none, if they are right."""
    return [
        (objective, found, best[objective])
        for instance, cluster, admission, best in solved(kind)
        for objective in objectives
        for found in bound(instance, cluster, objective, admission)
        if found > best[objective] + 1e-9
    ]


def values(instance, cluster, objective, admission):
    return [bound.value for bound in lower_bounds(instance, cluster, objective, admission)]


@pytest.mark.parametrize("kind", ["plain", "depth", "upside down"])
def test_no_schedule_beats_a_lower_bound(kind):
    assert exceeded(kind, values) == []


@pytest.mark.slow
def test_belady_and_all_routings_give_the_optimum():
    for instance, cluster, admission, best in solved("plain"):
        routings = itertools.product(range(cluster.workers), repeat=instance.requests)
        found = dict.fromkeys(OBJECTIVES, np.inf)
        for worker in map(np.array, routings):
            hits = routed_hits(instance, cluster, worker, admission)
            for objective in OBJECTIVES:
                this = value(objective, instance, cluster, worker, hits)
                found[objective] = min(found[objective], this)
        assert found == pytest.approx(best)


def test_some_bounds_are_met():
    tight = dict.fromkeys(OBJECTIVES, 0)
    for instance, cluster, admission, best in solved("plain"):
        for objective in OBJECTIVES:
            found = values(instance, cluster, objective, admission)[0]
            tight[objective] += found >= best[objective] - 1e-9
    assert tight["misses"] >= 12
    assert tight["cost"] >= 2


def test_the_pooled_cache_has_the_sum_of_the_capacities():
    cycle = Instance.from_blocks([[1], [2], [3], [4]] * 4)
    # at B = 3 the known answers; M·max B = 4 would give 4 misses, max B = 2 more than 8
    assert pooled_misses(cycle, Cluster([2, 1])) == 8
    assert pooled_misses(cycle, Cluster([2, 1]), "bypass") == 7
    assert lower_bounds(cycle, Cluster([2, 1]), "misses")[0] == ("pooled", 8)


def test_bounds_that_are_wrong_are_beaten():
    def largest_cache(instance, cluster, objective, admission):
        return [pooled_misses(instance, Cluster([cluster.capacity.max()]), admission)]

    def slowest(instance, cluster, objective, admission):
        work, further = setup(instance, cluster, admission)
        scale = cluster.speed.sum() / (cluster.workers * cluster.speed.min())
        return [priced_bound(work, cluster, objective, further) * scale]

    def forced_for_bypass(instance, cluster, objective, admission):
        return [pooled_misses(instance, cluster, "forced")]

    def one_worker_fewer(instance, cluster, objective, admission):
        least = unavoidable(instance, cluster).least[1:]
        return [bound.value for bound in longest_queries(least)] if len(least) else []

    def dearest_worker(instance, cluster, objective, admission):
        work, further = setup(instance, cluster, admission)
        dear = work._replace(least=np.broadcast_to(work.least.max(axis=0), work.least.shape))
        return [priced_bound(dear, cluster, objective, further)]

    def setup(instance, cluster, admission):
        work = unavoidable(instance, cluster)
        return work, pooled_misses(instance, cluster, admission) - int(work.compulsory.sum())

    wrong = {
        "misses": (largest_cache, forced_for_bypass),
        "cost": (dearest_worker,),
        "makespan": (slowest, one_worker_fewer, dearest_worker),
    }
    for objective, mutants in wrong.items():
        for mutant in mutants:
            assert exceeded("plain", mutant, [objective]), mutant.__name__


def test_prices_reach_the_linear_program():
    from scipy.optimize import linprog

    rng = np.random.default_rng(1)
    for _ in range(8):
        queries = [rng.integers(2, size=rng.integers(1, 7)).tolist() for _ in range(40)]
        instance = Instance.from_tokens(queries, output_length=rng.integers(0, 5, 40))
        cluster = random_cluster(rng, 3, 6, depth=bool(rng.integers(2)))
        cluster = Cluster(
            np.array([6, 3, 6]),
            **{
                name: getattr(cluster, name)
                for name in ("alpha_cached", "alpha_miss", "alpha_out", "speed", "alpha_depth")
            },
        )
        work, further = unavoidable(instance, cluster), 10
        shape = work.least.shape
        # columns: shares x[i, j], further misses k[i, j], the makespan
        fits = np.isfinite(work.least)
        least = np.where(fits, work.least, 0)
        size, n = least.size, shape[1]
        per_worker = np.kron(np.eye(3), np.ones(n))
        load = np.hstack([per_worker * least.ravel(), per_worker * work.extra.ravel()])
        no_more = np.hstack([-np.diag(np.tile(work.again, 3)), np.eye(size)])
        enough = np.hstack([np.zeros(size), -np.ones(size)])
        rows = np.vstack([no_more, enough])
        served = np.hstack([np.tile(np.eye(n), 3), np.zeros((n, size))])
        limits = [(0, float(f)) for f in fits.ravel()] + [(0, None)] * size
        right = np.append(np.zeros(size), -further)
        cost = linprog(
            load.sum(axis=0), rows, right, served, np.ones(n), bounds=limits, method="highs"
        )
        assert priced_bound(work, cluster, "cost", further) == pytest.approx(cost.fun, rel=1e-9)
        makespan = linprog(
            np.append(np.zeros(2 * size), 1),
            np.vstack(
                [
                    np.hstack([rows, np.zeros((len(rows), 1))]),
                    np.hstack([load, -np.ones((3, 1))]),
                ]
            ),
            np.append(right, np.zeros(3)),
            np.hstack([served, np.zeros((n, 1))]),
            np.ones(n),
            bounds=[*limits, (0, None)],
            method="highs",
        )
        found = priced_bound(work, cluster, "makespan", further)
        assert 0.99 * makespan.fun <= found <= makespan.fun * (1 + 1e-9)


def test_the_bound_is_no_smaller_than_that_of_the_smallest_costs():
    for instance, cluster, admission in small_problems(40, 8):
        misses = pooled_misses(instance, cluster, admission)
        low, high = cluster.alpha_cached.min(), cluster.alpha_miss.min()
        tokens = int(instance.output_length.sum())
        output = cluster.alpha_out.min() * tokens + cluster.overhead.min() * instance.requests
        seconds = low * instance.units_requested + (high - low) * misses + output
        bound = {b.name: b.value for b in lower_bounds(instance, cluster, "makespan", admission)}
        assert bound["pooled"] >= seconds / cluster.speed.sum() - 1e-9


def test_hits_that_cost_more_than_misses_are_avoided():
    instance = Instance.from_tokens([[1, 2], [1, 2], [1, 3]])
    work = unavoidable(instance, Cluster([3], alpha_cached=2.0, alpha_miss=1.0))
    assert work.compulsory.tolist() == [2, 0, 1]
    assert work.least.tolist() == [[2, 2, 2]]
    assert work.extra.tolist() == [[0, 0, 0]]


def test_queries_that_share_a_worker():
    # of 5 queries on 2 workers three share one: the three shortest of the five longest
    least = np.tile(np.array([1.0, 8, 7, 6, 5, 4]), (2, 1))
    assert [bound.value for bound in longest_queries(least)] == [8, 15]
    assert [bound.value for bound in longest_queries(np.zeros((2, 0)))] == [0, 0]


def test_an_empty_instance_costs_nothing():
    instance = Instance.from_tokens([])
    cluster = Cluster([2, 3])
    for objective in OBJECTIVES:
        assert {bound.value for bound in lower_bounds(instance, cluster, objective)} == {0}
        assert policy_bounds(instance, cluster, objective, routers=())[0].value == 0


# -- partition --------------------------------------------------------------------------------


def test_partition_gives_a_routing_that_can_be_served():
    for instance, cluster, admission in small_problems(40, 9):
        for grain in (1, 16):
            worker = partition(instance, cluster, grain=grain)
            routed_hits(instance, cluster, worker, admission)
    long = Instance.from_tokens([[1, 2, 3], [1, 2, 3], [4]])
    for objective in OBJECTIVES:
        assert partition(long, Cluster([2, 3]), objective).tolist()[:2] == [1, 1]


def test_subtrees_are_connected_and_small():
    instance = shared_prefix(groups=8, prompts=12, block_size=64, lengths=(512, 1024, 2048))
    seconds = instance.query_length.astype(float)
    for parts in (2, 8, 40, 1000):
        group = subtrees(instance, seconds, parts)
        work = np.bincount(group, seconds)
        members = np.bincount(group)
        assert (work[members > 1] <= seconds.sum() / parts).all()
    inside = Instance.from_tokens([[1, 2], [1], [1], [1], [1, 3]])
    assert len(np.unique(subtrees(inside, np.ones(5), 5))) == 5
    root = instance.tree.parent[instance.query]
    whole = subtrees(instance, seconds, 1)
    assert all(len(np.unique(whole[root == r])) == 1 for r in np.unique(root))
