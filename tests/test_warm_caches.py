"""Warm caches, output units, changing speeds and costs that grow with the depth."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kvtheory.cache import padded
from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances import multi_turn
from kvtheory.offline.optimum import optimum
from kvtheory.router import RoutingPolicy
from kvtheory.routing import LBGR, CacheAware, JoinShortestQueue, LeastWorkLeft, MaxHit, PrebleE2
from kvtheory.rows import rows_of
from kvtheory.simulate import simulate
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.testing.small_clusters import (
    VIEWS,
    ClusterCase,
    followed,
    random_clusters,
    with_everything,
)
from kvtheory.testing.twins import TWINS
from kvtheory.testing.twins_routing import PLAIN
from kvtheory.traces import read, write

LLRU = policy("llru")


def one_shape() -> list[ClusterCase]:
    """Cases of one padded shape, which compiles once for each router and view."""
    every = [with_everything(case) for case in random_clusters(40, 8, workers=3, free=False)]
    shape = [
        (padded(rows.tree.edges), padded(len(rows.log.edge)))
        for rows in (rows_of(case.instance).instance for case in every)
    ]
    most = max(shape, key=shape.count)
    return [case for case, s in zip(every, shape, strict=True) if s == most][:15]


CASES = one_shape()
ROUTERS = [
    MaxHit(),
    CacheAware(),
    LeastWorkLeft(),
    JoinShortestQueue(),
    LBGR(),
    PrebleE2(window=4.0),
]
PARAMETERS = {"preble_e2": {"window": 4.0}}


PAIRS = [(router, view) for router in ROUTERS for view in VIEWS]
FAST = {("lbgr", "routed")}


@pytest.mark.parametrize(
    ("router", "view"),
    [
        pytest.param(
            router,
            view,
            id=f"{router.name}-{view}",
            marks=[] if (router.name, view) in FAST else [pytest.mark.slow],
        )
        for router, view in PAIRS
    ],
)
def test_the_driver_serves_as_the_slow_cluster(router: RoutingPolicy, view: str) -> None:
    for case in CASES:
        given = {"believed": case.believed, **VIEWS[view]}
        if view == "routed":
            given["view_capacity"] = 8
        result = simulate_cluster(case.instance, case.cluster, router, LLRU, **given)
        twin = VIEWS[view] | ({"view_capacity": 8} if view == "routed" else {})
        log, _ = followed(
            lambda: PLAIN[router.name](3, **PARAMETERS.get(router.name, {})),
            result.worker[0].tolist(),
            case,
            twin,
        )
        assert result.hits[0].tolist() == [s.hits for s in log], str(case)
        assert result.believed[0].tolist() == [s.believed for s in log], str(case)
        for field in ("start", "first_token", "end"):
            assert getattr(result, field)[0].tolist() == [getattr(s, field) for s in log], str(case)


@pytest.mark.parametrize(
    "change", [pytest.param("ends", marks=pytest.mark.slow), "warm", "speed_changes", "alpha_depth"]
)
def test_each_of_them_matters(change: str) -> None:
    def without(case: ClusterCase) -> ClusterCase:
        if change in ("ends", "warm"):
            return dataclasses.replace(case, **{change: None if change == "ends" else ()})
        cluster = dataclasses.replace(case.cluster, **{change: 0.0 if "alpha" in change else ()})
        return dataclasses.replace(case, cluster=cluster)

    def end(case: ClusterCase) -> list[list[float]]:
        result = simulate_cluster(case.instance, case.cluster, JoinShortestQueue(), LLRU)
        return result.end.tolist()

    assert any(end(case) != end(without(case)) for case in CASES)


@pytest.mark.parametrize("name", ["llru", "fifo", "lfu", "cost_per_unit"])
def test_one_cache_is_warm_and_keeps_output_too(name: str) -> None:
    for case in CASES:
        twin = TWINS[name](6)
        for _, path in case.warm:
            twin.serve(path)
        hits = []
        assert case.ends is not None
        for query, end in zip(case.sequences, case.ends, strict=True):
            hits.append(twin.serve(query))
            twin.serve(end)
        assert simulate(case.instance, 6, policy(name)).hits[0].tolist() == hits, str(case)


@pytest.mark.parametrize("ending", ["npz", "jsonl"])
def test_files_hold_them(ending: str, tmp_path: Path) -> None:
    instance = CASES[0].instance
    write(instance, tmp_path / f"a.{ending}")
    assert read(tmp_path / f"a.{ending}") == instance
    alone = Instance(instance.tree, instance.query, end=instance.end)
    with pytest.raises(InputError, match="no place for end"):
        write(alone, tmp_path / "a.txt", "tokens")


def test_generated_conversations_keep_their_answers() -> None:
    given = {"conversations": 30, "turns": 3, "seed": 5, "system_tokens": 64}
    asked, kept = multi_turn(**given), multi_turn(**given, cache_output=True)
    assert kept.query_length.tolist() == asked.query_length.tolist()
    assert kept.end is not None
    assert kept.output_length is not None
    ends = np.append(kept.tree.depth, 0)[kept.end]
    assert ends.tolist() == ((kept.tokens + kept.output_length) // 16).tolist()
    # a later turn finds the answer of the one before
    hits = [simulate(i, 10**6, LLRU).total_hits[0] for i in (asked, kept)]
    assert hits[0] < hits[1] == kept.units_requested - sum(_new_units(kept))


def _new_units(instance: Instance) -> list[int]:
    """Units of each query that no path before it, answers included, holds."""
    seen: set[int] = set()
    new = []
    assert instance.end is not None
    tree = instance.tree
    for query, end in zip(instance.query.tolist(), instance.end.tolist(), strict=True):
        for k, node in enumerate((query, end)):
            units = 0
            while node >= 0:
                units += 0 if node in seen else int(tree.length[node])
                seen.add(node)
                node = int(tree.parent[node])
            if k == 0:
                new.append(units)
    return new


def test_the_optimum_of_one_cache_is_that_of_queries_alone() -> None:
    with pytest.raises(InputError, match="has warm caches or end nodes"):
        optimum(CASES[0].instance, 6)


def test_a_cut_or_uncompressed_instance_keeps_them() -> None:
    for case in CASES:
        instance = case.instance
        for view in (instance.uncompressed(), instance.truncate(4)):
            assert view.end is not None
            assert view.warm is not None
            assert instance.end is not None
            assert instance.warm is not None
            depth = np.append(view.tree.depth, 0)
            full = np.append(instance.tree.depth, 0)
            deepest = int(depth.max())
            for new, old in (
                (view.end, instance.end),
                (view.warm[:, 1], instance.warm[:, 1]),
                (view.query, instance.query),
            ):
                assert depth[new].tolist() == np.minimum(full[old], deepest).tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ends": [[2], [1]]}, r"end\[0\] = 1: must be at or below query\[0\]"),
        ({"ends": [[1, 2]]}, "ends = '1 lists': need one per query, 2"),
        ({"warm": [(-1, [1])]}, r"warm\[0\] = \[-1, 0\]: must be a worker of at least 0"),
    ],
)
def test_bad_instances(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Instance.from_tokens([[1], [2]], **given)  # type: ignore[arg-type]


def test_bad_workers_and_sizes() -> None:
    instance = Instance.from_tokens([[1]], ends=[[1, 2, 3]], warm=[(1, [5])], arrival=np.zeros(1))
    one = Cluster(capacity=[4])
    with pytest.raises(InputError, match="names a worker, but there are 1"):
        simulate_cluster(instance, one, MaxHit(), LLRU)
    with pytest.raises(InputError, match="the end node of query 0 has 3 units"):
        simulate_cluster(instance, Cluster(capacity=[2, 2]), MaxHit(), LLRU)
    for change, message in (
        ((1.0, 1, 2.0), "its worker must be below 1"),
        ((-1.0, 0, 2.0), "needs a time of at least 0 seconds"),
        ((1.0, 0, 0.0), "and a positive speed"),
    ):
        with pytest.raises(InputError, match=message):
            Cluster(capacity=[4], speed_changes=(change,))
