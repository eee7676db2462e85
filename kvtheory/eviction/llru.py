"""Leaf LRU: the least recently used leaf unit goes."""

from typing import ClassVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import Cache, EvictionPolicy, Query, Scalar, Tape, write


class LeafLRU(EvictionPolicy):
    """Leaf LRU (L-LRU): evict the least recently used leaf unit.

    Inside a query the deeper unit counts as the older one, so the oldest cached unit is always a
    leaf and the log of requests is the queue: an entry is live if it is the last use of its
    edge, and one pointer skips the others.

    Notes
    -----
    Cost: amortised O(path) a query. State: one log position a worker.
    """

    name: ClassVar[str] = "llru"
    source: ClassVar[str] = "Wu, Silwal, Zhang 2026 (L-LRU); vLLM, SGLang"
    guarantee: ClassVar[str] = "k-competitive, k the effective width: B - L + 1 on brooms, <= B"
    trusted: ClassVar[bool] = True

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> Int[Array, " workers"]:
        return jnp.zeros(workers, jnp.int32)

    def evict(
        self,
        state: Int[Array, " workers"],
        tape: Tape,
        cache: Cache,
        query: Query,
        need: Scalar,
    ) -> tuple[Int[Array, " workers"], Scalar, Scalar]:
        position = state[query.worker]
        edge = tape.edge[position]
        live = cache.last[query.base + edge] == position
        have = jnp.where(live, cache.cached[query.base + edge], 0)
        units = jnp.minimum(have, need)
        ahead = position + (units == have)
        ahead, state = lax.optimization_barrier((ahead, state))
        return write(state, query.worker, ahead), edge, units
