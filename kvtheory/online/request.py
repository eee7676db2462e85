"""The handle of a query that was routed."""

from kvtheory.online import books


class Request:
    """A query that was routed, to be reported on; made by `Router.route`.

    Attributes
    ----------
    index
        How many queries were routed before it.
    worker
        Where it goes.
    hits, length
        Units of it that the router believes cached there, and all of them.
    arrival
        When it was routed.
    """

    __slots__ = ("_state", "arrival", "hits", "index", "length", "worker")

    def __init__(self, index: int, worker: int, hits: int, length: int, arrival: float) -> None:
        self.index = index
        self.worker = worker
        self.hits = hits
        self.length = length
        self.arrival = arrival
        self._state = books.ROUTE

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in ("index", "worker", "hits"))
        return f"Request({', '.join(shown)})"
