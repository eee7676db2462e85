"""Least work left: the worker with the least unfinished work in seconds."""

from typing import ClassVar, Literal

import equinox as eqx
from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.errors import bad
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first_least


class LeastWorkLeft(RoutingPolicy):
    """Least unfinished work; ties to the smallest believed total so far, then the index.

    Parameters
    ----------
    work
        ``"believed"``: the estimates of all queries not known to be finished, one that runs
        counting whole. ``"true"``: the time until the worker is idle.

    Guarantee
    ---------
    For costs that do not depend on routing: list scheduling, makespan at most 2 − 1/M times the
    optimum on identical machines (Graham 1966), M times on unrelated ones.
    """

    work: Literal["believed", "true"] = eqx.field(static=True, default="believed")

    name: ClassVar[str] = "least_work_left"
    source: ClassVar[str] = "Graham 1966 (list scheduling)"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "2 - 1/M on identical machines with fixed costs"

    def __check_init__(self) -> None:
        if self.work not in ("believed", "true"):
            raise bad("work", self.work, "must be 'believed' or 'true'")

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        left = seen.work if self.work == "believed" else seen.true_work
        return state, first_least(left, seen.total)
