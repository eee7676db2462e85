"""A router's books on the device: what was sent where, and what has happened to it since.

The driver knows when each query will start and end. Here that is reported, in rows: of one kind
each, and in order of time. Rows are applied in bulk, up to the next query to be routed.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from kvtheory.cache import Scalar, Tape, once, write
from kvtheory.dispatch import Fleet
from kvtheory.eviction.llru import LeafLRU
from kvtheory.online.growing_tape import append
from kvtheory.online.prepared import Places
from kvtheory.router import Event, RoutingPolicy, Seen, Time
from kvtheory.step import State, serve

ROUTE, START, FIRST_TOKEN, END = range(4)
TREES = LeafLRU()
AnyArray = Array | np.ndarray


class Books(NamedTuple):
    """The queries routed so far, and the counts of `kvtheory.router.Seen`."""

    arrival: Float[Array, " requests"]
    worker: Int[Array, " requests"]
    hits: Int[Array, " requests"]
    service: Float[Array, " requests"]
    finished: Float[Array, " workers"]
    in_flight: Int[Array, " workers"]
    queued: Int[Array, " workers"]
    pending: Int[Array, " workers"]
    waiting: Int[Array, " workers"]
    work: Float[Array, " workers"]
    total: Float[Array, " workers"]

    @classmethod
    def blank(cls, requests: int, workers: int) -> "Books":
        """Nothing routed."""
        count, seconds = jnp.zeros(workers, jnp.int32), jnp.zeros(workers, float)
        whole, real = jnp.zeros(requests, jnp.int32), jnp.zeros(requests, float)
        return cls(
            arrival=real,
            worker=whole,
            hits=whole,
            service=real,
            finished=jnp.full(workers, -jnp.inf, float),
            in_flight=count,
            queued=count,
            pending=count,
            waiting=count,
            work=seconds,
            total=seconds,
        )


class Desk(NamedTuple):
    """Everything that changes: the router's trees, its books, and the state of its rule."""

    trees: State
    books: Books
    own: Any


class Believed(NamedTuple):
    """What does not change: the workers as believed, units of each tree, and tokens in a unit."""

    fleet: Fleet
    view_capacity: Int[Array, " workers"]
    block_size: Int[Array, ""]


class Rows(NamedTuple):
    """What happened: kind and query; time and, of a query that came, output tokens."""

    what: Int[AnyArray, "rows 2"]
    when: Float[AnyArray, "rows 2"]


class New(NamedTuple):
    """The last query that came, its path and what is prepared for it.

    ``numbers`` are the number of rows to apply, the index of the query, and its units.
    """

    numbers: Int[AnyArray, " 3"]
    path: Int[AnyArray, " longest"]
    prepared: Mapping[str, AnyArray]


@partial(jax.jit, static_argnums=1, donate_argnums=(3, 4))
def apply(
    policy: RoutingPolicy,
    places: Places,
    believed: Believed,
    tape: Tape,
    desk: Desk,
    rows: Rows,
    new: New,
) -> tuple[Tape, Desk, Int[Array, " 3"]]:
    """Put the last query on the tape and apply some rows: worker, hits there, fault of the trees.

    ``places`` are the leaves of the router's state that it prepared for each query.
    """
    count, last, size = new.numbers
    tape = append(tape, last, new.path, size)
    leaves, structure = jax.tree.flatten(desk.own)
    for i, name in places:
        leaves[i] = leaves[i].at[last].set(new.prepared[name])
    desk = desk._replace(own=jax.tree.unflatten(structure, leaves))

    def one(i: Scalar, desk: Desk) -> Desk:
        (kind, t), (time, output) = rows.what[i], rows.when[i]
        desk = once(
            kind == ROUTE, lambda d: _route(policy, believed, tape, d, t, time, output), desk
        )
        return once(kind != ROUTE, lambda d: _happen(policy, tape, d, kind, t, time), desk)

    desk = lax.fori_loop(0, count, one, desk)
    books = desk.books
    return tape, desk, jnp.stack([books.worker[last], books.hits[last], desk.trees.fault])


