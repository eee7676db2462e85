"""A routing that is given, for the replay of schedules."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.instance import Instance
from kvtheory.router import RoutingPolicy, Seen


class GivenRouting(RoutingPolicy):
    """Send query t to ``worker[t]``.

    Parameters
    ----------
    worker
        int[n]; one worker for each query.
    """

    worker: np.ndarray = eqx.field(converter=np.asarray)

    name: ClassVar[str] = "given"
    source: ClassVar[str] = "a schedule"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "what the schedule claims"

    def prepare(self, instance: Instance, workers: int) -> dict[str, np.ndarray]:
        return {"worker": np.asarray(self.worker, np.int32)}

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> Int[Array, " requests"]:
        return prepared["worker"]

    def propose(
        self, state: Int[Array, " requests"], tape: Tape, seen: Seen
    ) -> tuple[Int[Array, " requests"], Scalar]:
        return state, state[seen.t].astype(jnp.int32)
