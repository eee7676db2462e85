"""The cluster driver on tiny instances of one shape, with the router under watch."""

import dataclasses
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.cluster import Cluster
from kvtheory.dispatch import ClusterState, Fleet, Traffic, View, World, arrive, init_cluster
from kvtheory.eviction.llru import LeafLRU
from kvtheory.queueing import END, FIRST_TOKEN, START
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.testing.small_driver import SMALL, Shape, small_tape

Batching = Literal["map", "vmap"]

LARGE = 256

_traces = 0


class ClusterRun(NamedTuple):
    """What a run showed; one row a lane.

    ``named`` are the workers as the router named them, ``worker`` those that were used, which
    differ if the first are not there. ``finite`` tells whether all that was finite in the state of
    the router at first stayed so: arrays of up to `LARGE` entries are looked at after each query,
    larger ones in the end.
    """

    named: Any  # int[lanes, n]
    worker: Any
    hits: Any
    start: Any  # float64[lanes, n]
    first_token: Any
    end: Any
    finite: Any  # bool[lanes]


class Watched(RoutingPolicy):
    """A router whose choices are noted, and used only if the worker is there."""

    policy: RoutingPolicy

    name: ClassVar[str] = "watched"

    @property
    def watches_prefill(self) -> bool:  # type: ignore[override]
        return self.policy.watches_prefill

    @property
    def watches_starts(self) -> bool:  # type: ignore[override]
        return self.policy.watches_starts

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[Any, Array]:
        named = jnp.zeros(tape.query_length.shape[0], jnp.int32)
        return self.policy.init(tape, workers, prepared, key), named

    def propose(self, state: Any, tape: Tape, seen: Seen) -> tuple[Any, Scalar]:
        inner, worker = self.policy.propose(state[0], tape, seen)
        worker = jnp.asarray(worker).astype(jnp.int32)
        return (inner, state[1].at[seen.t].set(worker)), jnp.clip(worker, 0, seen.workers - 1)

    def dispatch(self, state: Any, tape: Tape, seen: Seen, worker: Scalar) -> Any:
        return self.policy.dispatch(state[0], tape, seen, worker), state[1]

    def first_token(self, state: Any, tape: Tape, event: Event) -> Any:
        return self.policy.first_token(state[0], tape, event), state[1]

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        return self.policy.complete(state[0], tape, event), state[1]


def run_small_cluster(
    router: RoutingPolicy,
    instance: Any,
    cluster: Cluster,
    keys: list[Key[Array, ""]],
    *,
    believed: Cluster | None = None,
    view_capacity: int = 6,
    batching: Batching = "map",
    shape: Shape = SMALL,
) -> ClusterRun:
    """Serve an instance on leaf-LRU caches, seen through routed trees of ``view_capacity``."""
    n, workers = instance.requests, cluster.workers
    with jax.enable_x64(True):
        tape = small_tape(LeafLRU(), instance, int(cluster.capacity.min()), shape)
        world = World(
            tape=jax.tree.map(jnp.asarray, tape),
            traffic=_traffic(instance, shape.requests),
            fleet=_fleet(cluster),
            believed=_fleet(believed or cluster),
            view_capacity=jnp.full(workers, view_capacity, jnp.int32),
            refresh=jnp.ones((), jnp.float64),
            block_size=jnp.asarray(instance.block_size, jnp.int32),
            prepared=padded_rows(router.prepare(instance, workers), shape.requests),
            row=jnp.arange(shape.requests, dtype=jnp.int32),
        )
        run = _run(batching, jax.tree.map(jnp.asarray, router), world, jnp.stack(keys))
    finite, run = np.asarray(run.finite), run._replace(finite=run.named)
    return ClusterRun(*(np.asarray(field)[:, :n] for field in run))._replace(finite=finite)


def padded_rows(rows: dict[str, Any], size: int) -> dict[str, Array]:
    """What a router prepared, with rows of 0 for padded queries."""
    return {
        name: jnp.asarray(np.concatenate([a, np.zeros((size - len(a), *a.shape[1:]), a.dtype)]))
        for name, a in rows.items()
    }


def _fleet(cluster: Cluster) -> Fleet:
    names = [f.name for f in dataclasses.fields(cluster)]
    seconds = {k: jnp.asarray(getattr(cluster, k), float) for k in names if k in Fleet._fields}
    return Fleet(**seconds | {"capacity": jnp.asarray(cluster.capacity, jnp.int32)})


def _traffic(instance: Any, size: int) -> Traffic:
    rest = size - instance.requests
    arrival: Float[np.ndarray, " size"] = np.pad(instance.arrival, (0, rest), mode="edge")
    output: Int[np.ndarray, " size"] = np.pad(instance.output_length, (0, rest))
    return Traffic(jnp.asarray(arrival, float), jnp.asarray(output, float))


@partial(jax.jit, static_argnames="batching")
def _run(
    batching: Batching, router: RoutingPolicy, world: World, keys: Key[Array, " lanes"]
) -> ClusterRun:
    global _traces
    _traces += 1
    requests = world.tape.query_length.shape[0]
    watched, eviction, view = Watched(router), LeafLRU(), View("routed", LeafLRU(), False)

    def lane(key: Key[Array, ""]) -> ClusterRun:
        first = init_cluster(watched, eviction, view, world, *jax.random.split(key))
        known = [jnp.isfinite(x).all() for x in _floats(first.router[0])]

        def finite(state: Any, most: int | None = None) -> Bool[Array, ""]:
            kept = [
                jnp.isfinite(x).all() | ~at_first
                for x, at_first in zip(_floats(state), known, strict=True)
                if most is None or x.size <= most
            ]
            return jnp.array(kept, bool).all()

        def one(carry: tuple[ClusterState, Array], t: Scalar) -> tuple[Any, Array]:
            state, fine = carry
            state, hits = arrive(watched, eviction, view, world, state, t)
            return (state, fine & finite(state.router[0], LARGE)), hits

        (last, fine), hits = lax.scan(
            one, (first, jnp.ones((), bool)), jnp.arange(requests, dtype=jnp.int32)
        )
        times = last.queues.time.reshape(3, requests)
        return ClusterRun(
            last.router[1],
            last.queues.worker,
            hits,
            times[START],
            times[FIRST_TOKEN],
            times[END],
            fine & finite(last.router[0]),
        )

    return jax.vmap(lane)(keys) if batching == "vmap" else lax.map(lane, keys)


def compilations() -> int:
    """How many times the driver has been compiled so far."""
    return _traces


def _floats(state: Any) -> list[Array]:
    return [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating)]
