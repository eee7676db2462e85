"""Routing and serving on a cluster: one jitted scan over the arrivals.

At each arrival the router learns what has happened, sees the caches through its view and names a
worker; the query is served there by the same step as on a single worker (`kvtheory.step`), and
queued first come, first served.
"""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from kvtheory import queueing
from kvtheory.cache import EvictionPolicy, Scalar, Tape, once
from kvtheory.queueing import END, FIRST_TOKEN, START, Queues
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.step import State, init, serve

ViewName = Literal["oracle", "routed", "stale"]


class Fleet(NamedTuple):
    """The workers on the device; seconds per unit, per output token and per query."""

    capacity: Int[Array, " workers"]
    alpha_cached: Float[Array, " workers"]
    alpha_miss: Float[Array, " workers"]
    alpha_out: Float[Array, " workers"]
    overhead: Float[Array, " workers"]
    speed: Float[Array, " workers"]

    def prefill(self, length: Scalar, hits: Array) -> Array:
        """float[workers]; seconds until the first token."""
        return (self.alpha_cached * hits + self.alpha_miss * (length - hits)) / self.speed

    def output(self, tokens: Array) -> Array:
        """float[workers]; seconds for the output, O."""
        return (self.alpha_out * tokens + self.overhead) / self.speed


class Traffic(NamedTuple):
    """Arrival times in seconds (∞ where padded) and output tokens."""

    arrival: Float[Array, " requests"]
    output: Float[Array, " requests"]


class Look(NamedTuple):
    """What a view keeps: the caches it shows, and for a stale one what it showed of the queues."""

    caches: State
    polls: Int[Array, ""]
    in_flight: Int[Array, " workers"]
    queued: Int[Array, " workers"]
    pending: Int[Array, " workers"]
    waiting: Int[Array, " workers"]
    work: Float[Array, " workers"]
    true_work: Float[Array, " workers"]


class World(NamedTuple):
    """What a run does not change: the instance, the workers as they are and as believed.

    ``view_capacity`` are the units of each tree of a routed view, ``refresh`` the seconds between
    two looks of a stale one, ``block_size`` the tokens in a unit, and ``prepared`` what the router
    made on the host.
    """

    tape: Tape
    traffic: Traffic
    fleet: Fleet
    believed: Fleet
    view_capacity: Int[Array, " workers"]
    refresh: Float[Array, ""]
    block_size: Int[Array, ""]
    prepared: dict[str, Array]


class ClusterState(NamedTuple):
    """Everything that one arrival leaves to the next."""

    serving: State
    queues: Queues
    look: Look
    router: Any


class View(NamedTuple):
    """How a router sees the caches; ``trees`` is the eviction policy of a router's own trees."""

    kind: str
    trees: EvictionPolicy
    own_dispatches: bool


def init_cluster(
    router: RoutingPolicy,
    eviction: EvictionPolicy,
    view: View,
    world: World,
    key: Key[Array, ""],
    route_key: Key[Array, ""],
) -> ClusterState:
    """Empty caches, idle workers."""
    tape, capacity = world.tape, world.fleet.capacity
    workers, requests = capacity.shape[0], tape.query_length.shape[0]
    serving = init(eviction, tape, capacity, key)
    shown = init(view.trees, tape, world.view_capacity, key)
    zero, seconds = jnp.zeros(workers, jnp.int32), jnp.zeros(workers, float)
    return ClusterState(
        serving=serving,
        queues=queueing.init(requests, workers),
        look=Look(shown, jnp.full((), -1, jnp.int32), zero, zero, zero, zero, seconds, seconds),
        router=router.init(tape, workers, world.prepared, route_key),
    )


