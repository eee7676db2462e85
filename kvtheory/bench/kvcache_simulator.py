"""The same requests in kvcache-simulator: leaf LRU on a trie of blocks, in C++.

It sweeps capacities by a run each, and counts the hit tokens of the queries after a warm-up during
which the cache must have filled up. Its FIFO is that of paging and its optimum may pass a block
by, so LRU is what is compared. With queries no longer than the cache its LRU is ours: blocks of
one query differ in age, but only one of them is ever a leaf.
"""

import importlib
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from kvtheory.bench.measure import timed
from kvtheory.instance import Instance


def lru_seconds(
    instance: Instance, capacities: Sequence[int], warmup: int, repeats: int
) -> tuple[list[float], list[int]]:
    """Seconds of each run of all capacities, and the hit tokens after the warm-up at each.

    A run writes the ids to files and starts a program that reads them, builds the trie and serves.

    Raises
    ------
    ImportError
        If kvcache-simulator or a C++ compiler is missing.
    """
    backend: Any = importlib.import_module("kvcache_sim.cpp_backend")
    trace: Any = importlib.import_module("kvcache_sim.trace")
    if shutil.which("c++") is None:
        raise ImportError("no C++ compiler")
    length = instance.query_length
    ids = [int(u) for q in instance.query for u in instance.tree.units_of(int(q))]
    size = instance.block_size
    # every block is full but the last of a query
    tokens = np.full(len(ids), size)
    last = np.cumsum(length)[length > 0] - 1
    tokens[last] = (instance.tokens - (length - 1) * size)[length > 0]
    data = trace.TraceData(
        ids=ids,
        tokens=tokens.tolist(),
        request_starts=[0, *np.cumsum(length).tolist()],
        block_size=size,
        request_count=instance.requests,
        unique_raw_blocks=instance.tree.units,
        total_input_tokens=int(tokens.sum()),
        average_input_tokens=float(tokens.sum() / instance.requests),
        parse_errors=0,
        skipped_records=0,
    )
    told: Any = None

    def work() -> None:
        nonlocal told
        told = backend.run_cpp_sweep(
            data, capacities=list(capacities), policies=["lru"], warmup_requests=warmup
        )

    times = timed(work, repeats)
    return times, [told.results["lru", capacity].hitTokens for capacity in capacities]
