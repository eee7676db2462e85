"""Replay of a schedule: the driver evicts what the schedule says."""

from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from kvtheory.cache import Admission, Cache, EvictionPolicy, Query, Scalar, Tape, padded


class Replay(EvictionPolicy):
    """Evict what a schedule lists, in its order: leaf units, one edge at a time.

    The driver checks every eviction as it does for any policy, so a schedule that breaks the
    rules or frees too little raises `kvtheory.result.PolicyError`.

    Parameters
    ----------
    start, edge, units
        int32[requests + 1], int32[k], int32[k], padded; query t takes ``units[j]`` units from
        the tail of ``edge[j]`` for j from ``start[t]`` to ``start[t + 1]``. See `of`.
    bypass
        Whether the path itself may go, after it has been loaded.
    """

    start: Int[Array, " requests+1"]
    edge: Int[Array, " evictions"]
    units: Int[Array, " evictions"]
    bypass: bool = eqx.field(static=True, default=False)

    name: ClassVar[str] = "replay"
    source: ClassVar[str] = "a schedule"
    guarantee: ClassVar[str] = "what the schedule claims"
    online: ClassVar[bool] = False

    @classmethod
    def of(
        cls, start: np.ndarray, edge: np.ndarray, units: np.ndarray, *, bypass: bool = False
    ) -> Self:
        """From unpadded arrays."""

        def fill(values: np.ndarray, size: int, rest: int) -> Array:
            out = np.full(size, rest, np.int32)
            out[: len(values)] = values
            return jnp.asarray(out)

        size = padded(len(edge) + 1)
        return cls(
            start=fill(start, padded(len(start) - 1) + 1, len(edge)),
            edge=fill(edge, size, 0),
            units=fill(units, size, 0),
            bypass=bypass,
        )

    @property
    def admission(self) -> Admission:
        return "bypass" if self.bypass else "forced"

    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> Int[Array, ""]:
        return jnp.zeros((), jnp.int32)

    def touch(self, state: Scalar, tape: Tape, cache: Cache, query: Query) -> Scalar:
        return self.start[query.t]

    def evict(
        self, state: Scalar, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[Scalar, Scalar, Scalar]:
        listed = state < self.start[query.t + 1]
        units = jnp.where(listed, self.units[state], 0)
        return state + listed, self.edge[state], units

    def unfinished(self, state: Scalar, query: Query) -> Bool[Array, ""]:
        return state < self.start[query.t + 1]
