"""Local search on the routing; for each routing the evictions are Belady's, so nothing is lost."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.offline.fixed_routing import check_routing, hits_alone
from kvtheory.offline.objective import (
    Objective,
    alpha_depth,
    check_objective,
    check_plain,
    service,
    value,
)
from kvtheory.offline.schedule import Admission, check_admission
from kvtheory.oversize import path_units


class Found(NamedTuple):
    """The best routing of a search."""

    worker: np.ndarray  # int32[n]
    hits: np.ndarray  # int64[n]; units of each query, under Belady's rule on every worker
    value: int | float  # the objective
    trace: tuple[tuple[float, int | float], ...]  # seconds, and the objective from then on
    steps: int  # routings that were looked at


def local_search(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    worker: np.ndarray,
    admission: Admission = "forced",
    *,
    seed: int = 0,
    time_limit: float | None = 10.0,
    steps: int | None = None,
    target: float | None = None,
    progress: Callable[[float, int | float], object] | None = None,
) -> Found:
    """Change a routing step by step, and keep what is no worse.

    Parameters
    ----------
    instance, cluster
        The queries and the workers.
    objective
        ``"misses"``, ``"cost"`` or ``"makespan"``.
    worker
        int[n]; the routing to begin with.
    admission
        ``"forced"`` or ``"bypass"``.
    seed
        Of the choice of moves.
    time_limit, steps
        Seconds and routings after which to stop, None for no such limit; not both None. What a
        number of steps finds depends on the seed alone.
    target
        Stop as soon as the objective is at most this, for example a lower bound.
    progress
        Called with seconds and the objective, at the start and after each improvement.

    Returns
    -------
    Found
        Never worse than the routing given.

    Raises
    ------
    InputError
        For bad arguments.

    Notes
    -----
    A move takes a query, or all queries of its worker (sometimes of all workers) below some edge of
    its path, sometimes only those before or after it, to another worker, and in a quarter of the
    cases something comes back. For the makespan it mostly begins on the most loaded worker, and
    loads are compared from the largest to the smallest, so that a tie for the largest can be
    resolved one worker at a time. A routing that is as good is taken too: the search can drift.
    After n + 200 moves without gain it goes on from the best routing, less a few moves at random.

    Cost: one call of `kvtheory.offline.fixed_routing.hits_alone` for each worker that a move
    changes; for the makespan the receiving worker goes first, and mostly decides.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [3, 4], [1, 2], [3, 4]])
    >>> begin = np.array([0, 1, 1, 0])
    >>> local_search(instance, Cluster([2, 2]), "makespan", begin, steps=50).value
    2.0
    """
    check_objective(objective)
    check_admission(admission)
    check_plain(instance, cluster)
    if time_limit is None and steps is None:
        raise bad("time_limit", None, "give a time limit or a number of steps")
    for name, limit in (("time_limit", time_limit), ("steps", steps)):
        if limit is not None and not limit >= 0:
            raise bad(name, limit, "must not be negative")
    began = time.perf_counter()
    problem = _Problem(instance, cluster, objective, admission)
    moves = _Moves(instance, cluster, objective, seed)
    now = best = problem.begin(check_routing(instance, cluster, worker))
    trace: list[tuple[float, int | float]] = []

    def tell() -> float:
        trace.append((time.perf_counter() - began, best.value))
        if progress is not None:
            progress(*trace[-1])
        return trace[-1][0]

    seconds, done, idle = tell(), 0, 0
    goal = -np.inf if target is None else target + 1e-12 * abs(target)
    while (
        best.value > goal
        and cluster.workers > 1
        and instance.requests > 0
        and (steps is None or done < steps)
        and (time_limit is None or seconds < time_limit)
    ):
        done, idle = done + 1, idle + 1
        after = problem.change(now, moves.propose(now))
        if after is not None and after.key <= now.key:
            idle = 0 if after.value < now.value else idle
            now = after
        if now.key <= best.key:
            better, best = now.value < best.value, now
            if better:
                tell()
        if idle > _PATIENCE + instance.requests:
            now, idle = best, 0
            for _ in range(moves.kicks()):
                now = problem.change(now, moves.propose(now), any_load=True) or now
        seconds = time.perf_counter() - began
    reached = value(objective, instance, cluster, best.worker, best.hits)
    return Found(best.worker, best.hits, reached, tuple(trace), done)


_PATIENCE = 200


class _State(NamedTuple):
    """A routing, and what the workers do with it under Belady's rule."""

    worker: np.ndarray  # int32[n]
    hits: np.ndarray  # int64[n]
    load: np.ndarray  # float64[M]
    hit_units: np.ndarray  # int64[M]
    key: tuple[int | float, ...]

    @property
    def value(self) -> int | float:
        """The objective."""
        return self.key[0]


class _Move(NamedTuple):
    """Another routing, and the workers on which it differs, a receiving one first."""

    worker: np.ndarray
    changed: list[int]


