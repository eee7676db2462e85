"""What a step of the driver costs, operation by operation.

The cost of each operation is the difference of two sequences that differ in it alone. Loading is
what it costs more to load a unit than to hit one, so it can be less than nothing.
"""

import time
from collections.abc import Iterator

import numpy as np

from kvtheory.bench.measure import Measurement
from kvtheory.bench.setting import Setting
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.simulate import simulate
from kvtheory.tree import PrefixTree

QUERIES = 1 << 16
LEVELS = 8
POLICIES = ("llru", "rlt", "random_leaf", "fifo")


def steps(setting: Setting) -> Iterator[Measurement]:
    """Nanoseconds of CPU for a query, a cached edge, a load and an eviction, by policy."""
    for text in POLICIES:
        times = {name: _times(setting, text, *on) for name, on in _sequences().items()}
        yield _difference(f"{text}, an empty query", times["empty"], times["none"])
        yield _difference(f"{text}, a cached edge", times["levels"], times["one"], LEVELS - 1)
        yield _difference(f"{text}, loading a unit", times["load"], times["one"])
        yield _difference(f"{text}, evicting a unit", times["evict"], times["load"])


def _sequences() -> dict[str, tuple[Instance, int]]:
    """Instance and capacity, by what each query does; all of the same size."""
    # the chain, and roots that nobody asks for
    above = np.where(np.arange(QUERIES) < LEVELS, np.arange(-1, QUERIES - 1), -1)
    chain = PrefixTree(above, np.ones(QUERIES, np.int32))
    star = PrefixTree(np.full(QUERIES, -1), np.ones(QUERIES, np.int32))
    each = np.arange(QUERIES)
    return {
        "none": (Instance(star, np.zeros(0, np.int32)), QUERIES),
        "empty": (Instance(star, np.full(QUERIES, -1)), QUERIES),
        "one": (Instance(star, np.zeros(QUERIES, np.int32)), QUERIES),
        "levels": (Instance(chain, np.full(QUERIES, LEVELS - 1)), QUERIES),
        "load": (Instance(star, each), QUERIES),
        "evict": (Instance(star, each), QUERIES // 16),
    }


def _times(setting: Setting, text: str, instance: Instance, capacity: int) -> list[float]:
    """Nanoseconds of CPU for each query, of all but the first run, which compiles."""
    out = []
    for _ in range(setting.repeats + 1):
        begin = time.process_time()
        simulate(instance, capacity, policy(text))
        out.append(1e9 * (time.process_time() - begin) / QUERIES)
    return out[1:]


def _difference(name: str, more: list[float], less: list[float], times: int = 1) -> Measurement:
    # what else the machine does only ever adds, so the least of each is nearest to the truth
    return Measurement(
        name,
        (min(more) - min(less)) / times,
        "ns",
        (min(more) - max(less)) / times,
        (max(more) - min(less)) / times,
        note=f"{QUERIES:,} queries, least of all runs",
    )
