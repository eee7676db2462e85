"""Serving one query on a worker: touch, evict, load, account.

A policy plugs in through `kvtheory.cache.EvictionPolicy`; `init` and `serve` are pure, to be put
into a scan of one's own if need be.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import (
    Cache,
    EvictionPolicy,
    Query,
    Scalar,
    Tape,
    add,
    once,
    read,
    write,
)

OK, STUCK, NOT_A_LEAF, ON_THE_PATH, TOO_MANY = range(5)
FAULTS = {
    STUCK: "named no victim although units must go",
    NOT_A_LEAF: "evicted a unit that has cached children",
    ON_THE_PATH: "evicted a unit of the query being served",
    TOO_MANY: "evicted more units of an edge than are cached, or a negative number",
}


class State(NamedTuple):
    """Everything that one query leaves to the next."""

    cache: Cache
    policy: Any
    fault: Scalar


def init(
    policy: EvictionPolicy, tape: Tape, capacity: Int[Array, " workers"], key: Key[Array, ""]
) -> State:
    """Empty caches and an empty policy state."""
    workers = capacity.shape[0]

    def slots(value: int) -> Array:
        return jnp.full(workers * tape.edges, value, jnp.int32)

    cache = Cache(slots(0), slots(0), slots(-1), jnp.zeros(workers, jnp.int32))
    return State(cache, policy.init(tape, workers, capacity, key), jnp.zeros((), jnp.int32))


def serve(
    policy: EvictionPolicy,
    tape: Tape,
    capacity: Int[Array, " workers"],
    state: State,
    t: Scalar,
    worker: Scalar | int = 0,
) -> tuple[State, Scalar]:
    """Serve query ``t`` on a worker: next state, and the units that hit."""
    cache = state.cache
    worker = jnp.asarray(worker, jnp.int32)
    base = worker * tape.edges
    first, stop, length = tape.start[t], tape.start[t + 1], tape.query_length[t]
    hits = lax.fori_loop(
        first, stop, lambda p, h: h + cache.cached[base + tape.edge[p]], jnp.zeros((), jnp.int32)
    )
    fits = length <= capacity[worker]
    stop = jnp.where(fits, stop, first)
    used = cache.used[worker]
    over = used + length - hits - capacity[worker]
    need = jnp.where(fits, jnp.maximum(over, 0), 0)
    hits, need, cache = lax.optimization_barrier((hits, need, cache))
    last = lax.fori_loop(
        first, stop, lambda p, last: write(last, base + tape.edge[p], p), cache.last
    )
    cache = cache._replace(last=last)
    query = Query(t, worker, base, first, stop, length, hits, need, used, capacity[worker])

    own, cache = lax.optimization_barrier((policy.touch(state.policy, tape, cache, query), cache))
    if policy.admission == "forced":
        cache, own, fault, left = _evict(policy, tape, cache, own, query)
        cache, own = _load(policy, tape, cache, own, query)
    else:
        cache, own = _load(policy, tape, cache, own, query)
        cache, own = lax.optimization_barrier((cache, own))
        cache, own, fault, left = _evict(policy, tape, cache, own, query)
    gone = need - left
    used = jnp.where(fits, used + length - hits - gone, used)
    cache = cache._replace(used=write(cache.used, worker, used))
    return State(cache, own, jnp.maximum(state.fault, fault)), hits


def _evict(
    policy: EvictionPolicy, tape: Tape, cache: Cache, own: Any, query: Query
) -> tuple[Cache, Any, Scalar, Scalar]:
    """Let units go until the query fits: cache, policy state, fault, and what is still needed."""
    last = cache.last
    patience = tape.edge.shape[0] + tape.edges
    null = jnp.int32(tape.null)

    def more(need: Scalar, own: Any, trouble: Scalar) -> Array:
        return ((need > 0) | policy.unfinished(own, query)) & (trouble <= patience)

    def take(carry: Any) -> Any:
        need, cached, own, _, trouble, kids = carry
        now = cache._replace(cached=cached, kids=kids)
        own, edge, units = policy.evict(own, tape, now, query, need)
        at = query.base + edge
        own, edge, units, at, cached = lax.optimization_barrier((own, edge, units, at, cached))
        have, cached = read(cached, at)
        left = have - units
        took = units > 0
        # calls in a row that named no victim, or beyond patience the fault that was found
        trouble = jnp.where(took, 0, trouble + 1)
        if not policy.trusted:
            trouble = jnp.where((left < 0) | (units < 0), patience + TOO_MANY, trouble)
            trouble = jnp.where(took & (kids[at] > 0), patience + NOT_A_LEAF, trouble)
            if policy.admission == "forced":
                on_path = took & (last[at] >= query.first)
                trouble = jnp.where(on_path, patience + ON_THE_PATH, trouble)
        gone = jnp.where(took & (left == 0), edge, null)
        return need - units, write(cached, at, left), own, gone, trouble, kids

    def until_emptied(carry: Any) -> Any:
        need, cached, kids, own, trouble = carry
        need, cached, own, gone, trouble, kids = lax.while_loop(
            lambda c: more(c[0], c[2], c[4]) & (c[3] == null),
            take,
            (need, cached, own, null, trouble, kids),
        )

        def close(carry: Any) -> Any:
            kids, own = carry
            kids = add(kids, query.base + tape.parent[gone], jnp.int32(-1))
            now = cache._replace(cached=cached, kids=kids)
            return kids, policy.emptied(own, tape, now, query, gone, need)

        cached, kids, own = lax.optimization_barrier((cached, kids, own))
        kids, own = once((gone != null) & (trouble <= patience), close, (kids, own))
        return need, cached, kids, own, trouble

    zero = jnp.zeros((), jnp.int32)
    need, cached, kids, own, trouble = lax.while_loop(
        lambda c: more(c[0], c[3], c[4]),
        until_emptied,
        (query.need, cache.cached, cache.kids, own, zero),
    )
    fault = jnp.maximum(trouble - patience, OK)
    return cache._replace(cached=cached, kids=kids), own, fault, need


def _load(
    policy: EvictionPolicy, tape: Tape, cache: Cache, own: Any, query: Query
) -> tuple[Cache, Any]:
    def one(p: Scalar, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        cached, kids = carry
        edge = tape.edge[p]
        have, cached = read(cached, query.base + edge)
        cached = write(cached, query.base + edge, tape.length[edge])
        new = (have == 0).astype(jnp.int32)
        return cached, add(kids, query.base + tape.parent[edge], new)

    cached, kids = lax.fori_loop(query.first, query.stop, one, (cache.cached, cache.kids))
    cache = cache._replace(cached=cached, kids=kids)
    return cache, policy.load(own, tape, cache, query)
