"""The rows of a cell on a cluster: one for each lane, with hit rates, makespan and latencies."""

from dataclasses import replace

import jax
import numpy as np

from kvtheory.cluster import Cluster, capacity_units, similar_workers
from kvtheory.cluster_result import ClusterResult
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances.runs import poisson_arrivals
from kvtheory.routing import router
from kvtheory.simulate_cluster import simulate_cluster
from kvtheory.sweep.cache_rows import as_lists
from kvtheory.sweep.cell import ClusterCell
from kvtheory.sweep.work import Rows

PERCENTILES = (50, 95, 99)


def cluster_of(cell: ClusterCell, instance: Instance) -> Cluster:
    """The workers of a cell."""
    return similar_workers(
        instance,
        cell.workers,
        cell.capacity,
        alpha_miss=cell.alpha_miss,
        alpha_cached=cell.alpha_cached,
        alpha_out=cell.alpha_out,
        speeds=cell.speed_of_each(),
    )


def cluster_rows(cell: ClusterCell, instance: Instance) -> Rows:
    """The rows of a cell.

    Lane s is lane s of `kvtheory.cross_table.cross_table` with the same seed.
    """
    cluster = cluster_of(cell, instance)
    trees = None if cell.view_capacity is None else capacity_units(cell.view_capacity, instance)
    key = jax.random.key(cell.seed, impl="threefry2x32")

    def lanes(instance: Instance, lanes: int, key: jax.Array) -> ClusterResult:
        return simulate_cluster(
            instance,
            cluster,
            router(cell.router),
            policy(cell.eviction),
            view=cell.view,
            view_capacity=trees,
            refresh=cell.refresh,
            seeds=lanes,
            key=key,
            oversize=cell.oversize,
        )

    with jax.enable_x64(False):
        if cell.rate is None:
            results = [lanes(instance, cell.seeds, key)]
        else:
            results = []
            for s in range(cell.seeds):
                arrival = poisson_arrivals(cell.rate, instance.requests, cell.seed + s)
                timed = replace(instance, arrival=arrival)
                results.append(lanes(timed, 1, jax.random.fold_in(key, s)))
    parts = [_columns(result) for result in results]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    seeds = len(columns["hits"])
    told = {
        "lane": np.arange(seeds),
        "capacity_units": np.full(seeds, cluster.capacity[0]),
        "requests": np.full(seeds, instance.requests),
        "units": np.full(seeds, instance.units_requested),
        "units_distinct": np.full(seeds, instance.tree.units),
        **columns,
    }
    seconds = sum(result.seconds for result in results)
    compiling = sum(result.compile_seconds for result in results)
    return Rows(as_lists({**told}), seconds, compiling)


def _columns(result: ClusterResult) -> dict[str, np.ndarray]:
    times = {}
    for name, seconds in (("latency", result.latency), ("ttft", result.ttft)):
        times[f"{name}_mean"] = seconds.mean(axis=1)
        for percent in PERCENTILES:
            times[f"{name}_p{percent}"] = np.percentile(seconds, percent, axis=1)
    return {
        "hits": result.cached.total_hits,
        "misses": result.cached.misses,
        "hit_rate_units": result.cached.hit_rate_units,
        "hit_rate_tokens": result.cached.hit_rate_tokens,
        "hit_rate_requests": result.cached.hit_rate_requests,
        "believed_hit_rate": result.believed_hit_rate,
        "makespan": result.makespan,
        "last_completion": result.last_completion,
        "imbalance": result.imbalance,
        "jain": result.jain,
        "throughput": result.throughput,
        **times,
    }
