"""What a router is told: the query, what is in flight, believed costs, caches as viewed."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvtheory.cluster import Cluster
from kvtheory.testing.twin_cache import Unit, path_of


@dataclass(frozen=True)
class Query:
    """What a router is told of one query.

    Parameters
    ----------
    index, arrival
        Its place in the sequence, and when it arrives, in seconds.
    tokens
        Its path as ids, one per unit.
    output
        Output tokens.
    block_size
        Tokens in one unit.
    """

    index: int
    tokens: Sequence[int]
    arrival: float
    output: int = 0
    block_size: int = 1

    @property
    def length(self) -> int:
        """Units, L."""
        return len(self.tokens)

    def units(self) -> set[Unit]:
        """The units of its path."""
        return set(path_of(self.tokens))


@dataclass(frozen=True)
class InFlight:
    """A query that was routed and is not known to be finished.

    ``hits`` and ``work`` are what the router believed when it routed: units, and seconds of
    service. ``started`` and ``prefilled`` say what has been seen of it since.
    """

    query: Query
    hits: int
    work: float
    started: bool = False
    prefilled: bool = False

    @property
    def uncached(self) -> int:
        """Units to prefill, as believed."""
        return self.query.length - self.hits


class Costs:
    """Service times by the figures of a `Cluster`, in seconds, as plain floats."""

    def __init__(self, cluster: Cluster) -> None:
        self.workers = cluster.workers
        self.capacity = [int(b) for b in cluster.capacity]
        self.alpha_cached = [float(x) for x in cluster.alpha_cached]
        self.alpha_miss = [float(x) for x in cluster.alpha_miss]
        self.alpha_out = [float(x) for x in cluster.alpha_out]
        self.overhead = [float(x) for x in cluster.overhead]
        self.speed = [float(x) for x in cluster.speed]
        self.alpha_depth = [float(x) for x in cluster.alpha_depth]

    def misses(self, i: int, hits: int, length: int) -> float:
        """Seconds for the units below the hits on worker ``i`` at speed 1, deeper ones more."""
        deep = sum(range(hits + 1, length + 1))
        return self.alpha_miss[i] * (length - hits) + self.alpha_depth[i] * deep

    def prefill(self, i: int, hits: int, length: int, speed: float | None = None) -> float:
        """Seconds until the first token on worker ``i``."""
        work = self.alpha_cached[i] * hits + self.misses(i, hits, length)
        return work / (speed or self.speed[i])

    def output(self, i: int, tokens: int, speed: float | None = None) -> float:
        """Seconds for the output on worker ``i``, O_ij: per token, and the constant of a query."""
        return (self.alpha_out[i] * tokens + self.overhead[i]) / (speed or self.speed[i])

    def service(self, i: int, hits: int, query: Query) -> float:
        """Cost_ij: seconds that worker ``i`` is busy with ``query`` if it hits ``hits`` units."""
        return self.prefill(i, hits, query.length) + self.output(i, query.output)


@dataclass(frozen=True)
class View:
    """What a router sees when it routes; every list has one entry per worker.

    Parameters
    ----------
    costs
        Costs and capacities as believed.
    hits
        Units of the query in the viewed cache.
    tree
        Units in the viewed cache.
    in_flight
        Queries routed to the worker and not known to be finished, in routing order.
    true_work
        Seconds until the worker is idle, in truth.
    total
        Believed seconds of everything routed to the worker so far. The router's own count, never
        stale.
    sent
        The queries in flight by the router's own books, never stale; by default ``in_flight``.
    """

    costs: Costs
    hits: list[int]
    tree: list[int]
    in_flight: list[tuple[InFlight, ...]]
    true_work: list[float]
    total: list[float]
    sent: list[tuple[InFlight, ...]] | None = None

    @property
    def workers(self) -> int:
        """Number of workers, M."""
        return self.costs.workers

    @property
    def n(self) -> list[int]:
        """Queries in flight."""
        return [len(flying) for flying in self.in_flight]

    @property
    def queued(self) -> list[int]:
        """Queries routed and not started."""
        return [sum(not f.started for f in flying) for flying in self.in_flight]

    @property
    def pending(self) -> list[int]:
        """Units still to prefill, as believed: those of queries whose first token is not seen."""
        return [sum(f.uncached for f in flying if not f.prefilled) for flying in self.in_flight]

    @property
    def work(self) -> list[float]:
        """Believed seconds of the queries in flight; one that runs counts whole."""
        return [sum(f.work for f in flying) for flying in self.in_flight]

    def units(self, i: int) -> set[Unit]:
        """Distinct units of the queries in flight on worker ``i``, by the router's own books."""
        flying = self.in_flight if self.sent is None else self.sent
        return set[Unit]().union(*(f.query.units() for f in flying[i]))

    def service(self, query: Query) -> list[float]:
        """Cost̃_ij: believed seconds of service."""
        return [self.costs.service(i, h, query) for i, h in enumerate(self.hits)]
