"""Upper bounds on the joint optimum: local search, and routings of policies."""

import itertools
import time

import numpy as np
import pytest

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.offline.fixed_routing import best_for_routing, routed_hits
from kvtheory.offline.local_search import local_search
from kvtheory.offline.objective import OBJECTIVES, value
from kvtheory.offline.policy_bounds import ROUTERS, policy_bounds
from kvtheory.offline.pooled import lower_bounds
from kvtheory.routing import router
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.testing.small_clusters import random_clusters
from kvtheory.traces import read


def cases(examples, seed, workers, queries=16):
    for i, case in enumerate(random_clusters(examples, seed, workers)):
        part = case.cut(queries)
        yield part.instance, case.cluster, ("forced", "bypass")[i % 2]


def gsp(workers=4, capacity=12_000):
    instance = shared_prefix(block_size=16)
    return instance, Cluster([capacity] * workers, block_size=16, alpha_miss=0.16e-3 * 16)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_search_never_gets_worse_and_says_what_it_found(objective):
    for instance, cluster, admission in cases(6, 1, 3):
        rng = np.random.default_rng(instance.requests)
        start = rng.integers(3, size=instance.requests)
        told = []
        found = local_search(
            instance,
            cluster,
            objective,
            start,
            admission,
            time_limit=None,
            steps=200,
            progress=lambda seconds, best, told=told: told.append((seconds, best)),
        )
        begin = value(
            objective, instance, cluster, start, routed_hits(instance, cluster, start, admission)
        )
        seconds, values = zip(*found.trace, strict=True)
        assert values[0] == pytest.approx(begin)
        assert values[-1] == pytest.approx(found.value)
        assert all(b < a for a, b in itertools.pairwise(values))
        assert list(seconds) == sorted(seconds)
        assert told == list(found.trace)
        assert found.steps == 200
        _, hits = best_for_routing(instance, cluster, found.worker, admission)
        assert np.array_equal(hits, found.hits)
        assert found.value == value(objective, instance, cluster, found.worker, hits)
        lower = lower_bounds(instance, cluster, objective, admission)[0].value
        assert lower <= found.value + 1e-9


def test_depth_costs_are_those_of_the_objective():
    for instance, cluster, admission in cases(4, 2, 2):
        deep = Cluster(cluster.capacity, alpha_miss=1.0, alpha_depth=0.5, speed=cluster.speed)
        start = np.arange(instance.requests) % 2
        found = local_search(instance, deep, "cost", start, admission, time_limit=None, steps=100)
        assert found.trace[-1][1] == pytest.approx(found.value)


def test_a_seed_decides_what_is_found():
    instance, cluster, _ = next(cases(1, 3, 3))
    start = np.zeros(instance.requests, int)

    def run(seed, steps=60):
        return local_search(
            instance, cluster, "makespan", start, seed=seed, time_limit=None, steps=steps
        )

    first, again = run(0), run(0)
    assert np.array_equal(first.worker, again.worker)
    assert [v for _, v in first.trace] == [v for _, v in again.trace]
    traces = {tuple(v for _, v in run(seed).trace) for seed in range(5)}
    assert len(traces) > 1
    assert run(0, steps=0).worker.tolist() == start.tolist()


def test_small_optima_are_mostly_found():
    reached, all_of_them = 0, 0
    for instance, cluster, admission in cases(4, 4, 2, queries=7):
        best = dict.fromkeys(OBJECTIVES, np.inf)
        for worker in itertools.product(range(2), repeat=7):
            hits = routed_hits(instance, cluster, np.array(worker), admission)
            for objective in OBJECTIVES:
                this = value(objective, instance, cluster, np.array(worker), hits)
                best[objective] = min(best[objective], this)
        for objective in OBJECTIVES:
            start = policy_bounds(instance, cluster, objective, admission, routers=())[0]
            found = local_search(
                instance, cluster, objective, start.worker, admission, time_limit=None, steps=300
            )
            assert lower_bounds(instance, cluster, objective, admission)[0].value <= (
                best[objective] + 1e-9
            )
            assert best[objective] <= found.value + 1e-9
            reached += found.value <= best[objective] + 1e-9
            all_of_them += 1
    assert reached >= 0.9 * all_of_them


def test_a_search_gets_far_from_a_bad_start():
    instance = shared_prefix(groups=16, prompts=8, block_size=64, lengths=(512, 1024, 2048))
    cluster = Cluster([200] * 3, block_size=64)
    start = np.random.default_rng(0).integers(3, size=instance.requests)
    lower = lower_bounds(instance, cluster, "misses")[0].value
    found = local_search(instance, cluster, "misses", start, time_limit=None, steps=1_000)
    assert found.value == lower < found.trace[0][1]
    lower = lower_bounds(instance, cluster, "makespan")[0].value
    found = local_search(instance, cluster, "makespan", start, time_limit=None, steps=1_000)
    assert found.value < 1.2 * lower < found.trace[0][1]
    # a whole group on each worker at a time: the groups can be split evenly
    assert policy_bounds(instance, cluster, "makespan", routers=())[0].value == lower


def test_a_kick_never_costs_the_best():
    instance = Instance.from_tokens([[1, 2], [3, 4], [1, 2], [3, 4]])
    best = np.array([0, 1, 0, 1])
    for seed in range(4):
        # it is kicked after n + 201 steps without gain, and ends one step later
        found = local_search(
            instance, Cluster([2, 2]), "makespan", best, seed=seed, time_limit=None, steps=206
        )
        assert found.value == 2
        assert found.worker[0] != found.worker[1]


