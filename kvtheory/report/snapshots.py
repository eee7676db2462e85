"""What one cache holds while it serves: its contents at evenly spaced moments."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import EvictionPolicy, Scalar, Tape, tape_of
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.offline.schedule import Schedule
from kvtheory.oversize import Oversize, check_oversize, path_units
from kvtheory.result import PolicyError
from kvtheory.rows import check_queries_alone
from kvtheory.simulate import check_key
from kvtheory.step import FAULTS, OK, State, init, serve

MOST_CACHED = 1 << 25  # numbers kept at most: 128 MiB


class Snapshots(NamedTuple):
    """A cache at some moments.

    Attributes
    ----------
    served
        int64[moments]; queries served until each moment, rising.
    cached
        int32[moments, edges]; units of each edge that are cached then.
    hits
        int32[queries]; hits of each query served.
    instance
        Whose edges these are.
    """

    served: np.ndarray
    cached: np.ndarray
    hits: np.ndarray
    instance: Instance


def moments(queries: int, wanted: int, edges: int) -> np.ndarray:
    """int64; numbers of queries, evenly spaced, at most ``wanted`` and as many as memory allows.

    Examples
    --------
    >>> moments(10, 3, 8).tolist()
    [4, 8]
    """
    wanted = max(1, min(wanted, queries, MOST_CACHED // max(1, edges)))
    apart = -(-queries // wanted)
    return np.arange(apart, queries + 1, apart, dtype=np.int64)


def snapshots(
    instance: Instance,
    capacity: int,
    eviction: EvictionPolicy,
    *,
    queries: int | None = None,
    wanted: int = 200,
    key: Key[Array, ""] | None = None,
    oversize: Oversize = "error",
) -> Snapshots:
    """Serve the first queries of an instance and look into the cache now and then.

    Parameters
    ----------
    instance
        The request sequence. A policy that sees the future sees all of it.
    capacity
        Units of the cache.
    eviction
        The policy.
    queries
        How many to serve; all by default.
    wanted
        Moments; fewer if there are fewer queries or if they would not fit into memory.
    key
        Typed PRNG key; the run is lane 0 of `kvtheory.simulate.simulate` with the same one.
    oversize
        What is done with queries longer than the capacity.

    Raises
    ------
    InputError
        For bad arguments, and for warm caches or end nodes, which are not looked into.
    PolicyError
        If the policy breaks the rules of eviction.

    Notes
    -----
    Cost: that of one lane; memory O(moments · edges). A policy with records per unit is run on,
    and reports, one unit per edge.
    """
    check_queries_alone(instance, "snapshots()")
    queries = instance.requests if queries is None else queries
    if not 1 <= queries <= instance.requests:
        raise bad("queries", queries, f"must lie between 1 and {instance.requests}")
    seen = check_oversize(instance, capacity, oversize)
    run = seen.uncompressed() if eviction.per_unit else seen
    tape = tape_of(run, eviction.prepare(run, path_units(run) <= capacity))
    served = moments(queries, wanted, run.tree.edges)
    apart = int(served[0])
    cached, hits, fault = _look(
        len(served),
        apart,
        queries - apart * len(served),
        jax.tree.map(jnp.asarray, eviction.stripped()),
        tape,
        jnp.asarray([capacity], jnp.int32),
        jax.random.fold_in(check_key(jax.random.key(0) if key is None else key), 0),
    )
    if int(fault) != OK:
        raise PolicyError(f"eviction policy {eviction.name!r} {FAULTS[int(fault)]}")
    return Snapshots(served, np.asarray(cached)[:, : run.tree.edges], np.asarray(hits), run)


def _look(
    many: int,
    apart: int,
    rest: int,
    policy: EvictionPolicy,
    tape: Tape,
    capacity: Int[Array, " workers"],
    key: Key[Array, ""],
) -> tuple[Array, Array, Array]:
    def one(state: State, t: Scalar) -> tuple[State, Scalar]:
        return serve(policy, tape, capacity, state, t)

    def some(state: State, first: Scalar) -> tuple[State, tuple[Array, Array]]:
        state, hits = lax.scan(one, state, first + jnp.arange(apart, dtype=jnp.int32))
        return state, (state.cache.cached, hits)

    state = init(policy, tape, capacity, key)
    state, (cached, hits) = lax.scan(some, state, apart * jnp.arange(many, dtype=jnp.int32))
    state, last = lax.scan(one, state, many * apart + jnp.arange(rest, dtype=jnp.int32))
    return cached, jnp.concatenate([hits.reshape(-1), last]), state.fault


_look = jax.jit(_look, static_argnums=(0, 1, 2))


def scheduled(schedule: Schedule, instance: Instance, served: np.ndarray) -> np.ndarray:
    """int32[moments, edges]; what a schedule for one cache holds after so many queries.

    Parameters
    ----------
    schedule
        With forced admission, on the edges of ``instance``, none of whose queries is skipped.
    instance
        The request sequence that it serves.
    served
        int64[moments]; rising.
    """
    if schedule.admission != "forced":
        raise bad("schedule", schedule.admission, "must be one of forced admission")
    log = instance.log
    # each step first changes what its schedule says, then loads its path
    step = np.concatenate([2 * schedule.step_of(), 2 * np.repeat(
        np.arange(instance.requests), np.diff(log.start)) + 1])  # fmt: skip
    order = np.argsort(step, kind="stable")
    edge = np.concatenate([schedule.edge, log.edge])[order]
    value = np.concatenate([schedule.kept, instance.tree.length[log.edge]])[order]
    stop = np.searchsorted(step[order], 2 * served)
    cached = np.zeros(instance.tree.edges, np.int32)
    out = np.empty((len(served), instance.tree.edges), np.int32)
    first = 0
    for i, last in enumerate(stop):
        cached[edge[first:last]] = value[first:last]  # of equal edges the last one stays
        out[i], first = cached, last
    return out