def _cached_units(
    trees: State, tape: Tape, workers: int, first: Scalar, stop: Scalar
) -> Int[Array, " workers"]:
    """Units of a path in each tree."""
    cached = trees.cache.cached.reshape(workers, tape.edges)
    return lax.fori_loop(
        first, stop, lambda p, hits: hits + cached[:, tape.edge[p]], jnp.zeros(workers, jnp.int32)
    )


def _route(
    policy: RoutingPolicy,
    believed: Believed,
    tape: Tape,
    desk: Desk,
    t: Scalar,
    now: Time,
    output: Time,
) -> Desk:
    trees, books, own = desk
    fleet, workers = believed.fleet, books.total.shape[0]
    first, stop, length = tape.start[t], tape.start[t + 1], tape.query_length[t]
    hits = _cached_units(trees, tape, workers, first, stop)
    seen = Seen(
        t=t,
        now=now,
        length=length,
        first=first,
        stop=stop,
        block_size=believed.block_size,
        hits=hits,
        tree=trees.cache.used,
        capacity=fleet.capacity,
        in_flight=books.in_flight,
        queued=books.queued,
        pending=books.pending,
        waiting=books.waiting,
        work=books.work,
        # nobody knows; the estimate is the best there is
        true_work=books.work,
        total=books.total,
        service=fleet.prefill(length, hits) + fleet.output(output),
        miss_work=fleet.misses(length, hits) / fleet.speed + fleet.output(output),
        alpha_miss=fleet.alpha_miss,
    )
    seen, trees, books, own = lax.optimization_barrier((seen, trees, books, own))
    own, named = policy.propose(own, tape, seen)
    # a worker that is not there is refused on the host, and must not be written to before
    worker = jnp.clip(named, 0, workers - 1)
    own = policy.dispatch(own, tape, seen, worker)
    trees, _ = serve(TREES, tape, believed.view_capacity, trees, t, worker)
    hit, service = seen.hits[worker], seen.service[worker]
    books = books._replace(
        arrival=write(books.arrival, t, now),
        worker=write(books.worker, t, named),
        hits=write(books.hits, t, hit),
        service=write(books.service, t, service),
        in_flight=books.in_flight.at[worker].add(1),
        queued=books.queued.at[worker].add(1),
        pending=books.pending.at[worker].add(length - hit),
        waiting=books.waiting.at[worker].add(length - hit),
        work=books.work.at[worker].add(service),
        total=books.total.at[worker].add(service),
    )
    return Desk(trees, books, own)


def _happen(
    policy: RoutingPolicy, tape: Tape, desk: Desk, kind: Scalar, t: Scalar, time: Time
) -> Desk:
    trees, books, own = desk
    worker = books.worker[t]
    event = Event(
        t=t,
        worker=worker,
        time=time,
        arrival=books.arrival[t],
        before=books.finished[worker],
        length=tape.query_length[t],
        hits=books.hits[t],
        service=books.service[t],
    )
    event, books = lax.optimization_barrier((event, books))
    started, first, ended = (kind == k for k in (START, FIRST_TOKEN, END))
    left = event.length - event.hits
    in_flight = books.in_flight[worker] - ended
    work = books.work[worker] - jnp.where(ended, event.service, 0.0)
    books = books._replace(
        in_flight=write(books.in_flight, worker, in_flight),
        queued=books.queued.at[worker].add(-started.astype(jnp.int32)),
        pending=books.pending.at[worker].add(jnp.where(first, -left, 0)),
        waiting=books.waiting.at[worker].add(jnp.where(started, -left, 0)),
        # what is left over once nothing is in flight is rounding
        work=write(books.work, worker, jnp.where(in_flight == 0, 0.0, work)),
        finished=books.finished.at[worker].set(jnp.where(ended, time, books.finished[worker])),
    )
    own = once(first, lambda r: policy.first_token(r, tape, event), own)
    own = once(ended, lambda r: policy.complete(r, tape, event), own)
    return Desk(trees, books, own)
