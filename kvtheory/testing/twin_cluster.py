"""M workers with queues, kept literally: route a query, queue it, serve it, tell the router later.

The loop over the queries does nothing clever. Whatever happens has a time, and before query j is
routed the router is told of everything that has happened by its arrival a_j, in order of time
(ties: the earlier query, then start, first token, completion).
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

from kvtheory.cluster import Cluster
from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_cache import Twin
from kvtheory.testing.twin_view import Costs, InFlight, Query, View
from kvtheory.testing.twins_deterministic import LLRU

ViewName = Literal["oracle", "routed", "stale"]
VIEWS = ("oracle", "routed", "stale")
START, FIRST_TOKEN, END = range(3)


class Router(Protocol):
    """What the driver asks of a router; times are in seconds."""

    def route(self, query: Query, view: View, now: float) -> int:
        """The worker for ``query``."""
        ...

    def first_token(self, query: Query, worker: int, now: float) -> None:
        """The prefill of ``query`` ended on ``worker`` at ``now``."""
        ...

    def complete(self, query: Query, worker: int, now: float) -> None:
        """The service of ``query`` ended on ``worker`` at ``now``."""
        ...


@dataclass(frozen=True)
class Served:
    """What became of one query. ``believed`` are the hits seen on the worker when it was chosen."""

    worker: int
    hits: int
    believed: int
    arrival: float
    start: float
    first_token: float
    end: float

    @property
    def latency(self) -> float:
        """E = end − arrival."""
        return self.end - self.arrival

    @property
    def ttft(self) -> float:
        """First token − arrival."""
        return self.first_token - self.arrival


State = tuple[list[tuple[InFlight, ...]], list[float]]


class CacheLike(Protocol):
    """The part of `Twin` that a worker needs."""

    def serve(self, tokens: Sequence[int], /) -> int:
        """Serve a query and return its hits."""
        ...

    def hits(self, tokens: Sequence[int], /) -> int:
        """Units of a query that are cached."""
        ...

    @property
    def size(self) -> int:
        """Units in the cache."""
        ...


class Held:
    """A `Twin` that also says how many units it holds."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    def serve(self, tokens: Sequence[int]) -> int:
        """Serve a query and return its hits."""
        return self.twin.serve(tokens)

    def hits(self, tokens: Sequence[int]) -> int:
        """Units of a query that are cached."""
        return self.twin.hits(tokens)

    @property
    def size(self) -> int:
        """Units in the cache."""
        return len(self.twin.cached)


def routed_tree(capacity: int) -> CacheLike:
    """A router's own tree of what it sent to one worker: leaf LRU, longer queries cut."""
    return Held(LLRU(capacity, oversize="truncate"))


