"""The driver for many workers: a router and an eviction policy on a cluster, seeds as lanes."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Key

from kvtheory.cache import EvictionPolicy, padded, tape_of
from kvtheory.cluster import Cluster
from kvtheory.cluster_result import ClusterResult
from kvtheory.dispatch import (
    ClusterState,
    Fleet,
    SpeedChanges,
    Trace,
    Traffic,
    View,
    ViewName,
    Warm,
    World,
    init_cluster,
    run_cluster,
)
from kvtheory.errors import InputError, bad
from kvtheory.eviction.llru import LeafLRU
from kvtheory.instance import Instance
from kvtheory.lanes import Footprint, plan_lanes, run_lanes
from kvtheory.oversize import Oversize, check_oversize
from kvtheory.programs import size, size_of_result
from kvtheory.result import PolicyError
from kvtheory.router import RoutingPolicy
from kvtheory.rows import Rows, rows_of
from kvtheory.simulate import Batching, check_lanes
from kvtheory.step import FAULTS, OK

# of each query: hits, worker and believed hits; start, first token and end
TRACE = (np.int32, np.int32, np.int32, np.float64, np.float64, np.float64)
TRACE_BYTES = sum(np.dtype(dtype).itemsize for dtype in TRACE)


def simulate_cluster(
    instance: Instance,
    cluster: Cluster,
    router: RoutingPolicy,
    eviction: EvictionPolicy,
    *,
    view: ViewName = "routed",
    view_capacity: int | Sequence[int] | None = None,
    refresh: float | None = None,
    own_dispatches: bool = False,
    believed: Cluster | None = None,
    seeds: int = 1,
    key: Key[Array, ""] | None = None,
    oversize: Oversize = "error",
    batching: Batching = "auto",
    first_seed: int = 0,
    devices: Sequence[jax.Device] | None = None,
    progress: Callable[[int], object] | None = None,
) -> ClusterResult:
    """Route and serve all queries of an instance, on several seeds at once.

    Parameters
    ----------
    instance
        The request sequence, with arrival times; its warm paths are served first, in the routers'
        trees too, and its end nodes as soon as their query has been served.
    cluster
        Workers with their true costs, speeds and capacities.
    router, eviction
        The policies.
    view
        How the router sees the caches: ``"routed"``, its own tree per worker of what it sent
        there, in leaf-LRU order and blind to evictions; ``"oracle"``, the true caches;
        ``"stale"``, caches and queues as they were at the last multiple of ``refresh``.
    view_capacity
        Units of each tree of ``view="routed"``; by default the capacities of the workers.
    refresh
        Seconds between two looks of ``view="stale"``.
    own_dispatches
        With ``view="stale"``: count what was routed since the last look.
    believed
        Costs and speeds as the router believes them; by default the true ones, but that it does
        not know of ``speed_changes``.
    seeds, key, oversize, batching, first_seed, devices, progress
        As for `kvtheory.simulate.simulate`. Eviction and routing have streams of their own.

    Raises
    ------
    InputError
        For bad arguments, or an instance without arrival times; before the start if the run does
        not fit into memory.
    PolicyError
        If the eviction policy breaks the rules, or the router names no worker.

    Notes
    -----
    Times are float64. Memory: O(workers · edges + requests) for each lane that runs, and 36 bytes
    for every query of every lane.
    """
    lanes = check_lanes(key, seeds, batching, first_seed, devices)
    if instance.arrival is None:
        raise InputError(
            f"instance {instance.name!r} has no arrival times: pass rate= to its generator, or "
            "dataclasses.replace(instance, arrival=…)"
        )
    if cluster.block_size != instance.block_size:
        raise bad(
            "cluster.block_size",
            cluster.block_size,
            f"must be that of the instance, {instance.block_size}",
        )
    if oversize == "truncate" and len(set(cluster.capacity.tolist())) > 1:
        raise bad("oversize", oversize, "cuts the tree at one depth, so capacities must be equal")
    seen = check_oversize(instance, int(cluster.capacity.min()), oversize)
    trees = _view_capacity(view, view_capacity, cluster, seen)
    if view == "stale" and not (refresh and refresh > 0 and np.isfinite(refresh)):
        raise bad("refresh", refresh, "view='stale' needs the seconds between two looks")
    believed = cluster if believed is None else believed
    if believed.workers != cluster.workers:
        raise bad("believed", f"{believed.workers} workers", f"must have {cluster.workers}")
    if instance.warm is not None and len(instance.warm):
        worker = int(instance.warm[:, 0].max())
        if worker >= cluster.workers:
            raise bad("instance.warm", worker, f"names a worker, but there are {cluster.workers}")
    rows = rows_of(seen.uncompressed() if eviction.per_unit else seen)

    # queries of hours of a trace need more than a float32 holds
    with jax.enable_x64(True):
        row = _row(rows)
        tape = tape_of(rows.instance, eviction.prepare(rows.instance), int(row.max(initial=0)) + 1)
        requests = tape.query_length.shape[0]
        world = World(
            tape=tape,
            traffic=_traffic(instance, rows.query, requests),
            fleet=_fleet(cluster),
            believed=_fleet(believed),
            view_capacity=jnp.asarray(trees, jnp.int32),
            refresh=jnp.asarray(refresh or 1.0, jnp.float64),
            block_size=jnp.asarray(instance.block_size, jnp.int32),
            prepared=_padded(router.prepare(rows.instance, cluster.workers), requests),
            row=jnp.asarray(row),
            end=None if rows.end is None else jnp.zeros(requests, jnp.int32).at[row].set(row + 1),
            warm=_warm(instance, rows),
            speed_changes=_speed_changes(cluster),
        )
        policies = (_on_device(router), _on_device(eviction.stripped()))
        kind = (view, own_dispatches, lanes.batching)
        footprint = Footprint(
            shared=size((policies, world)),
            state=size_of_result(_state, (view, own_dispatches), policies, world, lanes.key),
            output=TRACE_BYTES * len(row),
            kept=TRACE_BYTES * instance.requests,
        )
        # by map a lane at a time, so that progress can be shown
        most = 1 if lanes.batching == "map" else seeds
        plan = plan_lanes(seeds, footprint, lanes.batching, lanes.devices, most=most)
        traces = [np.empty((seeds, instance.requests), dtype) for dtype in TRACE]
        compiling = 0.0
        begin = time.perf_counter()
        for call in run_lanes(_jitted, kind, (policies, world), (lanes.keys(),), plan):
            compiling += call.compile_seconds
            for fault in call.output.fault.tolist():
                if fault != OK:
                    raise PolicyError(f"eviction policy {eviction.name!r} {FAULTS[fault]}")
            for trace, some in zip(traces, call.output[:-1], strict=True):
                trace[call.first : call.stop] = some[:, : instance.requests]
            if progress is not None:
                progress(call.stop - call.first)
        seconds = time.perf_counter() - begin - compiling
    hits, worker, believed_hits, start, first_token, end = traces
    if ((worker < 0) | (worker >= cluster.workers)).any():
        raise PolicyError(f"router {router.name!r} named a worker that is not there")
    return ClusterResult(
        instance=instance,
        cluster=cluster,
        router=router.name,
        eviction=eviction.name,
        worker=worker,
        hits=hits,
        believed=believed_hits,
        start=start,
        first_token=first_token,
        end=end,
        seconds=seconds,
        compile_seconds=compiling,
    )


def _lanes(
    kind: tuple[str, bool, str],
    policies: tuple[RoutingPolicy, EvictionPolicy],
    world: World,
    keys: Key[Array, " lanes"],
) -> Trace:
    name, own_dispatches, batching = kind
    view = View(name, LeafLRU(), own_dispatches)

    def lane(key: Key[Array, ""]) -> Trace:
        evict, route = jax.random.split(key)
        return run_cluster(*policies, view, world, evict, route)

    return jax.vmap(lane)(keys) if batching == "vmap" else lax.map(lane, keys)


_jitted = jax.jit(_lanes, static_argnums=0)


def _state(
    view: ViewName,
    own_dispatches: bool,
    policies: tuple[RoutingPolicy, EvictionPolicy],
    world: World,
    key: Key[Array, ""],
) -> ClusterState:
    """The state of a lane, for its size."""
    return init_cluster(*policies, View(view, LeafLRU(), own_dispatches), world, key, key)


def _on_device(policy: Any) -> Any:
    return jax.tree.map(jnp.asarray, policy)


def _view_capacity(
    view: str, given: int | Sequence[int] | None, cluster: Cluster, seen: Instance
) -> np.ndarray:
    if view not in ("oracle", "routed", "stale"):
        raise bad("view", view, "must be 'oracle', 'routed' or 'stale'")
    if given is None:
        return cluster.capacity
    if view != "routed":
        raise bad("view_capacity", given, "belongs to view='routed'")
    trees = np.broadcast_to(np.asarray(given, np.int64), cluster.capacity.shape)
    if (trees < 1).any() or (trees >= 2**31).any():
        raise bad("view_capacity", given, "must be a positive number of units")
    # what no query can fill may as well be as large as the tree
    longest = int(seen.tree.depth.max()) if seen.tree.edges else 1
    if (trees < longest).any():
        raise bad("view_capacity", given, f"must hold the longest query, {longest} units")
    return trees


def _row(rows: Rows) -> np.ndarray:
    """int32; rows of the queries, and as many unused ones, each with an end, as pad them."""
    n, each = len(rows.query), 1 if rows.end is None else 2
    rest = rows.instance.requests + each * np.arange(padded(n) - n, dtype=np.int32)
    return np.concatenate([rows.query, rest])


def _warm(instance: Instance, rows: Rows) -> Warm | None:
    if not len(rows.warm):
        return None
    assert instance.warm is not None
    return Warm(jnp.asarray(rows.warm), jnp.asarray(instance.warm[:, 0]))


def _speed_changes(cluster: Cluster) -> SpeedChanges | None:
    if not cluster.speed_changes:
        return None
    at, speed = cluster.speeds_over_time()
    return SpeedChanges(jnp.asarray(at), jnp.asarray(speed))


def _fleet(cluster: Cluster) -> Fleet:
    seconds = (getattr(cluster, name) for name in Fleet._fields[1:])
    return Fleet(
        jnp.asarray(cluster.capacity, jnp.int32),
        *(jnp.asarray(values, jnp.float64) for values in seconds),
    )


def _padded(rows: dict[str, np.ndarray], size: int) -> dict[str, Array]:
    return {
        name: jnp.asarray(np.concatenate([a, np.zeros((size - len(a), *a.shape[1:]), a.dtype)]))
        for name, a in rows.items()
    }


def _traffic(instance: Instance, row: np.ndarray, size: int) -> Traffic:
    assert instance.arrival is not None
    arrival = np.full(size, instance.arrival[-1] if instance.requests else 0.0)
    arrival[row] = instance.arrival
    output = np.zeros(size)
    if instance.output_length is not None:
        output[row] = instance.output_length
    return Traffic(jnp.asarray(arrival), jnp.asarray(output))