def test_limits_end_a_search():
    instance, cluster = gsp(capacity=1_500)
    start = np.arange(instance.requests) % 4
    began = time.perf_counter()
    found = local_search(instance, cluster, "makespan", start, time_limit=0.3)
    # one step may have begun just before, on a busy machine
    assert time.perf_counter() - began < 3
    assert found.steps > 0
    at_once = local_search(instance, cluster, "makespan", start, time_limit=0)
    assert at_once.steps == 0
    assert at_once.worker.tolist() == start.tolist()
    done = local_search(instance, cluster, "makespan", start, target=at_once.value, time_limit=60)
    assert done.steps == 0


def test_nothing_to_choose():
    instance = Instance.from_tokens([[1], [2]])
    for some, cluster in ((instance, Cluster([1])), (Instance.from_tokens([]), Cluster([1, 1]))):
        start = np.zeros(some.requests, int)
        found = local_search(some, cluster, "makespan", start, time_limit=60)
        assert found.worker.tolist() == start.tolist()
        assert found.steps == 0


def test_queries_stay_where_they_fit():
    queries = [[i, i, i, i] if i % 2 else [i] for i in range(8)]
    instance, cluster = Instance.from_tokens(queries), Cluster([2, 4], speed=[4.0, 1.0])
    start = np.ones(8, int)
    found = local_search(instance, cluster, "makespan", start, time_limit=None, steps=200)
    assert found.worker[1::2].tolist() == [1] * 4
    assert found.value < found.trace[0][1]


def test_bad_arguments_are_refused():
    instance, cluster = Instance.from_tokens([[1]]), Cluster([1])
    with pytest.raises(InputError, match="time_limit"):
        local_search(instance, cluster, "cost", np.array([0]), time_limit=None)
    with pytest.raises(InputError, match="steps"):
        local_search(instance, cluster, "cost", np.array([0]), steps=-1)
    with pytest.raises(InputError, match="objective"):
        local_search(instance, cluster, "time", np.array([0]))
    with pytest.raises(InputError, match="worker"):
        local_search(instance, cluster, "cost", np.array([1]))


# -- policies ---------------------------------------------------------------------------------


def test_no_policy_beats_its_own_routing_with_belady_nor_a_lower_bound():
    lower_than_policy = 0
    for instance, cluster, _ in cases(4, 5, 2):
        run = simulate_cluster(instance, cluster, router("least_work_left"), policy("llru"))
        worker, served = run.worker[0], run.hits[0]
        hits = routed_hits(instance, cluster, worker)
        bounds = policy_bounds(instance, cluster, "makespan", routers=["least_work_left"])
        assert [b.value for b in bounds] == sorted(b.value for b in bounds)
        named = {bound.name: bound for bound in bounds}
        assert np.array_equal(named["least_work_left"].worker, worker)
        assert np.array_equal(named["least_work_left"].hits, hits)
        for objective in OBJECTIVES:
            policy_value = value(objective, instance, cluster, worker, served)
            belady_value = value(objective, instance, cluster, worker, hits)
            lower = lower_bounds(instance, cluster, objective)[0].value
            assert lower <= belady_value + 1e-9 <= policy_value + 2e-9
            lower_than_policy += belady_value < policy_value - 1e-9
    assert lower_than_policy > 0


def test_routers_run_without_arrival_times_and_stop_in_time():
    instance, cluster, _ = next(cases(1, 6, 2))
    timeless = Instance(instance.tree, instance.query, output_length=instance.output_length)
    told = []
    bounds = policy_bounds(
        timeless, cluster, "cost", routers=["least_work_left"], progress=told.append
    )
    assert len(bounds) == len(told) == 4  # two partitions, the cheapest worker, the router
    assert {bound.name for bound in bounds} > {"least_work_left", "cheapest worker"}
    assert len(policy_bounds(timeless, cluster, "cost", time_limit=0)) == 1
    with pytest.raises(InputError, match="router"):
        policy_bounds(timeless, cluster, "cost", routers=["least_work_right"])
    for name in ROUTERS:
        router(name)


# -- at scale ---------------------------------------------------------------------------------


def test_gsp_has_a_narrow_interval():
    instance, cluster = gsp()
    for objective in OBJECTIVES:
        lower = lower_bounds(instance, cluster, objective)[0].value
        start = policy_bounds(instance, cluster, objective, routers=())[0]
        found = local_search(
            instance, cluster, objective, start.worker, time_limit=None, steps=300, target=lower
        )
        assert lower <= found.value * (1 + 1e-9)
        assert found.value <= 1.01 * lower
        if objective == "makespan":
            # every unit once, on four workers: the figure of the model's description
            assert lower == pytest.approx(264.3, abs=0.05)
            assert found.value < start.value


@pytest.mark.parametrize("workers", [4, 8])
def test_a_conversation_trace_has_a_narrow_interval(shared_traces, workers):
    instance = read(shared_traces / "mooncake" / "conversation_trace.jsonl.gz")
    cluster = Cluster([3_000] * workers, block_size=512, alpha_miss=0.16e-3 * 512)
    for objective in OBJECTIVES:
        lower = lower_bounds(instance, cluster, objective)[0].value
        upper = policy_bounds(instance, cluster, objective, routers=())[0].value
        assert lower <= upper <= 1.001 * lower