class ClusterTwin:
    """M workers, first come, first served; `run` gives the log.

    Parameters
    ----------
    cluster
        True costs, speeds and capacities.
    router
        Chooses the workers.
    caches
        ``caches(worker, capacity)`` makes the cache of a worker: a twin, or anything alike.
    view
        ``"oracle"``: the true caches. ``"routed"``: the router's own tree per worker of what it
        sent there. ``"stale"``: caches, queries in flight and true work as they were at the last
        multiple of ``refresh``, before any query that arrives at that very time.
    view_capacity
        Units of each tree of ``view="routed"``.
    view_trees
        Makes one such tree of ``view_capacity`` units.
    refresh
        Δ of ``view="stale"``, in seconds.
    own_dispatches
        With ``view="stale"``: add to the queries in flight what was routed since.
    believed
        Costs and capacities as the router believes them; by default the true ones.
    warm
        (worker, path) pairs served before time 0 at no cost, in the routers' trees too.
    speed
        ``speed(worker, start)``: true speed for a service that begins then, instead of
        ``cluster.speed`` and ``cluster.speed_changes``.
    """

    def __init__(
        self,
        cluster: Cluster,
        router: Router,
        caches: Callable[[int, int], Twin | CacheLike],
        *,
        view: ViewName = "oracle",
        view_capacity: int | None = None,
        view_trees: Callable[[int], CacheLike] = routed_tree,
        refresh: float | None = None,
        own_dispatches: bool = False,
        believed: Cluster | None = None,
        warm: Sequence[tuple[int, Sequence[int]]] = (),
        speed: Callable[[int, float], float] | None = None,
    ) -> None:
        if view not in VIEWS:
            raise unknown("view", view, VIEWS)
        if view == "routed" and view_capacity is None:
            raise bad("view_capacity", None, "view='routed' needs the units of a router's tree")
        if view == "stale" and not refresh:
            raise bad("refresh", refresh, "view='stale' needs the seconds between two refreshes")
        if believed is not None and believed.workers != cluster.workers:
            raise bad("believed", f"{believed.workers} workers", f"must be {cluster.workers}")
        self.costs = Costs(cluster)
        self.believed = Costs(believed or cluster)
        self.block_size = cluster.block_size
        self.router = router
        self.view = view
        self.refresh = refresh or 0.0
        self.own_dispatches = own_dispatches
        self.speed = speed or (self.changed_speed if cluster.speed_changes else None)
        self.speed_changes = cluster.speed_changes
        M = cluster.workers
        made = [caches(i, b) for i, b in enumerate(self.costs.capacity)]
        self.caches = [Held(c) if isinstance(c, Twin) else c for c in made]
        self.trees = (
            [view_trees(view_capacity) for _ in range(M)]
            if view == "routed" and view_capacity is not None
            else []
        )
        for i, path in warm:
            for cache in [self.caches, self.trees] if self.trees else [self.caches]:
                cache[i].serve(path)

        self.free = [0.0] * M
        self.total = [0.0] * M
        self.in_flight: list[dict[int, InFlight]] = [{} for _ in range(M)]
        self.events: list[tuple[float, int, int]] = []  # time, query, kind
        self.queries: list[Query] = []
        self.log: list[Served] = []
        self.polls = -1
        self.polled: tuple[list[CacheLike], State] = ([], ([], []))
        self.since: list[tuple[InFlight, ...]] = [() for _ in range(M)]

    def changed_speed(self, worker: int, start: float) -> float:
        """The speed after the last change by ``start``."""
        speed = self.costs.speed[worker]
        for at, who, new in self.speed_changes:
            if who == worker and at <= start:
                speed = new
        return speed

    def run(
        self,
        sequences: Sequence[Sequence[int]],
        arrival: Sequence[float],
        *,
        output: Sequence[int] | None = None,
        ends: Sequence[Sequence[int]] | None = None,
    ) -> list[Served]:
        """Serve all queries.

        Parameters
        ----------
        sequences
            The queries as ids, one per unit.
        arrival
            Arrival times in seconds, not decreasing.
        output
            Output tokens of each query, by default none.
        ends
            Each query with its output units below it, which its worker caches at no miss cost when
            the service ends, that is before the next query of the worker meets the cache.
        """
        for j, tokens in enumerate(sequences):
            query = Query(j, tokens, arrival[j], output[j] if output else 0, self.block_size)
            self.serve(query, ends[j] if ends else None)
        return self.log

    def serve(self, query: Query, end: Sequence[int] | None = None) -> Served:
        """Route and serve one query."""
        now = query.arrival
        view = self.look(query)
        i = self.router.route(query, view, now)
        if not 0 <= i < self.costs.workers:
            raise bad(f"route(query {query.index})", i, f"must be below {self.costs.workers}")
        believed = view.hits[i]
        hits = self.caches[i].serve(query.tokens)
        if end is not None:
            self.caches[i].serve(end)
        if self.trees:
            self.trees[i].serve(query.tokens)
        start = max(now, self.free[i])
        speed = self.speed(i, start) if self.speed else None
        first = start + self.costs.prefill(i, hits, query.length, speed)
        done = first + self.costs.output(i, query.output, speed)
        self.free[i] = done
        work = self.believed.service(i, believed, query)
        self.total[i] += work
        flying = InFlight(query, believed, work)
        self.in_flight[i][query.index] = flying
        if self.view == "stale":
            self.since[i] += (flying,)
        j = query.index
        self.events += [(start, j, START), (first, j, FIRST_TOKEN), (done, j, END)]
        self.queries.append(query)
        self.log.append(Served(i, hits, believed, now, start, first, done))
        return self.log[-1]

    def look(self, query: Query) -> View:
        """Tell the router what has happened, and make the view for ``query``."""
        now = query.arrival
        if self.view != "stale":
            self.happen(now)
            return self.see(query, self.trees or self.caches, self.state(now))
        # exact, so that an arrival on a multiple of Δ sees that very refresh
        k = Fraction(now) // Fraction(self.refresh)
        if k > self.polls:
            at = float(k * Fraction(self.refresh))
            self.happen(at)
            self.polls = k
            self.polled = (copy.deepcopy(self.caches), self.state(at))
            self.since = [() for _ in self.caches]
        self.happen(now)
        caches, (flying, true_work) = self.polled
        if self.own_dispatches:
            flying = [old + new for old, new in zip(flying, self.since, strict=True)]
        return self.see(query, caches, (flying, true_work))

    def state(self, now: float) -> State:
        """Queries in flight, and seconds until idle."""
        flying = [tuple(f.values()) for f in self.in_flight]
        return flying, [max(0.0, free - now) for free in self.free]

    def see(self, query: Query, caches: Sequence[CacheLike], state: State) -> View:
        """The view for ``query`` of some caches and some state."""
        return View(
            costs=self.believed,
            hits=[cache.hits(query.tokens) for cache in caches],
            tree=[cache.size for cache in caches],
            in_flight=state[0],
            true_work=state[1],
            total=list(self.total),
            sent=[tuple(f.values()) for f in self.in_flight],
        )

    def happen(self, now: float) -> None:
        """Let the router see all starts, first tokens and completions up to ``now``."""
        self.events.sort()
        while self.events and self.events[0][0] <= now:
            time, j, kind = self.events.pop(0)
            query, i = self.queries[j], self.log[j].worker
            if kind == START:
                self.in_flight[i][j] = replace(self.in_flight[i][j], started=True)
            elif kind == FIRST_TOKEN:
                self.in_flight[i][j] = replace(self.in_flight[i][j], prefilled=True)
                self.router.first_token(query, i, time)
            else:
                del self.in_flight[i][j]
                self.router.complete(query, i, time)


def makespan(log: Sequence[Served], workers: int) -> float:
    """max_i P_i, the largest sum of service times on a worker, in seconds."""
    load = [0.0] * workers
    for served in log:
        load[served.worker] += served.end - served.start
    return max(load)