def arrive(
    router: RoutingPolicy,
    eviction: EvictionPolicy,
    view: View,
    world: World,
    state: ClusterState,
    t: Scalar,
) -> tuple[ClusterState, Int[Array, ""]]:
    """Route and serve query ``t``: next state, and the units that hit."""
    tape, traffic, fleet, believed = world.tape, world.traffic, world.fleet, world.believed
    now, length = traffic.arrival[t], tape.query_length[t]
    tell = (
        lambda r, event: router.first_token(r, tape, event),
        lambda r, event: router.complete(r, tape, event),
    )

    def learn(carry: tuple[Queues, Any], until: Array) -> tuple[Queues, Any]:
        return queueing.happen(carry[0], until, traffic.arrival, tape.query_length, tell, carry[1])

    queues, own, look = state.queues, state.router, state.look
    if view.kind == "stale":
        poll = jnp.floor(now / world.refresh).astype(jnp.int32)

        def renew(carry: tuple[Queues, Any, Look]) -> tuple[Queues, Any, Look]:
            queues, own = learn((carry[0], carry[1]), poll * world.refresh)
            return queues, own, _poll(queues, carry[2], state.serving, poll, poll * world.refresh)

        queues, own, look = once(poll > look.polls, renew, (queues, own, look))
    queues, own = learn((queues, own), now)
    caches = state.serving.cache if view.kind == "oracle" else look.caches.cache
    workers = fleet.capacity.shape[0]
    first, stop = tape.start[t], tape.start[t + 1]
    hits = jnp.stack(
        [
            lax.fori_loop(
                first,
                stop,
                lambda p, h, w=w: h + caches.cached[w * tape.edges + tape.edge[p]],
                jnp.zeros((), jnp.int32),
            )
            for w in range(workers)
        ]
    )
    stale = view.kind == "stale"
    seen = Seen(
        t=t,
        now=now,
        length=length,
        first=first,
        stop=stop,
        block_size=world.block_size,
        hits=hits,
        tree=caches.used,
        capacity=believed.capacity,
        in_flight=look.in_flight if stale else queues.in_flight,
        queued=look.queued if stale else queues.queued,
        pending=look.pending if stale else queues.pending,
        waiting=look.waiting if stale else queues.waiting,
        work=look.work if stale else queues.work,
        true_work=look.true_work if stale else jnp.maximum(queues.free - now, 0.0),
        total=queues.total,
        service=believed.prefill(length, hits) + believed.output(traffic.output[t]),
        miss_work=believed.alpha_miss * (length - hits) / believed.speed
        + believed.output(traffic.output[t]),
        alpha_miss=believed.alpha_miss,
    )
    # XLA would copy the caches for a read that is not ordered before the writes below
    seen, state, queues, look, own = lax.optimization_barrier((seen, state, queues, look, own))
    own, worker = router.propose(own, tape, seen)
    own = router.dispatch(own, tape, seen, worker)
    serving, hit = serve(eviction, tape, fleet.capacity, state.serving, t, worker)
    if view.kind == "routed":
        shown, _ = serve(view.trees, tape, world.view_capacity, look.caches, t, worker)
        look = look._replace(caches=shown)
    start = jnp.maximum(now, queues.free[worker])
    token = start + fleet.prefill(length, hit)[worker]
    end = token + fleet.output(traffic.output[t])[worker]
    service = seen.service[worker]
    queues = queueing.dispatch(
        queues, t, worker, (start, token, end), length, seen.hits[worker], service
    )
    if stale and view.own_dispatches:
        look = look._replace(
            in_flight=look.in_flight.at[worker].add(1),
            queued=look.queued.at[worker].add(1),
            pending=look.pending.at[worker].add(length - seen.hits[worker]),
            waiting=look.waiting.at[worker].add(length - seen.hits[worker]),
            work=look.work.at[worker].add(service),
        )
    return ClusterState(serving, queues, look, own), hit


def _poll(queues: Queues, look: Look, serving: State, poll: Scalar, at: Array) -> Look:
    shown = look.caches._replace(cache=serving.cache)
    return Look(
        shown,
        poll,
        queues.in_flight,
        queues.queued,
        queues.pending,
        queues.waiting,
        queues.work,
        jnp.maximum(queues.free - at, 0.0),
    )


class Trace(NamedTuple):
    """What a run reports of every query; times in seconds."""

    hits: Int[Array, " requests"]
    worker: Int[Array, " requests"]
    believed: Int[Array, " requests"]
    start: Float[Array, " requests"]
    first_token: Float[Array, " requests"]
    end: Float[Array, " requests"]
    fault: Int[Array, ""]


def run_cluster(
    router: RoutingPolicy,
    eviction: EvictionPolicy,
    view: View,
    world: World,
    key: Key[Array, ""],
    route_key: Key[Array, ""],
) -> Trace:
    """All queries of a tape."""
    requests = world.tape.query_length.shape[0]
    state, hits = lax.scan(
        lambda state, t: arrive(router, eviction, view, world, state, t),
        init_cluster(router, eviction, view, world, key, route_key),
        jnp.arange(requests, dtype=jnp.int32),
    )
    times = state.queues.time.reshape(3, requests)
    return Trace(
        hits,
        state.queues.worker,
        state.queues.believed,
        times[START],
        times[FIRST_TOKEN],
        times[END],
        jnp.maximum(state.serving.fault, state.look.caches.fault),
    )
