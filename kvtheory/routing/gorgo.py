"""GORGO: the estimated time to the first token, round trip included."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first, near_least


class Gorgo(RoutingPolicy):
    """argmin of ms/token·(queued + q̂·running + L − h) + RTT; ties to the index.

    ``queued`` are the units to prefill of the queries not started, ``running`` the number of
    queries started and not finished, q̂ the mean number of units still to prefill of a running
    query over all workers.

    Parameters
    ----------
    seconds_per_token
        Prefill time.
    rtt
        Round trip to each worker in seconds, a scalar or float[workers].
    """

    seconds_per_token: float = 0.094e-3
    rtt: float | Float[Array, " workers"] = 0.0

    name: ClassVar[str] = "gorgo"
    source: ClassVar[str] = "Ricci Toniolo et al., arXiv:2602.11688"

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        running = seen.in_flight - seen.queued
        unfinished = (seen.pending - seen.waiting).sum()
        mean = unfinished / jnp.maximum(running.sum(), 1)
        units = seen.waiting + mean * running + seen.length - seen.hits
        return state, first(near_least(self.seconds_per_token * seen.block_size * units + self.rtt))