class _Problem:
    """Evaluates routings, one worker at a time."""

    def __init__(
        self, instance: Instance, cluster: Cluster, objective: Objective, admission: Admission
    ) -> None:
        self._instance, self._objective, self._admission = instance, objective, admission
        self._capacity = cluster.capacity.tolist()
        nothing = np.zeros(instance.requests)
        workers = range(cluster.workers)
        self._missed = np.stack([service(instance, cluster, i, nothing) for i in workers])
        self._saved = (cluster.alpha_miss - cluster.alpha_cached) / cluster.speed
        self._saved_deeper = alpha_depth(cluster) / 2 / cluster.speed

    def begin(self, worker: np.ndarray) -> _State:
        """The state of a routing."""
        workers = len(self._capacity)
        hits = np.zeros(len(worker), np.int64)
        empty = _State(worker, hits, np.zeros(workers), np.zeros(workers, np.int64), (np.inf,))
        state = self.change(empty, _Move(worker, list(range(workers))))
        assert state is not None
        return state

    def change(self, state: _State, move: _Move | None, any_load: bool = False) -> _State | None:
        """The state after a move, None if there is none or if a load exceeds the makespan."""
        if move is None:
            return None
        hits, load, hit_units = state.hits.copy(), state.load.copy(), state.hit_units.copy()
        limited = self._objective == "makespan" and not any_load
        for i in move.changed:
            queries = np.flatnonzero(move.worker == i)
            own = hits_alone(self._instance, queries, self._capacity[i], self._admission)
            seconds = self._missed[i, queries].sum() - self._saved[i] * own.sum()
            load[i] = seconds - self._saved_deeper[i] * (own * (own + 1)).sum()
            if limited and load[i] > state.value:
                return None
            hits[queries], hit_units[i] = own, own.sum()
        return _State(move.worker, hits, load, hit_units, self._key(load, hit_units))

    def _key(self, load: np.ndarray, hit_units: np.ndarray) -> tuple[int | float, ...]:
        if self._objective == "misses":
            return (self._instance.units_requested - int(hit_units.sum()),)
        if self._objective == "cost":
            return (float(load.sum()),)
        return tuple(sorted(load.tolist(), reverse=True))


class _Moves:
    """Draws moves."""

    def __init__(
        self, instance: Instance, cluster: Cluster, objective: Objective, seed: int
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._balance = objective == "makespan"
        self._units = path_units(instance)
        self._capacity = cluster.capacity.tolist()
        self._log = instance.log
        self._first, self._last = _subtree_ranges(instance)
        self._rank = np.append(self._first, -1)[instance.query]

    def kicks(self) -> int:
        """How many moves to make at random, from 1 to 4."""
        return int(self._rng.integers(1, 5))

    def propose(self, state: _State) -> _Move | None:
        """A move, or None if what was drawn is none."""
        rng, worker = self._rng, state.worker
        if self._balance and rng.random() < 0.75:
            source = int(np.argmax(state.load))
        else:
            source = int(worker[rng.integers(len(worker))])
        if self._balance and rng.random() < 0.5:
            to = int(np.argmin(state.load))
        else:
            to = int(rng.integers(len(self._capacity)))
        if to == source:
            return None
        kind = rng.random()
        everywhere, swap = kind < 0.15, kind > 0.75
        group = self._group(worker, source, everywhere)
        if not self._fits(group, to):
            return None
        moved = worker.copy()
        moved[group] = to
        if everywhere:
            others = np.unique(worker[group]).tolist()
            return _Move(moved, [to, *(i for i in others if i != to)])
        if swap:
            back = self._group(worker, to, False)
            if not self._fits(back, source):
                return None
            moved[back] = source
        return _Move(moved, [to, source])

    def _fits(self, group: np.ndarray, worker: int) -> bool:
        return int(self._units[group].max(initial=0)) <= self._capacity[worker]

    def _group(self, worker: np.ndarray, source: int, everywhere: bool) -> np.ndarray:
        """A query of ``source``, or those below an edge on its path, there or on all workers."""
        rng, log = self._rng, self._log
        own = np.flatnonzero(worker == source)
        if len(own) == 0:
            return own
        t = int(own[rng.integers(len(own))])
        path = log.edge[log.start[t] : log.start[t + 1]]
        up = int(rng.integers(len(path) + 1))
        if up == 0:
            return np.array([t])
        if everywhere:
            own = np.arange(len(worker))
        elif rng.random() < 0.3:
            own = own[own >= t] if rng.random() < 0.5 else own[own <= t]
        rank, edge = self._rank[own], path[up - 1]
        return own[(rank >= self._first[edge]) & (rank <= self._last[edge])]


def _subtree_ranges(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """int64[edges] twice: the first and last number below each edge, numbered depth first."""
    parent = instance.tree.parent.tolist()
    size = [1] * len(parent)
    for e in range(len(parent) - 1, -1, -1):
        if parent[e] >= 0:
            size[parent[e]] += size[e]
    first, free = [0] * len(parent), [0] * (len(parent) + 1)
    for e, up in enumerate(parent):  # the last entry of `free` belongs to the root, −1
        first[e] = free[up]
        free[up] += size[e]
        free[e] = first[e] + 1
    begin = np.array(first, np.int64)
    return begin, begin + np.array(size, np.int64) - 1
