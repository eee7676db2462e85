"""LMetric: work to prefill times queries in flight."""

from typing import ClassVar

from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first_least


class LMetric(RoutingPolicy):
    """argmin of (units to prefill, this query's included)·(queries in flight + 1)."""

    name: ClassVar[str] = "lmetric"
    source: ClassVar[str] = "LMetric"
    watches_starts: ClassVar[bool] = False

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        prefill = (seen.pending + seen.length - seen.hits).astype(float)
        return state, first_least(prefill * (seen.in_flight + 1))
