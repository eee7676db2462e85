"""Lanes over devices, in chunks that fit into memory, and what is kept of them."""

import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory import lanes as lanes_module
from kvtheory import simulate as driver
from kvtheory import simulate_cluster as cluster_driver
from kvtheory.cache import padded
from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.eviction import POLICIES, RLT, LeafLRU
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.lanes import Footprint, Plan, lane_devices, plan_lanes
from kvtheory.memory import SHARE, host_memory, told
from kvtheory.ratio.empirical import empirical_ratio
from kvtheory.result import Result
from kvtheory.routing import router
from kvtheory.simulate import simulate, simulate_capacities
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.totals import Totals, add_up, join

PAGE = Path(__file__).resolve().parents[1] / "docs" / "devices.md"
DEVICE = jax.local_devices()[0]
INSTANCE = shared_prefix(groups=6, prompts=6, block_size=128, rate=3.0)
BOTH = ["map", pytest.param("vmap", marks=pytest.mark.slow)]


def in_a_process(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Python code in a process of its own, as devices are forced before JAX starts."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told_by(process: subprocess.Popen[str]) -> Any:
    """What a process printed last, as JSON."""
    out, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-3000:]
    return json.loads(out.splitlines()[-1])


# Several devices.

EIGHT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
SHARDED = """
import json, sys
import jax, numpy as np
from kvtheory.cluster import Cluster
from kvtheory.eviction import RLT, LeafLRU
from kvtheory.instances import shared_prefix
from kvtheory.lanes import lane_devices
from kvtheory.routing import router
from kvtheory.simulate import simulate_capacities
from kvtheory.simulate_cluster import simulate_cluster

batching, seeds, capacities = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
instance = shared_prefix(groups=6, prompts=6, block_size=128, rate=3.0)
every = jax.local_devices()
assert len(every) == 8
assert lane_devices(None) == tuple(every)
FIELDS = ("hits", "worker", "believed", "start", "first_token", "end")

def caches(seeds, devices):
    return simulate_capacities(
        instance, capacities, RLT(), seeds=seeds, batching=batching, devices=devices
    )

def fleet(seeds, devices):
    cluster = Cluster([70, 90], block_size=128, alpha_miss=0.01)
    route = router("power_of_two")
    return simulate_cluster(
        instance, cluster, route, LeafLRU(), seeds=seeds, batching=batching, devices=devices
    )

def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

told = []
for n in seeds:
    one, many = caches(n, every[:1]), caches(n, None)
    told += [same(a.hits, b.hits) for a, b in zip(one, many, strict=True)]
    assert len(np.unique(one[0].hits, axis=0)) > 1
    alone, spread = fleet(n, every[:1]), fleet(n, None)
    told += [same(getattr(alone, field), getattr(spread, field)) for field in FIELDS]
    assert len(np.unique(alone.end, axis=0)) > 1
if "more" in sys.argv:
    told += [same(a.hits, b.hits) for a, b in zip(one, caches(n, every[5:]), strict=True)]
    told += [same(a.hits, b.hits) for a, b in zip(one, caches(n, every[7:]), strict=True)]
    with jax.default_device(every[3]):
        assert lane_devices(None) == (every[3],)
        told += [same(a.hits, b.hits) for a, b in zip(one, caches(n, None), strict=True)]
print(json.dumps(told))
"""


@pytest.mark.parametrize("batching", BOTH)
def test_eight_devices_equal_one_bit_for_bit(batching: str) -> None:
    # 22 lanes and 11: neither is a multiple of eight
    same = told_by(in_a_process(SHARDED, batching, "[11]", "[70, 110]", **EIGHT))
    assert same == [True] * (2 + 6)


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["map", "vmap"])
def test_any_number_of_lanes_on_eight_devices(batching: str) -> None:
    same = told_by(in_a_process(SHARDED, batching, "[3, 17]", "[110]", "more", **EIGHT))
    assert same == [True] * (2 * 7 + 3)


