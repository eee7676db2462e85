"""Queues of the workers, first come, first served, and what becomes known of them when.

The queries of a worker form a chain in routing order, which is also the order in which they start,
have their first token and are completed; three heads a worker walk along it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from kvtheory.cache import NEVER, Scalar, once, read, write
from kvtheory.router import Event, Time

START, FIRST_TOKEN, END = range(3)
ALL, ENDS = (START, FIRST_TOKEN, END), (END,)
Kinds = tuple[int, ...]
"""Which events become known, in this order; the others are only recorded."""


class Queues(NamedTuple):
    """Times of all queries routed so far, the chains, and what has been seen of them.

    ``time`` holds start, first token and end of query j at j, n + j and 2n + j; ``head`` and
    ``due`` the next query of each kind on each worker and its time (∞ if there is none);
    ``worker`` what the router named, which may not be there and is for the driver to note.
    """

    time: Float[Array, " 3*requests"]
    worker: Int[Array, " requests"]
    believed: Int[Array, " requests"]
    service: Float[Array, " requests"]
    next: Int[Array, " requests"]
    head: Int[Array, " kinds*workers"]
    due: Float[Array, " kinds*workers"]
    tail: Int[Array, " workers"]
    free: Float[Array, " workers"]
    finished: Float[Array, " workers"]
    in_flight: Int[Array, " workers"]
    queued: Int[Array, " workers"]
    pending: Int[Array, " workers"]
    waiting: Int[Array, " workers"]
    work: Float[Array, " workers"]
    total: Float[Array, " workers"]


def init(requests: int, workers: int, kinds: Kinds = ALL) -> Queues:
    """Idle workers."""
    none, zero = jnp.full(requests, NEVER, jnp.int32), jnp.zeros(workers, jnp.int32)
    seconds = jnp.zeros(workers, float)
    return Queues(
        time=jnp.zeros(3 * requests, float),
        worker=none,
        believed=none,
        service=jnp.zeros(requests, float),
        next=none,
        head=jnp.full(len(kinds) * workers, NEVER, jnp.int32),
        due=jnp.full(len(kinds) * workers, jnp.inf, float),
        tail=jnp.full(workers, NEVER, jnp.int32),
        free=seconds,
        finished=jnp.full(workers, -jnp.inf, float),
        in_flight=zero,
        queued=zero,
        pending=zero,
        waiting=zero,
        work=seconds,
        total=seconds,
    )


def dispatch(
    of: Queues,
    t: Scalar,
    worker: Scalar,
    times: tuple[Time, Time, Time],
    length: Scalar,
    believed: Scalar,
    service: Time,
    kinds: Kinds = ALL,
) -> Queues:
    """Put query ``t`` at the end of the queue of a worker; times are start, first token, end."""
    requests, workers = of.worker.shape[0], of.tail.shape[0]
    tail, tails = read(of.tail, worker)
    at = jnp.where(tail == NEVER, t, tail)
    head, due, time = of.head, of.due, of.time
    for kind in ALL:
        time = write(time, kind * requests + t, times[kind])
    for k, kind in enumerate(kinds):
        slot = k * workers + worker
        old_head, head = read(head, slot)
        old_due, due = read(due, slot)
        empty = old_head == NEVER
        head = write(head, slot, jnp.where(empty, t, old_head))
        due = write(due, slot, jnp.where(empty, times[kind], old_due))
    return Queues(
        time=time,
        worker=of.worker,
        believed=write(of.believed, t, believed),
        service=write(of.service, t, service),
        # the first query of a worker points at itself until it is overwritten
        next=write(of.next, at, jnp.where(tail == NEVER, NEVER, t)),
        head=head,
        due=due,
        tail=write(tails, worker, t),
        free=of.free.at[worker].set(times[END]),
        finished=of.finished,
        in_flight=of.in_flight.at[worker].add(1),
        queued=of.queued.at[worker].add(1),
        pending=of.pending.at[worker].add(length - believed),
        waiting=of.waiting.at[worker].add(length - believed),
        work=of.work.at[worker].add(service),
        total=of.total.at[worker].add(service),
    )


def happen[T](
    of: Queues,
    until: Time,
    arrival: Float[Array, " requests"],
    length: Int[Array, " requests"],
    tell: tuple[Callable[[T, Event], T], Callable[[T, Event], T]],
    router: T,
    kinds: Kinds = ALL,
) -> tuple[Queues, T]:
    """Everything up to a time becomes known, in order of time.

    Ties go to the earlier query, then start, first token, completion. ``tell`` are the router's
    `first_token` and `complete`.
    """
    requests, workers = of.worker.shape[0], of.tail.shape[0]
    kind_of = jnp.repeat(jnp.array(kinds, jnp.int32), workers)

    def more(carry: tuple[Queues, Any]) -> Array:
        return carry[0].due.min() <= until

    def one(carry: tuple[Queues, Any]) -> tuple[Queues, Any]:
        q, router = carry
        time = q.due.min()
        order = jnp.where(q.due == time, q.head * 3 + kind_of, NEVER)
        slot = jnp.argmin(order).astype(jnp.int32)
        kind, worker = kind_of[slot], slot % workers
        t = q.head[slot]
        event = Event(
            t=t,
            worker=worker,
            time=time,
            arrival=arrival[t],
            before=q.finished[worker],
            length=length[t],
            hits=q.believed[t],
            service=q.service[t],
        )
        after = q.next[t]
        due = q.time[jnp.where(after == NEVER, 0, kind * requests + after)]
        event, after, due, q = lax.optimization_barrier((event, after, due, q))
        # what cannot happen is known when this is compiled
        started, first, ended = (
            kind == k if len(kinds) > 1 else jnp.array(k in kinds) for k in ALL
        )
        in_flight = q.in_flight[worker] - ended
        work = q.work[worker] - jnp.where(ended, event.service, 0.0)
        q = q._replace(
            head=write(q.head, slot, after),
            due=write(q.due, slot, jnp.where(after == NEVER, jnp.inf, due)),
            # what is left over once nothing is in flight is rounding
            work=write(q.work, worker, jnp.where(in_flight == 0, 0.0, work)),
            in_flight=write(q.in_flight, worker, in_flight),
            queued=q.queued.at[worker].add(-started.astype(jnp.int32)),
            pending=q.pending.at[worker].add(jnp.where(first, event.hits - event.length, 0)),
            waiting=q.waiting.at[worker].add(jnp.where(started, event.hits - event.length, 0)),
            finished=q.finished.at[worker].set(jnp.where(ended, time, q.finished[worker])),
        )
        if FIRST_TOKEN in kinds:
            router = once(first, lambda r: tell[0](r, event), router)
        router = (
            tell[1](router, event)
            if kinds == ENDS
            else once(ended, lambda r: tell[1](r, event), router)
        )
        return q, router

    return lax.while_loop(more, one, (of, router))
