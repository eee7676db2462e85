"""What is measured. A case is a function from `Setting` to measurements."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kvtheory.bench import rivals
from kvtheory.bench.curve_cases import curve
from kvtheory.bench.measure import Measurement, missing, rate, seconds, timed, times_faster
from kvtheory.bench.rival_cases import rival, twins
from kvtheory.bench.setting import BLOCKS, TOKENS, Setting, default_trace
from kvtheory.bench.step_cases import steps
from kvtheory.bench.width import width
from kvtheory.cluster import Cluster
from kvtheory.cluster_result import ClusterResult
from kvtheory.errors import unknown
from kvtheory.eviction import POLICIES, policy
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix, zipf
from kvtheory.offline.optimum import optimum
from kvtheory.routing import ROUTERS, router
from kvtheory.simulate import simulate
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.traces import read

__all__ = ["CASES", "Setting", "default_trace", "run"]

LEARNING = ("lbgr", "lbgr_published")
BY_KEY = ("fifo", "lfu", "mru", "slru", "cost_per_unit", "tail_lru", "node_lru")


def run(names: Sequence[str] = (), setting: Setting | None = None) -> Iterator[Measurement]:
    """Run the cases of these names, all by default."""
    setting = setting or Setting()
    for name in names:
        if name not in CASES:
            raise unknown("case", name, CASES)
    for name in names or CASES:
        yield from CASES[name](setting)


def _throughput(
    setting: Setting, name: str, instance: Instance, capacity: int, text: str, goal: str = ""
) -> tuple[Measurement, list[float]]:
    first, *rest = setting.runs(instance, capacity, text)
    times = [r.seconds for r in rest]
    measured = rate(
        name,
        instance.requests,
        times,
        "queries/s",
        goal=goal,
        note=f"{instance.name}, {instance.requests:,} queries",
        compile_seconds=first.compile_seconds,
    )
    return measured, times


def leaf_lru(setting: Setting) -> Iterator[Measurement]:
    """Leaf LRU, and against libCacheSim's LRU."""
    for block, instance, goal, goal_rival in (
        (16, setting.gsp, ">= 5e6", ">= 50"),
        (1, setting.gsp_tokens, "", ">= 2000"),
    ):
        capacity = TOKENS // block
        measured, times = _throughput(
            setting, f"llru, block {block}", instance, capacity, "llru", goal
        )
        yield measured
        yield _against_lru(setting, f"block {block}", instance, capacity, times, goal_rival)
    if setting.conversation is not None:
        measured, times = _throughput(
            setting, "llru, conversation", setting.conversation, BLOCKS, "llru"
        )
        yield measured
        yield _against_lru(setting, "conversation", setting.conversation, BLOCKS, times, ">= 8")


def _against_lru(
    setting: Setting, where: str, instance: Instance, capacity: int, times: list[float], goal: str
) -> Measurement:
    name = f"llru against libcachesim's LRU, {where}"
    try:
        with rivals.unrolled(instance) as path:
            slow, _ = rivals.libcachesim_seconds(path, "LRU", capacity, min(3, setting.repeats))
    except ImportError as error:
        return missing(name, "x", error, goal=goal)
    return times_faster(name, slow, times, goal=goal, note=f"{instance.units_requested:,} units")


