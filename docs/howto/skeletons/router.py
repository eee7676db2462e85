"""Skeleton of a router, and its slow twin.

Copy me to ``kvtheory/routing/my_router.py`` (the twin goes to one of the files
``kvtheory/testing/twins_routing_*.py``) and change the lines marked with "yours".
"""

from typing import ClassVar

from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first, near_least
from kvtheory.testing.twin_router import RouterTwin
from kvtheory.testing.twin_view import Query, View


class MyRouter(RoutingPolicy):
    """Least believed work in flight plus service of this query; ties to the index.

    Yours: one sentence that states the rule, ties included.

    Parameters
    ----------
    weight
        Of the work in flight. With 0 it looks at this query only.
    """

    weight: float = 1.0

    name: ClassVar[str] = "my_router"
    source: ClassVar[str] = "yours: author and year, or 'this project'"
    guarantee: ClassVar[str] = "heuristic"
    # it does not look at starts and first tokens, so the driver need not tell it
    watches_prefill: ClassVar[bool] = False

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        # yours: what must be remembered between queries
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        # yours: everything that may be known is in `seen`
        return state, first(near_least(self.weight * seen.work + seen.service))


class MyTwin(RouterTwin):
    """The same rule in plain Python; it shares no code with the router."""

    def propose(self, query: Query, view: View, now: float) -> int:
        """The first worker with the least work and service, up to rounding."""
        sums = [
            work + service for work, service in zip(view.work, view.service(query), strict=True)
        ]
        smallest = min(sums)
        return next(i for i, s in enumerate(sums) if s <= smallest + 1e-9 * abs(smallest))


if __name__ == "__main__":
    from kvtheory.testing.check_routing import check_routing

    print(check_routing(MyRouter(), twin=MyTwin))
