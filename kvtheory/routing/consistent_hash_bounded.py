"""Consistent hashing with bounded loads on the first units of a query."""

from bisect import bisect_left
from functools import lru_cache
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.hashing import digest, prefixes
from kvtheory.routing.ties import exceeds


class ConsistentHashBounded(RoutingPolicy):
    """Clockwise from the hash of the query, the first worker with n <= ``factor``·(total + 1)/M.

    If no worker has so few queries in flight, the first on the ring.

    Parameters
    ----------
    factor
        Load bound over the mean.
    replicas
        Virtual nodes of each worker on the ring.
    prefix
        Units that are hashed, at most.

    References
    ----------
    Mirrokni, Thorup, Zadimoghaddam, SODA 2018; the constants are those of KubeAI.
    """

    factor: float = 1.25
    replicas: int = eqx.field(static=True, default=256)
    prefix: int = eqx.field(static=True, default=8)

    name: ClassVar[str] = "consistent_hash_bounded"
    source: ClassVar[str] = "Mirrokni, Thorup, Zadimoghaddam 2018; KubeAI"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "no worker above factor times the mean count"

    def __check_init__(self) -> None:
        for field in ("replicas", "prefix"):
            if getattr(self, field) < 1:
                raise bad(field, getattr(self, field), "must be at least 1")

    def prepare(self, instance: Instance, workers: int) -> dict[str, Any]:
        places, orders = _ring(workers, self.replicas)
        known: dict[tuple[int, ...], int] = {}
        at = np.zeros(instance.requests, np.int64)
        for t, ids in enumerate(prefixes(instance)):
            key = ids[: self.prefix]
            if key not in known:
                known[key] = bisect_left(places, digest(("key", key))) % len(places)
            at[t] = known[key]
        return {"order": orders[at]}

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> Int[Array, "requests workers"]:
        return prepared["order"]

    def propose(self, state: Array, tape: Tape, seen: Seen) -> tuple[Array, Scalar]:
        order = state[seen.t]
        total = seen.in_flight.sum(dtype=jnp.int32) + 1
        busy = exceeds(seen.in_flight * seen.workers, self.factor, total)[order]
        return state, order[jnp.argmin(busy)]


@lru_cache(maxsize=8)
def _ring(workers: int, replicas: int) -> tuple[list[int], np.ndarray]:
    """Places of the virtual nodes, and from each the workers in the order the ring meets them."""
    ring = sorted((digest(("node", i, r)), i) for i in range(workers) for r in range(replicas))
    return [place for place, _ in ring], _clockwise([i for _, i in ring], workers)


def _clockwise(ring: list[int], workers: int) -> np.ndarray:
    """int32[nodes, workers]; the workers in the order in which the ring meets them."""
    orders = np.zeros((len(ring), workers), np.int32)
    order = list(dict.fromkeys(ring))
    for place in reversed(range(len(ring))):
        order.remove(ring[place])
        order.insert(0, ring[place])
        orders[place] = order
    return orders
