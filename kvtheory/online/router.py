"""A router with its own trees of the workers, asked one query at a time."""

import math
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from kvtheory.cache import Prepared
from kvtheory.cluster import Cluster
from kvtheory.dispatch import Fleet
from kvtheory.errors import InputError, bad
from kvtheory.online import books
from kvtheory.online.books import Believed, Books, Desk
from kvtheory.online.growing_tape import Room, blank, lookup, moved, path_array, to_cpu
from kvtheory.online.lane import lane_key
from kvtheory.online.prepared import PreparedRows
from kvtheory.online.request import Request
from kvtheory.online.units import Units, ids_of
from kvtheory.result import PolicyError
from kvtheory.router import RoutingPolicy
from kvtheory.routing import LeastWorkLeft, router
from kvtheory.step import OK, init

Starts = Literal["inferred", "reported"]
CHUNK = 64  # rows applied in one call
LONGEST = 2.0**25  # seconds, so that ticks of 20 ms fit 32 bits


class Router:
    """One routing policy that sends queries to workers and learns from what is reported of them.

    It keeps a tree per worker of what it sent there, in leaf-LRU order and blind to the worker's
    own evictions, as the deployed routers do (``view="routed"`` of the driver).

    Parameters
    ----------
    policy
        A policy, or its text such as ``"lbgr:target=latency"``.
    workers
        A `Cluster`: capacities, costs and speeds as the router believes them, and the tokens in a
        unit; or the number of workers, whose units cost a second each and hold ``view_capacity``.
    view_capacity
        Units of each tree; by default the capacities of the workers.
    seed, key
        Of the random choices: the second key of ``split(fold_in(key, seed))``, ``key`` being
        ``jax.random.key(0)`` if None.
    starts
        How the router knows that a query has started. ``"inferred"``: it starts as soon as no
        other runs on its worker, the first that came first. ``"reported"``: `start` says so, for
        workers that serve several at once.
    oversize
        What a query longer than the smallest capacity or tree is: an ``"error"``, or routed by
        its first units (``"truncate"``).
    origin
        The time 0 of policies with a clock; pass ``time.time()`` if times are those of Unix.
    units
        Distinct units to expect. More may come, but see the cost.

    Raises
    ------
    InputError
        For bad arguments, a policy that must know the true work of the workers, or one that
        prepares more from the sequence of queries than can be known of each.

    Guarantee
    ---------
    If the same things are reported at the same times, the workers are those of lane ``seed`` of
    `kvtheory.simulate_cluster.simulate_cluster` with ``view="routed"`` and the same ``key`` (at
    equal times: the earlier query first, and its start before its first token before its end).

    Notes
    -----
    What a policy would know as ``true_work`` is the believed work here.

    Cost: O(workers · path), some 0.5 ms for a query of 200 units on 4 workers, half of it whatever
    the length, and more where the policy hashes queries; on a CPU, wherever JAX would run
    otherwise. Reports take microseconds and are applied with the next query. The first query
    compiles (one to three seconds). So does one that finds no more room, four times as much being
    made each time; it also goes through all that happened before, which makes the result exact for
    any policy and costs O(1) a query on average.

    Memory: the whole history, 4 bytes per requested unit and about 200 per query; 200 bytes per
    distinct unit, and 12 to 20 on each worker; up to four times that just after it has grown. A
    history of more than 2³⁰ requested units is refused; `clear` forgets it.

    Not for several threads at once.

    Examples
    --------
    >>> router = Router("max_hit", workers=2, view_capacity=100)
    >>> one = router.route([1, 2, 3], now=0.0)
    >>> two = router.route([7, 8], now=0.1)
    >>> three = router.route([1, 2, 4], now=0.2)
    >>> one.worker, two.worker, three
    (0, 1, Request(index=2, worker=0, hits=2))
    >>> router.first_token(one, now=0.5)
    >>> router.complete(one, now=0.9)
    >>> router.in_flight
    [1, 1]
    """

    def __init__(
        self,
        policy: RoutingPolicy | str,
        workers: Cluster | int,
        *,
        view_capacity: int | Sequence[int] | None = None,
        seed: int = 0,
        key: Key[Array, ""] | None = None,
        starts: Starts = "inferred",
        oversize: Literal["error", "truncate"] = "error",
        origin: float = 0.0,
        units: int = 1 << 16,
    ) -> None:
        policy = _check_policy(router(policy) if isinstance(policy, str) else policy)
        cluster, trees = _cluster(workers, view_capacity)
        if starts not in ("inferred", "reported"):
            raise bad("starts", starts, "must be 'inferred' or 'reported'")
        if oversize not in ("error", "truncate"):
            raise bad("oversize", oversize, "must be 'error' or 'truncate'")
        if not math.isfinite(origin):
            raise bad("origin", origin, "must be a finite time in seconds")
        self._room = Room.of(units, cluster.workers)
        self.policy = policy
        self.workers = cluster.workers
        self._limit = int(min(cluster.capacity.min(), trees.min()))
        self._starts, self._oversize, self._origin = starts, oversize, float(origin)
        with jax.enable_x64(True):
            self._keys = jax.random.split(lane_key(key, seed))
            self._device_policy = to_cpu(jax.tree.map(jnp.asarray, policy))
            self._believed = to_cpu(_believed(cluster, trees))
        self.clear()

    def clear(self) -> None:
        """Forget all queries, as if the router had just been made."""
        self._units = Units()
        self._rows = PreparedRows(self.policy, self.workers)
        self._positions = self._applied = 0
        # kinds, queries, times and output tokens of all that happened
        self._log = array("i"), array("i"), array("d"), array("d")
        self._now = -math.inf
        self._routed = 0
        self._open: dict[int, Request] = {}
        self._waiting: list[deque[Request]] = [deque() for _ in range(self.workers)]
        self._running = [0] * self.workers
        with jax.enable_x64(True):
            self._tape = to_cpu(blank(self._room, Prepared({}, {})))
            self._begin({})

    @property
    def in_flight(self) -> list[int]:
        """Queries on each worker that are not known to be completed."""
        return [
            running + len(waiting)
            for running, waiting in zip(self._running, self._waiting, strict=True)
        ]

    def hits(self, tokens: Sequence[int] | np.ndarray) -> list[int]:
        """Units of a query that the router believes cached on each worker; changes nothing."""
        path = self._units.known(ids_of(tokens)[: self._room.longest])
        query = path_array(path, self._room.longest), np.int32(len(path))
        with jax.enable_x64(True):
            return np.asarray(lookup(self.workers, self._desk.trees.cache.cached, *query)).tolist()

    def route(
        self, tokens: Sequence[int] | np.ndarray, now: float, *, output: float = 0.0
    ) -> Request:
        """Send a query, given by the ids of its units from the root down, to a worker.

        Parameters
        ----------
        tokens
            The ids.
        now
            Seconds; must not go back.
        output
            Tokens that it will generate, as far as known, for policies that reckon with them.

        Raises
        ------
        InputError
            For bad arguments, or a query that is too long.
        PolicyError
            If the policy names a worker that is not there.
        """
        ids = ids_of(tokens)
        if len(ids) > self._limit:
            if self._oversize == "error":
                rule = f"longer than the smallest capacity of {self._limit} units; see oversize="
                raise bad("len(tokens)", len(ids), rule)
            ids = ids[: self._limit]
        if not (math.isfinite(output) and output >= 0):
            raise bad("output", output, "must be a finite number of tokens, not negative")
        self._check_time(now)
        worker, hits = self._advance(ids, output)
        request = Request(self._routed - 1, worker, hits, len(ids), now)
        self._open[request.index] = request
        self._waiting[worker].append(request)
        self._start_next(worker)
        return request

    def start(self, request: Request, now: float) -> None:
        """The worker has begun with a query; for ``starts="reported"`` only."""
        if self._starts != "reported":
            raise InputError("starts are inferred by this router: make it with starts='reported'")
        self._check_open(request, books.START, "has started before")
        self._check_time(now)
        self._reach(request, books.START)

    def first_token(self, request: Request, now: float) -> None:
        """The prefill of a query has ended, so it has started too."""
        self._check_open(request, books.FIRST_TOKEN, "has had its first token before")
        self._check_time(now)
        self._reach(request, books.FIRST_TOKEN)

    def complete(self, request: Request, now: float) -> None:
        """A query has ended, so it has had its first token too."""
        self._check_open(request, books.END, "was completed before")
        self._check_time(now)
        self._reach(request, books.END)

    # -- checks ----------------------------------------------------------------------------

    def _check_time(self, now: float) -> None:
        since = now - self._origin
        if not 0 <= since <= LONGEST:
            rule = f"must be at most {LONGEST:.0f} seconds after the origin, {self._origin!r}"
            raise bad("now", now, rule)
        if since < self._now:
            raise bad("now", now, f"must not be before {self._now + self._origin!r}, the latest")
        self._now = since

    def _check_open(self, request: Request, state: int, rule: str) -> None:
        if not isinstance(request, Request):
            raise bad("request", request, "must be what route() returned")
        if request._state >= state:
            raise bad("request", request, rule)
        if self._open.get(request.index) is not request:
            raise bad("request", request, "was not routed by this router since it was cleared")

    # -- what happened ---------------------------------------------------------------------

    def _note(self, kind: int, index: int, output: float = 0.0) -> None:
        kinds, queries, times, outputs = self._log
        kinds.append(kind)
        queries.append(index)
        times.append(self._now)
        outputs.append(output)

    def _reach(self, request: Request, state: int) -> None:
        """A query comes to a state, by way of those before it."""
        while request._state < state:
            request._state += 1
            self._note(request._state, request.index)
            if request._state == books.START:
                self._waiting[request.worker].remove(request)
                self._running[request.worker] += 1
        if state == books.END:
            self._running[request.worker] -= 1
            del self._open[request.index]
            self._start_next(request.worker)

    def _start_next(self, worker: int) -> None:
        waiting = self._waiting[worker]
        if self._starts == "inferred" and waiting and not self._running[worker]:
            self._reach(waiting[0], books.START)

    # -- the device ------------------------------------------------------------------------

    def _advance(self, ids: list[int], output: float) -> tuple[int, int]:
        """Apply what happened, then route: the worker, and the hits there."""
        t, positions, path = self._routed, self._positions + len(ids), self._units.path(ids)
        room = self._room.grown(t + 1, positions, len(self._units), len(ids), self.workers)
        with jax.enable_x64(True):
            if room != self._room:
                self._grow(room)
            self._note(books.ROUTE, t, output)
            new = path_array(path, room.longest), self._rows.row(ids)
            worker, hits, fault = self._apply(t, len(ids), *new)
        self._routed, self._positions = t + 1, positions
        assert fault == OK
        if not 0 <= worker < self.workers:
            raise PolicyError(f"router {self.policy.name!r} named a worker that is not there")
        return worker, hits

    def _apply(
        self, t: int, size: int, path: np.ndarray, prepared: dict[str, np.ndarray]
    ) -> list[int]:
        report, total = None, len(self._log[0])
        for a in range(self._applied, total, CHUNK):
            kind, query, time, output = (column[a : a + CHUNK] for column in self._log)
            count = len(kind)
            what, when = np.zeros((CHUNK, 2), np.int32), np.zeros((CHUNK, 2))
            what[:count, 0], what[:count, 1] = kind, query
            when[:count, 0], when[:count, 1] = time, output
            self._tape, self._desk, report = books.apply(
                self._device_policy,
                self._places,
                self._believed,
                self._tape,
                self._desk,
                books.Rows(what, when),
                books.New(np.array([count, t, size], np.int32), path, prepared),
            )
        self._applied = total
        return np.asarray(report).tolist()

    def _grow(self, room: Room) -> None:
        """Make room, and begin again with all that happened."""
        leaves = jax.tree.leaves(self._desk.own)
        old = {name: np.asarray(leaves[i])[: self._routed] for i, name in self._places}
        self._tape = to_cpu(moved(self._tape, room, Prepared({}, {})))
        self._room, self._applied = room, 0
        self._begin(old)

    def _begin(self, old: dict[str, np.ndarray]) -> None:
        arrays = self._rows.arrays(self._room.requests, self._room.longest, old)
        prepared = {name: jnp.asarray(rows) for name, rows in arrays.items()}
        own = self._device_policy.init(self._tape, self.workers, prepared, self._keys[1])
        self._places = self._rows.places(own, prepared)
        trees = init(books.TREES, self._tape, self._believed.view_capacity, self._keys[0])
        self._desk = to_cpu(Desk(trees, Books.blank(self._room.requests, self.workers), own))


