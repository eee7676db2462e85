"""The same requests in libCacheSim: classic LRU over the unrolled units of all paths.

It is no prefix cache (a unit may stay when the one above it has gone), so hits are not compared;
the work per unit is.
"""

import importlib
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kvtheory.instance import Instance

# oracleGeneral: libCacheSim's own binary format, and its fastest to read
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


@contextmanager
def unrolled(instance: Instance) -> Generator[Path]:
    """A file of one record per unit of each query, root first; removed afterwards."""
    tree, log = instance.tree, instance.log
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "units.oracleGeneral"
        with path.open("wb") as file:
            for t in range(instance.requests):
                edges = log.edge[log.start[t] : log.start[t + 1]][::-1]
                record = np.zeros(int(tree.length[edges].sum()), RECORD)
                first, last = tree.offset[edges], tree.offset[edges + 1]
                spans = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
                record["id"] = np.concatenate(spans) if spans else []
                record["size"], record["next"] = 1, -1
                record.tofile(file)
        yield path


def lru_seconds(path: Path, capacity: int, repeats: int) -> list[float]:
    """Seconds of each run of LRU, with the best of a few sizes of its hash table.

    Raises
    ------
    ImportError
        If libcachesim is not installed.
    """
    libcachesim: Any = importlib.import_module("libcachesim")

    from kvtheory.bench.measure import timed

    def work(power: int) -> Any:
        option = libcachesim.ReaderInitParam(ignore_obj_size=True)
        kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
        reader = libcachesim.TraceReader(str(path), kind, option)
        return libcachesim.LRU(capacity, hashpower=power).process_trace(reader)

    # a power of two near the capacity, one above and one below
    middle = max(10, capacity.bit_length())
    first = {
        p: min(timed(lambda p=p: work(p), 1, warm=False)) for p in (middle - 1, middle, middle + 2)
    }
    best = min(first, key=first.__getitem__)
    return timed(lambda: work(best), repeats, warm=False)