def test_devices_are_checked() -> None:
    assert lane_devices(None) == tuple(jax.local_devices())
    for wrong in ([], [DEVICE, DEVICE], ["cpu"]):
        with pytest.raises(InputError, match=r"devices = .*jax.local_devices"):
            simulate(INSTANCE, 110, LeafLRU(), devices=wrong)  # type: ignore[arg-type]


# Several processes.


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.exists(), reason="the pages are no part of a source distribution")
def test_the_recipes_of_the_page() -> None:
    totals, share = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(totals, names)
    whole = simulate(names["instance"], "20%", RLT(), seeds=64)
    half = names["half"]
    assert (names["run"].misses_of_first(half) == whole.misses_of_first(half)).all()
    # two processes that run a share each, and tell the mean over all seeds
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    pair = [in_a_process(share, address, str(p), JAX_PLATFORMS="cpu", XLA_FLAGS="") for p in (0, 1)]
    for process in pair:
        assert told_by(process) == whole.misses.mean()
    assert whole.misses.mean() not in (whole.misses[:32].mean(), whole.misses[32:].mean())


def test_runs_of_some_of_the_seeds_are_parts_of_one() -> None:
    whole = simulate(INSTANCE, 110, RLT(), seeds=6)
    parts = [simulate(INSTANCE, 110, RLT(), seeds=2, first_seed=first) for first in (0, 2, 4)]
    assert (np.concatenate([part.hits for part in parts]) == whole.hits).all()
    assert (parts[0].hits[0] != parts[1].hits[0]).any()
    for first in (-1, 2**32 - 1):
        with pytest.raises(InputError, match="first_seed = "):
            simulate(INSTANCE, 110, RLT(), seeds=2, first_seed=first)
    last = simulate(INSTANCE, 110, RLT(), seeds=2, first_seed=2**32 - 2)
    assert last.hits.shape == (2, INSTANCE.requests)


# Lanes at a time.