def _check_policy(policy: object) -> RoutingPolicy:
    if not isinstance(policy, RoutingPolicy):
        raise bad("policy", policy, "must be a RoutingPolicy or the text of one")

    def least_work(part: object) -> bool:
        return isinstance(part, LeastWorkLeft)

    for part in jax.tree.leaves(policy, is_leaf=least_work):
        if least_work(part) and part.work == "true":
            raise bad("policy", policy.name, "work='true' is known to the driver only")
    return policy


def _cluster(
    workers: Cluster | int, view_capacity: int | Sequence[int] | None
) -> tuple[Cluster, np.ndarray]:
    """The workers as believed, and the units of each tree."""
    count = workers.workers if isinstance(workers, Cluster) else workers
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise bad("workers", workers, "must be a Cluster or a number of at least 1")
    if view_capacity is None:
        if not isinstance(workers, Cluster):
            raise bad("view_capacity", None, "is needed where workers is a number")
        return workers, workers.capacity
    units = np.asarray(view_capacity)
    if units.dtype.kind not in "iu" or units.shape not in ((), (count,)):
        raise bad("view_capacity", view_capacity, f"must be one number of units, or {count}")
    if (units < 1).any() or (units >= 2**31).any():
        raise bad("view_capacity", view_capacity, "must be at least 1 unit and fit 31 bits")
    trees = np.broadcast_to(units, count)
    return (workers if isinstance(workers, Cluster) else Cluster(trees)), trees


def _believed(cluster: Cluster, trees: np.ndarray) -> Believed:
    seconds = (getattr(cluster, name) for name in Fleet._fields[1:])
    return Believed(
        Fleet(
            jnp.asarray(cluster.capacity, jnp.int32),
            *(jnp.asarray(values, jnp.float64) for values in seconds),
        ),
        jnp.asarray(trees, jnp.int32),
        jnp.asarray(cluster.block_size, jnp.int32),
    )
