"""Eviction policies against libCacheSim and the plain-Python twins, on the same requests."""

import random
from collections.abc import Iterator

from kvtheory.bench import rivals
from kvtheory.bench.measure import Measurement, missing, timed, times_faster
from kvtheory.bench.setting import Setting, whole_runs
from kvtheory.testing import DETERMINISTIC, RANDOM, TWINS

TWIN_POLICIES = ("llru", "fifo", "lfu", "random_leaf", "rlt", "belady")


def rival(setting: Setting) -> Iterator[Measurement]:
    """LRU, FIFO, Random and Belady, each on the unrolled units and on the tree."""
    for where, instance, capacity in setting.workloads:
        flat = rivals.paging(instance)
        with rivals.unrolled(instance) as path:
            for theirs, ours in rivals.POLICIES.items():
                names = [f"{ours} against libcachesim's {theirs}, {where}{on}" for on in _ON]
                try:
                    slow, rate = rivals.libcachesim_seconds(
                        path, theirs, capacity, min(3, setting.repeats)
                    )
                except ImportError as error:
                    yield from (missing(name, "x", error) for name in names)
                    continue
                for name, run in zip(names, (flat, instance), strict=True):
                    times, compiling, result = whole_runs(setting, run, capacity, ours)
                    note = f"{instance.units_requested:,} units"
                    if run is flat:
                        note += f"; hit rates {result.hit_rate_units[0]:.4f} and {rate:.4f}"
                        if ours in DETERMINISTIC:
                            hits = round(rate * flat.requests)
                            equal = hits == int(result.total_hits[0])
                            note += ", equal" if equal else ", NOT EQUAL"
                    yield times_faster(name, slow, times, note=note, compile_seconds=compiling)


_ON = (", unrolled", ", tree")


def twins(setting: Setting) -> Iterator[Measurement]:
    """Policies against the plain-Python twins, on an instance that these can serve."""
    instance, sequences = setting.small, setting.small.sequences()
    capacity = instance.tree.units // 20
    for text in TWIN_POLICIES:
        times, compiling, _ = whole_runs(setting, instance, capacity, text)
        drawn = {"choose": random.Random(0).randrange} if text in RANDOM else {}
        twin = TWINS[text](capacity, oversize="truncate", **drawn)
        yield times_faster(
            f"{text} against the plain-Python twin",
            timed(lambda twin=twin: twin.run(sequences), 1, warm=False),
            times,
            goal=">= 100" if text == "llru" else "",
            note=f"{instance.requests} queries, {instance.units_requested:,} units",
            compile_seconds=compiling,
        )
