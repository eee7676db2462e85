"""Routing and eviction together by search over everything, for tiny instances, in plain Python."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from kvtheory.cluster import Cluster
from kvtheory.errors import bad, unknown
from kvtheory.testing.exhaustive import closed_subsets
from kvtheory.testing.twin_cache import Unit, path_of
from kvtheory.testing.twins_deterministic import ADMISSIONS, Admission

Cache = frozenset[Unit]
OBJECTIVES = ("misses", "cost", "makespan")


def joint_by_search(
    sequences: Sequence[Sequence[int]],
    cluster: Cluster,
    objective: str,
    admission: Admission = "forced",
    *,
    output: Sequence[int] | None = None,
    routings: Collection[Sequence[int]] | None = None,
) -> float:
    """The smallest objective over all routings and all evictions, from empty caches.

    Every way to send the queries to the workers is tried; on each worker a dynamic program over
    all caches decides what stays. A query longer than a worker's cache does not go there.

    Parameters
    ----------
    sequences
        The queries as token lists.
    cluster
        Workers, costs and speeds.
    objective
        ``"misses"``, ``"cost"`` or ``"makespan"``.
    admission
        ``"forced"`` or ``"bypass"``.
    output
        Output tokens of each query, none if left out.
    routings
        The routings to try; all of them if left out.

    Raises
    ------
    InputError
        If a query is longer than every cache.

    Examples
    --------
    >>> queries = [[1, 2], [3, 4], [1, 2], [3, 4]]
    >>> [joint_by_search(queries, Cluster([2, 2]), name) for name in OBJECTIVES]
    [4.0, 4.0, 2.0]
    """
    if admission not in ADMISSIONS:
        raise unknown("admission", admission, ADMISSIONS)
    if objective not in OBJECTIVES:
        raise unknown("objective", objective, OBJECTIVES)
    paths = [path_of(tokens) for tokens in sequences]
    tokens = [0] * len(paths) if output is None else list(output)
    capacity = cluster.capacity.tolist()
    for t, path in enumerate(paths):
        if len(path) > max(capacity):
            raise bad(f"sequences[{t}]", f"{len(path)} units", "longer than every capacity")
    charges = [
        (lambda length, hits, out: float(length - hits))
        if objective == "misses"
        else service_of(cluster, i)
        for i in range(len(capacity))
    ]

    @cache
    def alone(i: int, queries: tuple[int, ...]) -> float:
        least: dict[Cache, float] = {frozenset(): 0.0}
        for t in queries:
            path = paths[t]
            after: dict[Cache, float] = {}
            for content, spent in least.items():
                hits = sum(unit in content for unit in path)
                spent += charges[i](len(path), hits, tokens[t])
                for outcome in outcomes(content, path, capacity[i], admission):
                    after[outcome] = min(spent, after.get(outcome, spent))
            least = after
        return min(least.values())

    if routings is None:
        choices = [[i for i, b in enumerate(capacity) if len(path) <= b] for path in paths]
        routings = list(product(*choices))
    best = float("inf")
    for routing in routings:
        loads = [
            alone(i, tuple(t for t, worker in enumerate(routing) if worker == i))
            for i in range(len(capacity))
        ]
        best = min(best, max(loads) if objective == "makespan" else sum(loads))
    return best


def service_of(cluster: Cluster, i: int) -> Callable[[int, int, int], float]:
    """Seconds of service on worker ``i``, given units, hits and output tokens of a query."""
    cached, miss = float(cluster.alpha_cached[i]), float(cluster.alpha_miss[i])
    out, overhead = float(cluster.alpha_out[i]), float(cluster.overhead[i])
    depth, speed = float(cluster.alpha_depth[i]), float(cluster.speed[i])

    def seconds(length: int, hits: int, tokens: int) -> float:
        missed = sum(miss + depth * d for d in range(hits + 1, length + 1))
        return (cached * hits + missed + out * tokens + overhead) / speed

    return seconds


def outcomes(cache: Cache, path: Sequence[Unit], capacity: int, admission: Admission) -> set[Cache]:
    """The caches that a query may leave.

    With forced admission the whole path stays and anything else may go; with bypass anything may.
    The caller's caches are those after each query, and nothing is loaded between.
    """
    served = frozenset(path)
    kept = served if admission == "forced" else frozenset()
    return closed_subsets(cache | served, kept, capacity)


def saved_by_search(
    sequences: Sequence[Sequence[int]],
    capacity: int,
    value: Mapping[Unit, float],
    admission: Admission = "forced",
    *,
    size: Mapping[Unit, int] | None = None,
    leaf_rule: bool = True,
) -> float:
    """The largest value that one cache can save, empty at the start.

    Parameters
    ----------
    sequences
        The queries as token lists.
    capacity
        Total size of the units that the cache holds.
    value
        Value of a hit on each unit, a unit being the tuple of the tokens down to it.
    admission
        ``"forced"`` or ``"bypass"``.
    size
        Size of each unit, 1 if left out.
    leaf_rule
        Whether only units with no cached unit below may go. Otherwise any may, and a unit counts as
        a hit whether or not those above are cached.

    Raises
    ------
    InputError
        If a path does not fit.
    """
    sizes = {unit: 1 if size is None else size[unit] for unit in value}
    best: dict[Cache, float] = {frozenset(): 0.0}
    for t, tokens in enumerate(sequences):
        path = path_of(tokens)
        total = sum(sizes[unit] for unit in path)
        if total > capacity:
            raise bad(f"sequences[{t}]", f"size {total}", f"exceeds the capacity, {capacity}")
        served = frozenset(path)
        kept = served if admission == "forced" else frozenset()
        after: dict[Cache, float] = {}
        for content, saved in best.items():
            saved += sum(value[unit] for unit in path if unit in content)
            if leaf_rule:
                left: Collection[Cache] = closed_subsets(content | served, kept, len(sizes))
            else:
                left = list(_subsets(content | served, kept))
            for outcome in left:
                if sum(sizes[unit] for unit in outcome) <= capacity:
                    after[outcome] = max(saved, after.get(outcome, saved))
        best = after
    return max(best.values())


def _subsets(units: Cache, kept: Cache) -> Iterator[Cache]:
    free = sorted(units - kept)
    for mask in range(1 << len(free)):
        yield kept | {unit for k, unit in enumerate(free) if mask >> k & 1}