@given(
    lanes=st.integers(1, 300),
    most=st.integers(1, 40),
    count=st.integers(1, 9),
    batching=st.sampled_from(["map", "vmap"]),
    footprint=st.builds(Footprint, *(st.integers(0, 100) for _ in range(4))),
    room=st.integers(0, 10_000),
)
def test_plans_fit_and_waste_little(
    lanes: int, most: int, count: int, batching: str, footprint: Footprint, room: int
) -> None:
    devices: Any = tuple(range(count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes_module, "host_memory", lambda: room)
        patch.setattr(lanes_module, "device_memory", lambda device: None)
        try:
            plan = plan_lanes(lanes, footprint, batching, devices, most=most)
        except InputError:
            assert lanes * footprint.kept + footprint.on_device(1, batching) > room
            return
    each, used = plan.each, len(plan.devices)
    # all of it fits, on every device at once, with what is kept
    assert lanes * footprint.kept + used * footprint.on_device(each, batching) <= room
    assert 1 <= each <= most
    assert plan.devices == devices[:used]
    # no device is idle in all calls, and the last call is not all lanes run again
    calls = -(-lanes // plan.at_a_time)
    assert lanes > (calls - 1) * plan.at_a_time
    assert calls > 1 or (used - 1) * each < lanes
    # one lane less on each device would take more calls, one device less too
    assert each == 1 or -(-lanes // ((each - 1) * used)) > calls or used < count


def test_memory_of_a_device_counts_where_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "device_memory", lambda device: {"a": 900, "b": 500}[device])
    monkeypatch.setattr(lanes_module, "host_memory", lambda: 100)
    footprint = Footprint(shared=100, state=20, output=10, kept=1)
    devices: Any = ("a", "b")
    # 100 + 2·each·10 + 4·each·20 <= 500, the smaller of the two
    assert plan_lanes(80, footprint, "vmap", devices, most=80) == Plan(80, 4, devices)
    with pytest.raises(InputError, match=r"101 lanes needs .*first_seed="):
        plan_lanes(101, footprint, "vmap", devices, most=80)


def test_the_same_lanes_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulate_capacities(INSTANCE, [70, 110], RLT(), seeds=3)
    needed: list[Footprint] = []

    def small(lanes: int, footprint: Footprint, *rest: Any, **more: Any) -> Plan:
        needed.append(footprint)
        room = lanes * footprint.kept + footprint.on_device(2, "map")
        with monkeypatch.context() as patch:
            patch.setattr(lanes_module, "host_memory", lambda: room)
            return plan_lanes(lanes, footprint, *rest, **more)

    for name, value in (("plan_lanes", small), ("MAP_CHUNK", 2 * padded(INSTANCE.requests))):
        done: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(driver, name, value)
            parts = simulate_capacities(
                INSTANCE, [70, 110], RLT(), seeds=3, progress=done.append, devices=[DEVICE]
            )
        assert done == [2, 2, 2]
        for a, b in zip(whole, parts, strict=True):
            assert (a.hits == b.hits).all()
    # hits of every query are kept, or only their sums
    assert needed[0].kept == 4 * INSTANCE.requests
    monkeypatch.setattr(driver, "plan_lanes", small)
    simulate(INSTANCE, 110, RLT(), seeds=2, keep="totals", cuts=[5], devices=[DEVICE])
    assert needed[1].kept == 2 * 3 * 8


@pytest.mark.parametrize("keep", ["hits", "totals"])
def test_a_run_that_cannot_fit_says_so_first(keep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "host_memory", lambda: 40 * 2**20)
    seeds = 40 * 2**20 // (4 * INSTANCE.requests) + 1
    done: list[int] = []
    if keep == "hits":
        with pytest.raises(InputError, match=rf"{seeds:,} lanes needs 40 MiB .* only 40 MiB may"):
            simulate(INSTANCE, 110, RLT(), seeds=seeds, progress=done.append)
        wide = Cluster([110, 110], block_size=128)
        with pytest.raises(InputError, match=rf"{seeds:,} lanes needs 360 MiB"):
            simulate_cluster(INSTANCE, wide, router("random"), RLT(), seeds=seeds)
    monkeypatch.setattr(lanes_module, "host_memory", lambda: 1_000)
    with pytest.raises(InputError, match=r"one lane needs .*memory, but only .* a larger block"):
        simulate(INSTANCE, 110, RLT(), keep=keep, progress=done.append)
    assert done == []


def test_memory_of_this_machine() -> None:
    free = host_memory()
    assert free is not None
    assert 2**24 < free < 2**46
    if Path("/proc/meminfo").exists():
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        assert free <= SHARE * 1024 * int(lines["MemTotal"].split()[0])
    assert told(free).endswith("iB")


# The estimate against what XLA reserves.


def xla_bytes(compiled: Any) -> int:
    """Bytes of a compiled program: arguments, outputs, and all that lies between."""
    told = compiled.memory_analysis()
    return (
        told.argument_size_in_bytes
        + told.output_size_in_bytes
        + told.temp_size_in_bytes
        - told.alias_size_in_bytes
    )


def estimated_and_reserved(run: Any, module: Any, batching: str) -> tuple[int, int]:
    """The estimate of a run, and what XLA says of its program."""
    found: dict[str, Any] = {}

    def plan(lanes: int, footprint: Footprint, *rest: Any, **more: Any) -> Plan:
        found["plan"] = plan_lanes(lanes, footprint, *rest, **more)
        found["estimate"] = footprint.on_device(found["plan"].each, batching)
        return found["plan"]

    def stop(function: Any, static: Any, shared: Any, each: Any, plan: Plan) -> Any:
        some = jax.tree.map(lambda x: x[: plan.each], each)
        found["reserved"] = xla_bytes(function.lower(static, *shared, *some).compile())
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "plan_lanes", plan)
        patch.setattr(module, "run_lanes", stop)
        with pytest.raises(InterruptedError):
            run()
    return found["estimate"], found["reserved"]


WIDE = Instance.from_tokens(
    [[int(x) // 100, int(x) // 10, int(x)] for x in np.random.default_rng(0).integers(0, 3600, 900)]
)


@pytest.mark.parametrize("batching", ["map", "vmap"])
@pytest.mark.parametrize(
    "name", [n if n == "llru" else pytest.param(n, marks=pytest.mark.slow) for n in POLICIES]
)
def test_the_estimate_is_enough_and_not_much_more(name: str, batching: Any) -> None:
    estimate, reserved = estimated_and_reserved(
        lambda: simulate(
            WIDE, 300, POLICIES[name](), seeds=20, batching=batching, devices=[DEVICE]
        ),
        driver,
        batching,
    )
    assert reserved <= estimate <= 4 * reserved


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["map", "vmap"])
@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("round_robin", "oracle"),
        ("dynamo", "routed"),
        ("lbgr", "stale"),
        ("hedge:experts=lbgr+max_hit", "routed"),
    ],
)
def test_the_estimate_of_a_cluster(name: str, view: Any, batching: Any) -> None:
    instance = replace(WIDE, arrival=np.arange(WIDE.requests) / 10)
    refresh = 1.0 if view == "stale" else None

    def run() -> object:
        return simulate_cluster(
            instance,
            Cluster([300, 300, 300]),
            router(name),
            RLT(),
            view=view,
            refresh=refresh,
            seeds=20,
            batching=batching,
            devices=[DEVICE],
        )

    with jax.enable_x64(True):
        estimate, reserved = estimated_and_reserved(run, cluster_driver, batching)
    assert reserved <= estimate <= 4 * reserved


