"""Join the shortest queue: the worker with the fewest queries in flight."""

from typing import ClassVar

from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first_least


class JoinShortestQueue(RoutingPolicy):
    """Fewest queries in flight; ties to the smallest believed total so far, then the index."""

    name: ClassVar[str] = "join_shortest_queue"
    source: ClassVar[str] = "Winston 1977"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "optimal for equal exponential services; heuristic here"

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        return state, first_least(seen.in_flight, seen.total)
