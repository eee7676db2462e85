"""Curves over all capacities, against a run for each."""

from collections.abc import Iterator

from kvtheory.bench import kvcache_simulator, rivals
from kvtheory.bench.measure import Measurement, missing, seconds, timed, timed_apart, times_faster
from kvtheory.bench.setting import Setting
from kvtheory.curve import leaf_lru_curve, leaf_lru_hits, optimum_curve
from kvtheory.curve.points import spread
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.offline.belady import belady
from kvtheory.simulate import simulate_capacities

POINTS = 64
SWEEP = 16  # capacities of the run of kvcache-simulator


def curve(setting: Setting) -> Iterator[Measurement]:
    """Leaf LRU and the optimum at every capacity, against runs at some."""
    instance = setting.conversation or setting.gsp
    capacities = spread(instance, POINTS)
    times, compiling = timed_apart(lambda: leaf_lru_curve(instance), setting.repeats)
    every = leaf_lru_curve(instance)
    yield seconds(
        "leaf LRU at every capacity",
        times,
        note=f"{instance.name}, {len(every.hits):,} capacities",
        compile_seconds=compiling,
    )
    runs = simulate_capacities(instance, capacities, policy("llru"))
    equal = every.at(capacities).tolist() == [int(run.total_hits[0]) for run in runs]
    yield _against_libcachesim(setting, instance, capacities, times, equal)
    yield _against_kvcache_simulator(setting, instance)

    best, compiling = timed_apart(lambda: optimum_curve(instance), setting.repeats)
    optimum = optimum_curve(instance)
    yield seconds(
        "the optimum at every capacity",
        best,
        note=f"{instance.name}, {len(optimum.hits):,} capacities",
        compile_seconds=compiling,
    )
    some = capacities[:: max(1, len(capacities) // 8)]
    hits: list[int] = []
    slow = timed(lambda: hits.extend(_belady(instance, some)), 1, warm=False)
    same = hits == optimum.at(some).tolist()
    yield times_faster(
        f"the optimum at every capacity against {len(capacities)} runs of Belady's rule",
        slow,
        best,
        share=len(some) / len(capacities),
        note=f"of which {len(some)} were made, in plain Python; counts {_equal(same)}",
    )


def _belady(instance: Instance, capacities: list[int]) -> list[int]:
    return [int(belady(instance, capacity)[1].sum()) for capacity in capacities]


def _against_libcachesim(
    setting: Setting, instance: Instance, capacities: list[int], times: list[float], equal: bool
) -> Measurement:
    name = f"leaf LRU at every capacity against {len(capacities)} runs of libcachesim's LRU"
    goal = ">= 100"
    repeats = min(3, setting.repeats)
    try:
        with rivals.unrolled(instance) as path:
            each = [rivals.libcachesim_seconds(path, "LRU", c, repeats)[0] for c in capacities]
    except ImportError as error:
        return missing(name, "x", error, goal=goal)
    slow = [sum(run) for run in zip(*each, strict=True)]
    note = f"{instance.name}; our counts {_equal(equal)} to as many runs of our own"
    return times_faster(name, slow, times, goal=goal, note=note)


def _against_kvcache_simulator(setting: Setting, instance: Instance) -> Measurement:
    warmup = instance.requests // 2
    # the largest cache that is full by then
    full = _units_of_first(instance, warmup)
    capacities = [c for c in spread(instance, POINTS) if c <= full][:: max(1, POINTS // SWEEP)]
    name = f"leaf LRU at {len(capacities)} capacities against kvcache-simulator's"
    try:
        slow, theirs = kvcache_simulator.lru_seconds(instance, capacities, warmup, setting.repeats)
    except ImportError as error:
        return missing(name, "x", error)
    sequences = instance.sequences()
    block = instance.block_size
    tokens = instance.tokens[warmup:]

    def ours() -> list[int]:
        built = Instance.from_blocks(sequences, ids="local")
        hits = leaf_lru_hits(built, capacities)[:, warmup:].astype(int)
        return [int((h * block).clip(max=tokens).sum()) for h in hits]

    fast, compiling = timed_apart(ours, setting.repeats)
    note = f"{instance.name}, tree built anew; hit tokens {_equal(ours() == theirs)}"
    return times_faster(name, slow, fast, note=note, compile_seconds=compiling)


def _units_of_first(instance: Instance, requests: int) -> int:
    """Distinct units of the first queries: what an unbounded cache holds after them."""
    part = instance.prefix(requests)
    return int(part.tree.length[list(set(part.log.edge.tolist()))].sum())


def _equal(equal: bool) -> str:
    return "equal" if equal else "NOT EQUAL"