# What is kept.


@pytest.fixture(scope="module")
def runs() -> tuple[Result, Result]:
    """The same run with all hits and with totals only."""
    cuts = [INSTANCE.requests // 2, 7, 7]
    return (
        simulate(INSTANCE, 110, RLT(), seeds=6),
        simulate(INSTANCE, 110, RLT(), seeds=6, keep="totals", cuts=cuts),
    )


RATES = ("total_hits", "misses", "hit_rate_units", "hit_rate_tokens", "hit_rate_requests")


def test_totals_tell_what_hits_tell(runs: tuple[Result, Result]) -> None:
    hits, totals = runs
    assert len(np.unique(hits.total_hits)) > 1
    assert totals.seeds == hits.seeds == 6
    assert repr(totals) == repr(hits)
    for a, b in (runs, (hits.after(7), totals.after(7))):
        for name in RATES:
            assert (getattr(a, name) == getattr(b, name)).all(), name
            assert getattr(a, name).shape == (6,)
    half = INSTANCE.requests // 2
    for first in (7, half, INSTANCE.requests):
        assert (totals.misses_of_first(first) == hits.misses_of_first(first)).all()
    assert (
        totals.after(7).misses_of_first(half - 7) == hits.after(7).misses_of_first(half - 7)
    ).all()
    assert (hits.after(7).misses == hits.misses - hits.misses_of_first(7)).all()

    class Known:
        def __init__(self, value: float) -> None:
            self.lower = self.upper = value

    for kind in ("strict", "asymptotic"):
        a, b = (
            empirical_ratio(run, Known(600), kind=kind, half=Known(300))  # type: ignore[arg-type]
            for run in runs
        )
        assert a == b
        assert a.low < a.mean < a.high


def test_rates_by_hand() -> None:
    # prompts of 7, 5, 0 and 3 tokens in blocks of 4
    blocks = Instance.from_tokens([[1, 2], [1, 3], [], [1]], block_size=4)
    instance = replace(blocks, input_length=np.array([7, 5, 0, 3]))
    hits = np.array([[0, 1, 0, 1], [0, 0, 0, 0]], np.int32)
    for result in (
        Result(instance, "some", 3, hits),
        Result(instance, "some", 3, add_up(instance, hits)),
    ):
        assert result.total_hits.tolist() == [2, 0]
        assert result.misses.tolist() == [3, 5]
        assert result.hit_rate_units.tolist() == [2 / 5, 0]
        assert result.hit_rate_tokens.tolist() == [(4 + 3) / 15, 0]
        # the empty query does not count
        assert result.hit_rate_requests.tolist() == [1 / 3, 0]


def test_totals_of_parts_and_of_lanes() -> None:
    rng = np.random.default_rng(0)
    n = 50
    instance = Instance.from_tokens([[0] * int(k) for k in rng.integers(0, 9, n)])
    hits = rng.integers(0, instance.query_length + 1, (9, n))
    cuts = [0, 3, 3, 20, n]
    totals = add_up(instance, hits, cuts)
    assert totals.first == (0, 3, 20, n)
    for first in totals.first:
        assert (totals.units_of_first(first) == hits[:, :first].sum(axis=1)).all()
    for a, b in pairwise(totals.first):
        assert totals.after(a).first == tuple(k - a for k in totals.first if k > a)
        assert (totals.after(a).units_of_first(b - a) == hits[:, a:b].sum(axis=1)).all()
    several = join([add_up(instance, some, cuts) for some in np.split(hits, 3)])
    for name in ("units", "tokens", "requests"):
        assert (getattr(several, name) == getattr(totals, name)).all()
        assert (getattr(totals[2:4], name) == getattr(totals, name)[2:4]).all()
    with pytest.raises(InputError, match="same cuts"):
        join([totals, totals.after(3)])


def test_totals_have_64_bits_and_are_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance.from_tokens([[1], [2], [3]], block_size=512)
    monkeypatch.setattr("kvtheory.totals.BLOCK", 4)  # a lane at a time
    hits = np.full((2, 3), 2**30, np.int32)
    totals = add_up(instance, hits)
    assert totals.units.tolist() == [[3 * 2**30], [3 * 2**30]]
    with pytest.raises(ValueError, match="read-only"):
        totals.units[0, 0] = 1


def test_what_was_not_kept_is_not_told(runs: tuple[Result, Result]) -> None:
    totals = runs[1]
    assert isinstance(totals.kept, Totals)
    with pytest.raises(InputError, match="keep='hits'"):
        _ = totals.hits
    with pytest.raises(InputError, match=r"first 8 queries were not kept: .*cuts=\[8\]"):
        totals.misses_of_first(8)
    with pytest.raises(InputError, match="first 9 queries"):
        totals.after(9)
    for more, word in (
        ({"keep": "all"}, "keep = 'all'"),
        ({"cuts": [3]}, "belongs to keep='totals'"),
        ({"keep": "totals", "cuts": [-1]}, "cuts = "),
        ({"keep": "totals", "cuts": [INSTANCE.requests + 1]}, "numbers of queries, 0 to 36"),
    ):
        with pytest.raises(InputError, match=word):
            simulate(INSTANCE, 110, RLT(), **more)  # type: ignore[arg-type]


MEMORY = """
import json, resource, sys
from kvtheory.eviction import RLT
from kvtheory.instances import source
from kvtheory.simulate import simulate

instance = source("zipf:documents=50,requests=100000,levels=1,branching=4")
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
peaks = []
for seeds in (64, 192):
    calls = []
    simulate(instance, "20%", RLT(), seeds=seeds, keep="totals", progress=calls.append)
    assert sum(calls) == seeds and len(calls) == seeds // 32, calls
    peaks.append(peak())
print(json.dumps(peaks))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
def test_memory_is_flat_in_the_seeds() -> None:
    few, many = told_by(in_a_process(MEMORY, JAX_PLATFORMS="cpu", XLA_FLAGS=""))
    unit = 1 if sys.platform == "darwin" else 1024
    # 128 more lanes of 100,000 hits would be 51 MB
    assert (many - few) * unit < 10e6
    assert few * unit < 2**30
