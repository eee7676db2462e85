"""The driver: one jitted scan that serves the queries one by one on a cluster.

Seeds and capacities are lanes of one compiled function; `kvtheory.step` says what a step does.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import EvictionPolicy, Scalar, Tape, tape_of
from kvtheory.cluster import Cluster, capacity_units
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.lanes import Footprint, lane_devices, plan_lanes, run_lanes
from kvtheory.oversize import Oversize, check_oversize, path_units
from kvtheory.programs import size, size_of_result
from kvtheory.result import PolicyError, Result
from kvtheory.rows import check_queries_alone, rows_of
from kvtheory.step import FAULTS, OK, State, init, serve
from kvtheory.totals import add_up, check_cuts, join

Batching = Literal["auto", "map", "vmap"]
Keep = Literal["hits", "totals"]
MAP_CHUNK = 1 << 22  # queries served by one call at most, so that progress can be shown


def _one_lane(
    policy: EvictionPolicy, tape: Tape, capacity: Int[Array, " workers"], key: Key[Array, ""]
) -> tuple[Int[Array, " requests"], Scalar]:
    requests = tape.query_length.shape[0]
    state, hits = lax.scan(
        lambda state, t: serve(policy, tape, capacity, state, t),
        init(policy, tape, capacity, key),
        jnp.arange(requests, dtype=jnp.int32),
    )
    return hits, state.fault


def _lanes(
    batching: str,
    policy: EvictionPolicy,
    tape: Tape,
    capacity: Int[Array, "lanes workers"],
    keys: Key[Array, " lanes"],
) -> tuple[Int[Array, "lanes requests"], Int[Array, " lanes"]]:
    def lane(args: tuple[Array, Array]) -> tuple[Array, Array]:
        return _one_lane(policy, tape, *args)

    if batching == "vmap":
        return jax.vmap(lane)((capacity, keys))
    return lax.map(lane, (capacity, keys))


_jitted = jax.jit(_lanes, static_argnums=0)


def _on_device(policy: EvictionPolicy) -> EvictionPolicy:
    # hyper-parameters become arrays, so that other values of them do not compile anew
    return jax.tree.map(jnp.asarray, policy.stripped())


def check_key(key: object) -> Key[Array, ""]:
    """A typed key, or an error that says how to make one."""
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        raise bad("key", key, "must be a typed key: jax.random.key(seed), not raw uint32 data")
    if key.shape != ():
        raise bad("key", key.shape, "must be one key; lanes are made by seeds=")
    return key


_fold = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))


class Lanes(NamedTuple):
    """The seeds of a run: each has a key, made of the run's own, and they run on ``devices``."""

    key: Key[Array, ""]
    seeds: int
    first_seed: int
    batching: Literal["map", "vmap"]
    devices: tuple[jax.Device, ...]

    def keys(self) -> Key[Array, " seeds"]:
        """``fold_in(key, s)`` for each seed s."""
        seeds = jnp.arange(self.first_seed, self.first_seed + self.seeds, dtype=jnp.uint32)
        return _fold(self.key, seeds)


def check_lanes(
    key: Key[Array, ""] | None,
    seeds: int,
    batching: Batching,
    first_seed: int = 0,
    devices: Sequence[jax.Device] | None = None,
) -> Lanes:
    """What to run and where, or an error that names what is wrong with it."""
    key = check_key(jax.random.key(0) if key is None else key)
    if seeds < 1:
        raise bad("seeds", seeds, "must be at least 1")
    if not 0 <= first_seed <= 2**32 - seeds:
        raise bad("first_seed", first_seed, "must be at least 0, and all seeds below 2^32")
    if batching not in ("auto", "map", "vmap"):
        raise bad("batching", batching, "must be 'auto', 'map' or 'vmap'")
    places = lane_devices(devices)
    if batching == "auto":
        batching = "map" if places[0].platform == "cpu" else "vmap"
    return Lanes(key, seeds, first_seed, batching, places)


