"""The best evictions for a given routing where costs depend on depth: one program a worker."""

from typing import NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline.fixed_routing import check_routing
from kvtheory.offline.objective import check_plain
from kvtheory.offline.replay import replay
from kvtheory.offline.schedule import Admission, Schedule
from kvtheory.offline.weighted import depth_values, solve_weighted


class WeightedRouting(NamedTuple):
    """Evictions for a given routing where costs depend on depth."""

    schedule: Schedule  # on the uncompressed instance
    hits: np.ndarray  # int64[n]
    exact: bool  # whether no evictions save more on any worker


def best_weighted_for_routing(
    instance: Instance,
    cluster: Cluster,
    worker: np.ndarray,
    admission: Admission = "forced",
    *,
    solver: str | None = None,
    time_limit: float | None = None,
) -> WeightedRouting:
    """Least service on every worker when it is given who serves each query.

    Parameters
    ----------
    instance, cluster
        The queries and the workers; costs may depend on depth, with α_miss >= α_cached.
    worker
        int[n]; who serves each query, within the capacities.
    admission
        ``"forced"`` or ``"bypass"``.
    solver, time_limit
        Of each worker's program, as for `solve_weighted`.

    Notes
    -----
    Guarantee: optimal for cost and makespan where ``exact``; for misses use
    `kvtheory.offline.fixed_routing.best_for_routing`. Replayed for all workers together.
    """
    check_plain(instance, cluster)
    worker = check_routing(instance, cluster, worker)
    units, n = instance.uncompressed(), instance.requests
    hits, count = np.zeros(n, np.int64), np.zeros(n, np.int64)
    own, parts, exact = [], [], True
    for i, capacity in enumerate(cluster.capacity.tolist()):
        queries = np.flatnonzero(worker == i)
        found = solve_weighted(
            Instance(units.tree, units.query[queries]),
            capacity,
            admission,
            unit_value=depth_values(units, cluster, i),
            solver=solver,
            time_limit=time_limit,
        )
        exact &= found.exact
        hits[queries], count[queries] = found.hits, np.diff(found.schedule.start)
        own.append(np.repeat(queries, np.diff(found.schedule.start)))
        parts.append(found.schedule)
    start = np.zeros(n + 1, np.int64)
    np.cumsum(count, out=start[1:])
    # a step belongs to one worker, so a stable sort by step keeps its changes together
    order = np.argsort(np.concatenate(own), kind="stable")
    edge, kept = (np.concatenate([getattr(p, a) for p in parts])[order] for a in ("edge", "kept"))
    schedule = Schedule(admission, worker, start, edge, kept)
    replayed = replay(schedule, units, cluster.capacity)
    assert np.array_equal(replayed, hits), "the programs and the replay disagree"
    return WeightedRouting(schedule, hits, exact)
