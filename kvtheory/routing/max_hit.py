"""Affinity only: the worker that holds most of the query."""

from typing import ClassVar

from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first_least


class MaxHit(RoutingPolicy):
    """Most hits; ties to fewer queries in flight, then the index.

    Nothing bounds the load: one hot prefix sends everything to one worker.
    """

    name: ClassVar[str] = "max_hit"
    source: ClassVar[str] = "Wu, Silwal, Zhang 2026 (affinity only)"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "none; up to M times the optimal makespan"

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        return state, first_least(-seen.hits, seen.in_flight)