def simulate(
    instance: Instance,
    cluster: Cluster | int | str,
    eviction: EvictionPolicy,
    *,
    seeds: int = 1,
    key: Key[Array, ""] | None = None,
    oversize: Oversize = "error",
    batching: Batching = "auto",
    keep: Keep = "hits",
    cuts: Sequence[int] = (),
    first_seed: int = 0,
    devices: Sequence[jax.Device] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Serve all queries of an instance with an eviction policy, on several seeds at once.

    Parameters
    ----------
    instance
        The request sequence; warm paths are served first, and output units after their query.
    cluster
        A `Cluster` of one worker, or its capacity as `capacity_units` reads it.
    eviction
        The policy.
    seeds
        Lanes; lane s uses ``fold_in(key, first_seed + s)``. Deterministic policies need one.
    key
        Typed PRNG key of the policies' stream; ``jax.random.key(0)`` if None.
    oversize
        What a query longer than the capacity is: an ``"error"``, served on its first B units
        (``"truncate"``), or left out of the cache (``"skip"``).
    batching
        Lanes by ``lax.map`` (faster on a CPU) or ``vmap`` (on a GPU).
    keep
        The ``"hits"`` of every query, int32[seeds, n]; or only their ``"totals"``, with which the
        memory does not grow with the number of seeds.
    cuts
        With ``keep="totals"``: numbers of queries after which totals are kept too, for
        `Result.misses_of_first` and `Result.after`.
    first_seed
        The first of the seeds: runs of seeds 0 … 99 and 100 … 199 are halves of one of 200.
    devices
        Where the lanes run; all devices of this process by default.
    progress
        Called with the number of lanes done since the last call.

    Raises
    ------
    InputError
        For bad arguments, and before the start if the run does not fit into memory.
    PolicyError
        If the policy breaks the rules of eviction.

    Notes
    -----
    Cost: O(Σ path edges + evictions) steps a lane, memory O(edges + requests) a lane of which
    only as many run at a time as fit (`kvtheory.lanes`).
    """
    if isinstance(cluster, Cluster):
        if cluster.workers != 1:
            raise bad("cluster", f"{cluster.workers} workers", "one worker only")
        capacity = int(cluster.capacity[0])
    else:
        capacity = capacity_units(cluster, instance)
    return simulate_capacities(
        instance,
        [capacity],
        eviction,
        seeds=seeds,
        key=key,
        oversize=oversize,
        batching=batching,
        keep=keep,
        cuts=cuts,
        first_seed=first_seed,
        devices=devices,
        progress=progress,
    )[0]


def simulate_capacities(
    instance: Instance,
    capacities: Sequence[int | str],
    eviction: EvictionPolicy,
    *,
    seeds: int = 1,
    key: Key[Array, ""] | None = None,
    oversize: Oversize = "error",
    batching: Batching = "auto",
    keep: Keep = "hits",
    cuts: Sequence[int] = (),
    first_seed: int = 0,
    devices: Sequence[jax.Device] | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Result]:
    """`simulate` at several capacities of one worker: capacities times seeds are lanes.

    Capacities that see the same tree (all of them, unless ``oversize="truncate"`` cuts it) run
    in one compiled call. Lane s has the same key at every capacity.
    """
    lanes = check_lanes(key, seeds, batching, first_seed, devices)
    if keep not in ("hits", "totals"):
        raise bad("keep", keep, "must be 'hits' or 'totals'")
    if keep == "hits" and len(cuts):
        raise bad("cuts", list(cuts), "belongs to keep='totals'")
    kept = check_cuts(cuts, instance.requests) if keep == "totals" else None
    units = [capacity_units(c, instance) for c in capacities]
    groups: dict[int, tuple[Instance, list[int]]] = {}
    for i, capacity in enumerate(units):
        seen = check_oversize(instance, capacity, oversize)
        # a policy that sees the future sees another one at each capacity if queries are skipped
        alone = seen is not instance or (oversize == "skip" and not eviction.online)
        groups.setdefault(i if alone else -1, (seen, []))[1].append(i)
    results: dict[int, Result] = {}
    for seen, members in groups.values():
        runs = [units[i] for i in members]
        for i, result in zip(
            members,
            _simulate(instance, seen, runs, eviction, lanes, kept, progress),
            strict=True,
        ):
            results[i] = result
    return [results[i] for i in range(len(units))]


def _simulate(
    instance: Instance,
    seen: Instance,
    capacities: list[int],
    eviction: EvictionPolicy,
    lanes: Lanes,
    cuts: tuple[int, ...] | None,
    progress: Callable[[int], object] | None,
) -> list[Result]:
    """A result per capacity; with ``cuts`` its totals only."""
    rows = rows_of(seen.uncompressed() if eviction.per_unit else seen)
    run = rows.instance
    served = None if eviction.online else path_units(run) <= capacities[0]
    tape = tape_of(run, eviction.prepare(run, served))
    eviction = _on_device(eviction)
    seeds, requests = lanes.seeds, tape.query_length.shape[0]
    lane_capacity = np.repeat(np.asarray(capacities, np.int32), seeds)[:, None]
    keys = lanes.keys()
    if len(capacities) > 1:
        keys = keys[np.tile(np.arange(seeds), len(capacities))]
    footprint = Footprint(
        shared=size((eviction, tape)),
        state=size_of_result(init, (), eviction, tape, lane_capacity[0], lanes.key),
        output=4 * requests,
        kept=4 * instance.requests if cuts is None else 3 * 8 * len(cuts),
    )
    plan = plan_lanes(
        len(lane_capacity),
        footprint,
        lanes.batching,
        lanes.devices,
        most=max(1, MAP_CHUNK // requests) if lanes.batching == "map" else len(lane_capacity),
    )
    hits = np.empty((plan.lanes if cuts is None else 0, instance.requests), np.int32)
    totals, compiling = [], 0.0
    begin = time.perf_counter()
    for call in run_lanes(_jitted, lanes.batching, (eviction, tape), (lane_capacity, keys), plan):
        some, faults = call.output
        compiling += call.compile_seconds
        for fault in faults.tolist():
            if fault != OK:
                raise PolicyError(f"eviction policy {eviction.name!r} {FAULTS[fault]}")
        if cuts is None:
            hits[call.first : call.stop] = some[:, rows.query]
        else:
            totals.append(add_up(instance, some[:, rows.query], cuts))
        if progress is not None:
            progress(call.stop - call.first)
    seconds = time.perf_counter() - begin - compiling
    kept = hits if cuts is None else join(totals)
    return [
        Result(
            instance=instance,
            policy=eviction.name,
            capacity=capacity,
            kept=kept[i * seeds : (i + 1) * seeds],
            seconds=seconds / len(capacities),
            compile_seconds=compiling / len(capacities),
        )
        for i, capacity in enumerate(capacities)
    ]


def caches(
    instance: Instance,
    capacity: int | str,
    eviction: EvictionPolicy,
    *,
    key: Key[Array, ""] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Hits of every query and the cache after it: int32[n] and int32[n, edges] cached units.

    For small instances and for checks: memory is O(requests · edges). A policy with records per
    unit is run on, and reports, one unit per edge.
    """
    check_queries_alone(instance, "caches()")
    run = instance.uncompressed() if eviction.per_unit else instance
    capacity = capacity_units(capacity, instance)
    run = check_oversize(run, capacity, "skip")
    tape = tape_of(run, eviction.prepare(run, path_units(run) <= capacity))
    hits, cached, fault = _traced(
        _on_device(eviction),
        tape,
        jnp.asarray([capacity], jnp.int32),
        check_key(jax.random.key(0) if key is None else key),
    )
    if int(fault) != OK:
        raise PolicyError(f"eviction policy {eviction.name!r} {FAULTS[int(fault)]}")
    n = instance.requests
    return np.asarray(hits)[:n], np.asarray(cached)[:n, : run.tree.edges]


def cache_after(
    instance: Instance,
    capacity: int | str,
    eviction: EvictionPolicy,
    *,
    key: Key[Array, ""] | None = None,
) -> np.ndarray:
    """int32[edges]; units of each edge in the cache when all queries have been served.

    Lane 0 of `simulate`. A policy with records per unit needs one unit per edge.
    """
    check_queries_alone(instance, "cache_after()")
    if eviction.per_unit and (instance.tree.length != 1).any():
        raise bad("instance", instance.name, "needs one unit per edge: instance.uncompressed()")
    capacity = capacity_units(capacity, instance)
    run = check_oversize(instance, capacity, "skip")
    tape = tape_of(run, eviction.prepare(run, path_units(run) <= capacity))
    key = jax.random.fold_in(check_key(jax.random.key(0) if key is None else key), 0)
    last = _last(_on_device(eviction), tape, jnp.asarray([capacity], jnp.int32), key)
    if int(last.fault) != OK:
        raise PolicyError(f"eviction policy {eviction.name!r} {FAULTS[int(last.fault)]}")
    return np.asarray(last.cache.cached)[: run.tree.edges]


@jax.jit
def _last(
    policy: EvictionPolicy, tape: Tape, capacity: Int[Array, " workers"], key: Key[Array, ""]
) -> State:
    return lax.fori_loop(
        0,
        tape.query_length.shape[0],
        lambda t, state: serve(policy, tape, capacity, state, t)[0],
        init(policy, tape, capacity, key),
    )


@jax.jit
def _traced(
    policy: EvictionPolicy, tape: Tape, capacity: Int[Array, " workers"], key: Key[Array, ""]
) -> tuple[Array, Array, Array]:
    def one(state: State, t: Scalar) -> tuple[State, tuple[Array, Array]]:
        state, hits = serve(policy, tape, capacity, state, t)
        return state, (hits, state.cache.cached)

    requests = jnp.arange(tape.query_length.shape[0], dtype=jnp.int32)
    state, (hits, cached) = lax.scan(one, init(policy, tape, capacity, key), requests)
    return hits, cached, state.fault
