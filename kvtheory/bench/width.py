"""Many lanes at once: units a second, and the share of the memory's bandwidth that they reach."""

import statistics
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import lax

from kvtheory.bench.measure import Measurement, rate, timed
from kvtheory.bench.setting import Setting, whole_runs

LANES = (1, 4, 16, 64, 256, 1024, 4096)
WORD = 4  # bytes of an int32
# What a step of any policy reads and writes for an edge of the path, in words: for the hits (edge,
# cached), the last use (edge, last), loading (edge, cached twice, length, parent, children twice).
EDGE_WORDS = 11
QUERY_WORDS = 5  # its start, the next start, its length, units used, its hits
COPIED = 1 << 25  # words of the array that measures the bandwidth, far more than any cache holds
ROUNDS = 8  # times that it is read and written


def width(setting: Setting) -> Iterator[Measurement]:
    """RLT on 1 … 4,096 lanes, on the device that JAX has."""
    device = jax.devices()[0]
    where = f"{device.platform}: {device.device_kind}"
    times = _passes_over_memory(setting.repeats)
    moved = 2 * WORD * COPIED * ROUNDS
    yield rate("memory bandwidth", moved / 1e9, times, "GB/s", note=f"read and write; {where}")
    best = moved / min(times)
    instance = setting.small
    capacity = instance.tree.units // 20
    words = EDGE_WORDS * len(instance.log.edge) + QUERY_WORDS * instance.requests
    for lanes in LANES:
        times, compiling, _ = whole_runs(setting, instance, capacity, "rlt", lanes)
        yield rate(
            f"rlt, {lanes} lanes",
            lanes * instance.units_requested,
            times,
            "units/s",
            note=f"{instance.requests} queries; {where}",
            compile_seconds=compiling,
        )
        share = [WORD * words * lanes / best / seconds for seconds in times]
        yield Measurement(
            f"rlt, {lanes} lanes, bandwidth reached",
            100 * statistics.median(share),
            "%",
            100 * min(share),
            100 * max(share),
            note="at least: the reads and writes of paths alone",
        )


def _passes_over_memory(repeats: int) -> list[float]:
    @jax.jit
    def passes(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, ROUNDS, lambda i, x: x + i, x)

    source = jnp.zeros(COPIED, jnp.int32)
    return timed(lambda: jax.block_until_ready(passes(source)), repeats)
