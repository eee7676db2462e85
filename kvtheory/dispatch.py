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
from kvtheory.cache import EvictionPolicy, Scalar, Tape, once, write
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
    alpha_depth: Float[Array, " workers"]

    def misses(self, length: Scalar, hits: Array) -> Array:
        """float[workers]; seconds for the units below the hits, at speed 1."""
        deep = (length * (length + 1.0) - hits * (hits + 1.0)) / 2  # the sum of their depths
        return self.alpha_miss * (length - hits) + self.alpha_depth * deep

    def prefill(self, length: Scalar, hits: Array) -> Array:
        """float[workers]; seconds until the first token."""
        return (self.alpha_cached * hits + self.misses(length, hits)) / self.speed

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


class SpeedChanges(NamedTuple):
    """Speeds before and after each change; a service has those of its start."""

    at: Float[Array, " changes"]
    speed: Float[Array, "changes+1 workers"]


class Warm(NamedTuple):
    """Paths served before time 0: their rows of the tape, and on which worker."""

    row: Int[Array, " warm"]
    worker: Int[Array, " warm"]


class World(NamedTuple):
    """What a run does not change: the instance, the workers as they are and as believed.

    ``view_capacity`` are the units of each tree of a routed view, ``refresh`` the seconds between
    two looks of a stale one, ``block_size`` the tokens in a unit, and ``prepared`` what the router
    made on the host. ``row`` are the rows of the tape that are queries (`kvtheory.rows`), and
    ``end`` gives for each of these rows that of its output units.
    """

    tape: Tape
    traffic: Traffic
    fleet: Fleet
    believed: Fleet
    view_capacity: Int[Array, " workers"]
    refresh: Float[Array, ""]
    block_size: Int[Array, ""]
    prepared: dict[str, Array]
    row: Int[Array, " queries"]
    end: Int[Array, " rows"] | None = None
    warm: Warm | None = None
    speed_changes: SpeedChanges | None = None


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
    """Caches that are empty or warm, idle workers."""
    tape, capacity = world.tape, world.fleet.capacity
    workers, requests = capacity.shape[0], tape.query_length.shape[0]
    serving = init(eviction, tape, capacity, key)
    shown = init(view.trees, tape, world.view_capacity, key)
    if (warm := world.warm) is not None:

        def one(k: Scalar, both: tuple[State, State]) -> tuple[State, State]:
            serving, shown = both
            where = warm.row[k], warm.worker[k]
            serving, _ = serve(eviction, tape, capacity, serving, *where)
            if view.kind == "routed":
                shown, _ = serve(view.trees, tape, world.view_capacity, shown, *where)
            return serving, shown

        serving, shown = lax.fori_loop(0, warm.row.shape[0], one, (serving, shown))
    zero, seconds = jnp.zeros(workers, jnp.int32), jnp.zeros(workers, float)
    return ClusterState(
        serving=serving,
        queues=queueing.init(requests, workers, _kinds(router)),
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
    """Route and serve the query of row ``t``: next state, and the units that hit."""
    tape, traffic, fleet, believed = world.tape, world.traffic, world.fleet, world.believed
    now, length, kinds = traffic.arrival[t], tape.query_length[t], _kinds(router)
    tell = (
        lambda r, event: router.first_token(r, tape, event),
        lambda r, event: router.complete(r, tape, event),
    )

    def learn(carry: tuple[Queues, Any], until: Array) -> tuple[Queues, Any]:
        return queueing.happen(
            carry[0], until, traffic.arrival, tape.query_length, tell, carry[1], kinds
        )

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
    slots = jnp.arange(workers, dtype=jnp.int32) * tape.edges
    hits = lax.fori_loop(
        first,
        stop,
        lambda p, h: h + caches.cached[slots + tape.edge[p]],
        jnp.zeros(workers, jnp.int32),
    )
    stale = view.kind == "stale"
    shown = look if stale else queues
    unseen = jnp.full(workers, -1, jnp.int32)
    starts, prefill = (kind in kinds for kind in (START, FIRST_TOKEN))
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
        in_flight=shown.in_flight,
        queued=shown.queued if starts else unseen,
        pending=shown.pending if prefill else unseen,
        waiting=shown.waiting if starts else unseen,
        work=shown.work,
        true_work=look.true_work if stale else jnp.maximum(queues.free - now, 0.0),
        total=queues.total,
        service=believed.prefill(length, hits) + believed.output(traffic.output[t]),
        miss_work=believed.misses(length, hits) / believed.speed
        + believed.output(traffic.output[t]),
        alpha_miss=believed.alpha_miss,
    )
    # XLA would copy the caches for a read that is not ordered before the writes below; and what a
    # loop has replaced, such as state.router, if its old version were kept until here
    seen, serving, queues, look, own = lax.optimization_barrier(
        (seen, state.serving, queues, look, own)
    )
    own, named = router.propose(own, tape, seen)
    worker = jnp.clip(named, 0, workers - 1)  # the caller refuses one that is not there
    own = router.dispatch(own, tape, seen, worker)
    serving, hit = serve(eviction, tape, fleet.capacity, serving, t, worker)
    if view.kind == "routed":
        trees, _ = serve(view.trees, tape, world.view_capacity, look.caches, t, worker)
        look = look._replace(caches=trees)
    if world.end is not None:
        serving, _ = serve(eviction, tape, fleet.capacity, serving, world.end[t], worker)
    start = jnp.maximum(now, queues.free[worker])
    if (changes := world.speed_changes) is not None:
        done = (changes.at <= start).sum(dtype=jnp.int32)
        fleet = fleet._replace(speed=changes.speed[done])
    token = start + fleet.prefill(length, hit)[worker]
    end = token + fleet.output(traffic.output[t])[worker]
    service = seen.service[worker]
    queues = queueing.dispatch(
        queues, t, worker, (start, token, end), length, seen.hits[worker], service, kinds
    )
    queues = queues._replace(worker=write(queues.worker, t, named.astype(jnp.int32)))
    if stale and view.own_dispatches:
        look = look._replace(
            in_flight=look.in_flight.at[worker].add(1),
            queued=look.queued.at[worker].add(1),
            pending=look.pending.at[worker].add(length - seen.hits[worker]),
            waiting=look.waiting.at[worker].add(length - seen.hits[worker]),
            work=look.work.at[worker].add(service),
        )
    return ClusterState(serving, queues, look, own), hit


def _kinds(router: RoutingPolicy) -> queueing.Kinds:
    if not router.watches_prefill:
        return queueing.ENDS
    return queueing.ALL if router.watches_starts else (FIRST_TOKEN, END)


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
    """What a run reports of every query, padded ones last; times in seconds."""

    hits: Int[Array, " queries"]
    worker: Int[Array, " queries"]
    believed: Int[Array, " queries"]
    start: Float[Array, " queries"]
    first_token: Float[Array, " queries"]
    end: Float[Array, " queries"]
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
    state, hits = lax.scan(
        lambda state, t: arrive(router, eviction, view, world, state, t),
        init_cluster(router, eviction, view, world, key, route_key),
        world.row,
    )
    times = state.queues.time.reshape(3, -1)[:, world.row]
    return Trace(
        hits,
        state.queues.worker[world.row],
        state.queues.believed[world.row],
        times[START],
        times[FIRST_TOKEN],
        times[END],
        jnp.maximum(state.serving.fault, state.look.caches.fault),
    )
