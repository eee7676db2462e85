"""The same requests in libCacheSim: classic paging over the unrolled units of all paths.

It is no prefix cache (a unit may stay when the one above it has gone), so on trees hits are not
compared, the work per unit is. On the unrolled sequence itself, which is paging for this library
too, they must agree.
"""

import importlib
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kvtheory.bench.measure import timed
from kvtheory.instance import Instance
from kvtheory.next_use import NEVER, next_use
from kvtheory.tree import PrefixTree

# oracleGeneral: libCacheSim's own binary format, and its fastest to read
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
# its policies, and ours that do the same to single units
POLICIES = {"LRU": "llru", "FIFO": "fifo", "Random": "random_leaf", "Belady": "belady"}


def units_asked_for(instance: Instance) -> np.ndarray:
    """int64[units asked for]; the units of each query in turn, root first."""
    units = [instance.tree.units_of(int(q)) for q in instance.query]
    return np.concatenate([np.zeros(0, np.int64), *units])


def paging(instance: Instance) -> Instance:
    """The unrolled units as an instance of its own: every unit is a query, and a root."""
    units = instance.tree.units
    return Instance(
        PrefixTree(np.full(units, -1), np.ones(units, np.int32)),
        units_asked_for(instance),
        name=f"{instance.name}, unrolled",
    )


@contextmanager
def unrolled(instance: Instance) -> Generator[Path]:
    """A file of one record per unit of each query, with its next use; removed afterwards."""
    flat = paging(instance)
    following = next_use(flat.log).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "units.oracleGeneral"
        record = np.zeros(flat.requests, RECORD)
        record["id"], record["size"] = flat.query, 1
        record["next"] = np.where(following == NEVER, -1, following)
        record.tofile(path)
        yield path


def libcachesim_seconds(
    path: Path, name: str, capacity: int, repeats: int
) -> tuple[list[float], float]:
    """Seconds of each run, reading included, with the best of a few sizes of the hash table.

    The share of units that hit comes with them.

    Raises
    ------
    ImportError
        If libcachesim is not installed.
    """
    libcachesim: Any = importlib.import_module("libcachesim")
    kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
    missed = 0.0

    def work(power: int) -> None:
        nonlocal missed
        option = libcachesim.ReaderInitParam(ignore_obj_size=True)
        reader = libcachesim.TraceReader(str(path), kind, option)
        missed, _ = getattr(libcachesim, name)(capacity, hashpower=power).process_trace(reader)

    # a power of two near the capacity, one above and one below
    middle = max(10, capacity.bit_length())
    first = {
        p: min(timed(lambda p=p: work(p), 1, warm=False)) for p in (middle - 1, middle, middle + 2)
    }
    best = min(first, key=first.__getitem__)
    return timed(lambda: work(best), repeats, warm=False), 1 - missed
