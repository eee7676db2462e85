"""The optimum of routing and eviction: every method, its replay, limits and errors."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from kvtheory.cli import main
from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.offline import Schedule, ScheduleError, optimum
from kvtheory.offline import joint_replay as replaying
from kvtheory.offline.joint import joint_optimum
from kvtheory.offline.joint_replay import verify_joint
from kvtheory.testing.exhaustive_joint import joint_by_search

OBJECTIVES = ("misses", "cost", "makespan")
SMALL = shared_prefix(groups=8, prompts=5, lengths=(64, 128, 256), block_size=16, seed=1)
PAIR = Cluster([30, 30], block_size=16, alpha_miss=0.01)


def random_case(seed: int) -> tuple[Instance, Cluster]:
    rng = np.random.default_rng(seed)
    pool = [rng.integers(2, size=rng.integers(1, 4)).tolist() for _ in range(4)]
    instance = Instance.from_tokens([pool[i] for i in rng.integers(4, size=6)])
    workers = int(rng.integers(1, 4))
    cluster = Cluster(
        rng.integers(3, 6, workers),
        alpha_miss=rng.choice([1.0, 2.0], workers),
        alpha_cached=0.25,
        overhead=0.5,
        speed=rng.choice([1.0, 2.0], workers),
    )
    return instance, cluster


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("admission", ["forced", "bypass"])
def test_auto_is_the_exhaustive_optimum(objective: str, admission: str) -> None:
    for seed in range(5):
        instance, cluster = random_case(seed)
        best = joint_by_search(instance.sequences(), cluster, objective, admission)
        found = joint_optimum(instance, cluster, objective, admission=admission)  # type: ignore[arg-type]
        assert found.status == "optimal"
        assert found.upper == pytest.approx(best, rel=1e-9)
        assert found.lower == pytest.approx(best, rel=1e-6)
        assert found.why


@pytest.mark.parametrize("method", ["pooled", "lp", "mip"])
def test_every_method_gives_an_interval_around_the_optimum(method: str) -> None:
    for seed in range(20, 26):
        instance, cluster = random_case(seed)
        best = joint_by_search(instance.sequences(), cluster, "makespan", "forced")
        found = joint_optimum(instance, cluster, "makespan", method=method, time_limit=20)  # type: ignore[arg-type]
        assert found.lower <= best * (1 + 1e-9)
        assert found.upper >= best * (1 - 1e-9)


def test_one_worker_is_belady_and_the_interval_program() -> None:
    cluster = replace(
        PAIR,
        **{
            k: getattr(PAIR, k)[:1]
            for k in (
                "capacity",
                "alpha_miss",
                "alpha_cached",
                "alpha_out",
                "overhead",
                "speed",
                "alpha_depth",
            )
        },
    )
    alone = optimum(SMALL, 30)
    for method in ("auto", "belady", "interval_lp"):
        misses = optimum(SMALL, cluster, method=method)  # type: ignore[arg-type]
        cost = optimum(SMALL, cluster, "cost", method=method)  # type: ignore[arg-type]
        assert misses.lower == misses.upper == alone.upper
        assert cost.lower == pytest.approx(cost.upper) == pytest.approx(0.01 * alone.upper)
        assert isinstance(misses.upper, int)


def test_growing_costs_are_evicted_by_depth() -> None:
    deep = replace(PAIR, alpha_depth=np.full(2, 0.002))
    some = SMALL.prefix(10)
    found = joint_optimum(some, deep, "cost", time_limit=20)
    assert found.lower <= found.upper * (1 + 1e-9)
    assert found.upper >= joint_optimum(some, PAIR, "cost").upper
    assert found.instance is not None
    verify_joint(found.schedule, found.instance, deep, "cost", found.upper)


def test_a_schedule_is_a_value(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = joint_optimum(SMALL, PAIR, "makespan")
    found.schedule.save(tmp_path / "best.npz")
    again = Schedule.load(tmp_path / "best.npz")
    assert again == found.schedule
    assert found.instance is not None
    hits = verify_joint(again, found.instance, PAIR, "makespan", found.upper)
    assert hits.tolist() == found.hits.tolist()


def test_a_claim_that_the_replay_does_not_confirm_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    found = joint_optimum(SMALL, PAIR, "makespan")
    whole, schedule = found.instance, found.schedule
    assert whole is not None
    with pytest.raises(ScheduleError, match="is claimed"):
        verify_joint(schedule, whole, PAIR, "makespan", 0.999 * found.upper)
    other = replace(schedule, worker=1 - schedule.worker)
    moved = replace(schedule, worker=np.roll(schedule.worker, 1))
    verify_joint(other, whole, PAIR, "makespan", found.upper)  # equal workers may change places
    with pytest.raises(ScheduleError):
        verify_joint(moved, whole, PAIR, "makespan", found.upper)
    driven = replaying._driven
    monkeypatch.setattr(replaying, "_driven", lambda *a: (driven(*a)[0], 2 * found.upper))
    with pytest.raises(ScheduleError, match="the driver has makespan"):
        verify_joint(schedule, whole, PAIR, "makespan", found.upper)


def test_a_time_limit_keeps_the_best_interval() -> None:
    instance = shared_prefix(groups=25, prompts=8, block_size=16, seed=3)
    cluster = Cluster([1500, 1500], block_size=16, alpha_miss=0.01)
    seen: list[tuple[float, float]] = []
    found = joint_optimum(
        instance,
        cluster,
        "makespan",
        method="mip",
        time_limit=3,
        progress=lambda seconds, lower, upper, what: seen.append((lower, upper)),
    )
    assert found.status in ("time limit", "optimal")
    assert 0 < found.lower <= found.upper
    assert seen
    assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in pairwise(seen))
    assert [t[1:] for t in found.trace][: len(seen)] == seen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "belady"}, "method = 'belady': is for one worker with equal miss costs"),
        ({"method": "guess"}, "unknown method 'guess'"),
        ({"objective": "latency"}, "objective = 'latency'|unknown objective 'latency'"),
        ({"time_limit": 0.0}, "time_limit = 0.0: must be a positive number of seconds"),
        ({"method": "mip", "solver": "ABACUS"}, "ABACUS"),
        ({"method": "pooled", "solver": "HIGHS"}, "method 'pooled' needs none"),
        ({"oversize": "skip"}, "oversize = 'skip': must be 'error' or 'truncate'"),
    ],
)
def test_bad_arguments(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        joint_optimum(SMALL, PAIR, **given)  # type: ignore[arg-type]


def test_a_query_longer_than_every_cache_is_named() -> None:
    with pytest.raises(InputError, match=r"query \d+ has 16 units and the cache only 8"):
        joint_optimum(SMALL, Cluster([8, 8], block_size=16), "misses")
    cut = joint_optimum(SMALL, Cluster([8, 8], block_size=16), "misses", oversize="truncate")
    assert cut.lower <= cut.upper <= SMALL.units_requested


def test_the_command(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    source = "shared_prefix:groups=6,prompts=4,lengths=64/128,block_size=16"
    file = tmp_path / "best.npz"
    given = ["optimum", source, "--workers", "2", "--capacity", "20", "--time-limit", "20"]
    assert main([*given, "--json", "--schedule", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    keys = {"objective", "admission", "lower", "upper", "gap", "method", "status", "seconds"}
    assert keys <= set(told)
    assert told["lower"] <= told["upper"] * (1 + 1e-9)
    assert Schedule.load(file).steps == 24
    assert main(given) == 0
    assert "the schedule has been replayed by the driver" in capsys.readouterr().out