def rlt(setting: Setting) -> Iterator[Measurement]:
    """RLT, exact in law."""
    for block, instance, goal in (
        (16, setting.gsp, ">= 3e5"),
        (1, setting.gsp_tokens, ">= 3.5e4"),
    ):
        yield _throughput(setting, f"rlt, block {block}", instance, TOKENS // block, "rlt", goal)[0]


def by_key(setting: Setting) -> Iterator[Measurement]:
    """Policies that are a key per unit."""
    for text in BY_KEY:
        if text in POLICIES:
            yield _throughput(
                setting, f"{text}, block 16", setting.gsp, TOKENS // 16, text, ">= 1e6"
            )[0]


def lanes(setting: Setting) -> Iterator[Measurement]:
    """Seeds as lanes: time of 64 against one, memory of 256."""
    one = [r.seconds for r in setting.runs(setting.gsp, TOKENS // 16, "rlt")[1:]]
    many = [r.seconds for r in setting.runs(setting.gsp, TOKENS // 16, "rlt", seeds=64)[1:]]
    yield Measurement(
        "rlt, 64 seeds against one",
        statistics.median(many) / statistics.median(one),
        "x",
        min(many) / max(one),
        max(many) / min(one),
        goal="<= 70",
        note="time of all lanes",
    )
    # the high-water mark of a process never falls, so it takes one of its own
    code = (
        "import resource;from kvtheory.eviction import policy;"
        "from kvtheory.instances import shared_prefix;from kvtheory.simulate import simulate;"
        f"simulate(shared_prefix(block_size=16), {TOKENS // 16}, policy('rlt'), seeds=256);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kib = int(told.stdout) / (1024 if sys.platform == "darwin" else 1)
    yield Measurement(
        "rlt, 256 seeds, memory at most", kib / 2**20, "GiB", goal="<= 4", note="whole process"
    )


def clusters(setting: Setting) -> Iterator[Measurement]:
    """Routers with leaf LRU on four workers, and one worker of a cluster against a cache alone."""
    instance = shared_prefix(block_size=16, rate=12.0)

    def runs(text: str, workers: int) -> list[ClusterResult]:
        size = np.full(workers, TOKENS // 16)
        cluster = Cluster(size, block_size=16, alpha_miss=np.full(workers, 0.16e-3 * 16))
        return [
            simulate_cluster(instance, cluster, router(text), policy("llru"))
            for _ in range(setting.repeats + 1)
        ]

    for text in ROUTERS:
        first, *rest = runs(text, 4)
        yield rate(
            f"{text}, 4 workers",
            instance.requests,
            [r.seconds for r in rest],
            "queries/s",
            goal=">= 3e5" if text in LEARNING else ">= 1e6",
            note=f"{instance.name} at 12/s, {instance.requests:,} queries",
            compile_seconds=first.compile_seconds,
        )
    one = [r.seconds for r in runs("round_robin", 1)[1:]]
    alone = [r.seconds for r in setting.runs(instance, TOKENS // 16, "llru")[1:]]
    yield Measurement(
        "a cluster of one worker against a cache alone",
        statistics.median(one) / statistics.median(alone),
        "x",
        min(one) / max(alone),
        max(one) / min(alone),
        goal="<= 2.5",
        note="round_robin, llru, time of both",
    )


def building(setting: Setting) -> Iterator[Measurement]:
    """From tokens or a file to a tree."""
    sequences = setting.gsp_tokens.sequences()
    yield seconds(
        "tree of token lists",
        timed(lambda: Instance.from_tokens(sequences), setting.repeats),
        goal="<= 0.5",
        note=f"{setting.gsp_tokens.units_requested:,} tokens",
    )
    trace = setting.trace
    if trace is not None:
        yield seconds(
            "reading a trace, tree included",
            timed(lambda: read(trace), setting.repeats),
            goal="<= 0.3",
            note=trace.name,
        )


def optima(setting: Setting) -> Iterator[Measurement]:
    """The offline optimum of the conversation trace, or of the shared-prefix instance."""
    instance, capacity = setting.conversation, BLOCKS
    goals = ("<= 0.1", "<= 5")
    if instance is None:
        instance, capacity, goals = setting.gsp, TOKENS // 16, ("", "")
    for name, method, goal in zip(("belady", "lp"), ("belady", "interval_lp"), goals, strict=True):
        repeats = setting.repeats if method == "belady" else min(2, setting.repeats)

        def work(method: Any = method) -> object:
            return optimum(instance, capacity, method=method)

        yield seconds(
            f"optimum by {name}",
            timed(work, repeats),
            goal=goal,
            note=f"{instance.name}, {capacity:,} units",
        )


def million(setting: Setting) -> Iterator[Measurement]:
    """A million requests on a million edges, every policy once."""
    instance = zipf(documents=4_000_000, requests=1_000_000, exponent=0.5, levels=2, branching=4)
    capacity = instance.tree.units // 20
    for text in POLICIES:
        try:
            result = simulate(instance, capacity, policy(text))
        except Exception as error:
            yield Measurement(f"{text}, a million requests", None, "s", note=str(error)[:60])
            continue
        yield Measurement(
            f"{text}, a million requests",
            result.seconds,
            "s",
            goal="<= 5",
            note=f"{instance.tree.edges:,} edges",
            compile_seconds=result.compile_seconds,
        )


CASES: dict[str, Callable[[Setting], Iterator[Measurement]]] = {
    "leaf_lru": leaf_lru,
    "curve": curve,
    "rivals": rival,
    "twins": twins,
    "rlt": rlt,
    "by_key": by_key,
    "lanes": lanes,
    "width": width,
    "steps": steps,
    "clusters": clusters,
    "building": building,
    "optima": optima,
    "million": million,
}
