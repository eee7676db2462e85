"""Upper bounds: what routers do, with Belady's evictions in place of theirs."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline.fixed_routing import routed_hits
from kvtheory.offline.objective import Objective, check_objective, check_plain, value
from kvtheory.offline.partition import partition
from kvtheory.offline.pooled import priced_bound, unavoidable
from kvtheory.offline.schedule import Admission, check_admission

ROUTERS = (
    "max_hit",
    "dualmap",
    "exponential_potential:load=total",
    "cache_aware_spill",
    "least_work_left",
    "lbgr",
)
"""Routers with which one is mostly close to the best; each is compiled once, for some seconds."""
GRAINS = (1, 16)


class PolicyBound(NamedTuple):
    """A routing that some schedule can follow, and the best objective that it allows."""

    name: str  # of the router, "partition:grain=…" or "cheapest worker"
    worker: np.ndarray  # int32[n]
    hits: np.ndarray  # int64[n]; units of each query, under Belady's rule on every worker
    value: int | float


def policy_bounds(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission = "forced",
    *,
    routers: Sequence[str] = ROUTERS,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Callable[[PolicyBound], object] | None = None,
) -> list[PolicyBound]:
    """Try some routings, and evict by Belady's rule on every worker.

    Parameters
    ----------
    instance, cluster
        The queries and the workers.
    objective
        ``"misses"``, ``"cost"`` or ``"makespan"``.
    admission
        ``"forced"`` or ``"bypass"``.
    routers
        Names with parameters, as `kvtheory.routing.router` reads them; may be empty.
    seed
        Of the routers.
    time_limit
        Seconds after which no other routing is tried, or None.
    progress
        Called with each bound.

    Returns
    -------
    list of PolicyBound
        The smallest first; there is always one, that of `partition`. "cheapest worker" sends each
        query where it costs least if it hits all it can.

    Raises
    ------
    InputError
        For an unknown router, a query that fits no worker, or what `check_plain` refuses.

    Notes
    -----
    Routers see leaf-LRU caches, as they would online. They run at the arrival times of the instance
    or, if it has none, at even ones that keep the cluster just busy: n queries in the shortest
    time in which their unavoidable work can be done. The objectives have no clock; times only
    tell a router what has been completed. A router takes it that a query fits everywhere, so none
    is run if one does not.
    """
    check_objective(objective)
    check_admission(admission)
    check_plain(instance, cluster)
    began = time.perf_counter()
    found: list[PolicyBound] = []
    for name, worker in _routings(instance, cluster, objective, routers, seed):
        hits = routed_hits(instance, cluster, worker, admission)
        best = value(objective, instance, cluster, worker, hits)
        found.append(PolicyBound(name, worker, hits, best))
        if progress is not None:
            progress(found[-1])
        if time_limit is not None and time.perf_counter() - began >= time_limit:
            break
    return sorted(found, key=lambda bound: bound.value)


def _routings(
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    routers: Sequence[str],
    seed: int,
) -> Iterator[tuple[str, np.ndarray]]:
    for grain in GRAINS:
        yield f"partition:grain={grain}", partition(instance, cluster, objective, grain=grain)
    cheapest = unavoidable(instance, cluster).least.argmin(axis=0)
    yield "cheapest worker", cheapest.astype(np.int32)
    longest = int(instance.tree.depth.max()) if instance.tree.edges else 0
    if not routers or instance.requests == 0 or longest > cluster.capacity.min():
        return
    # what follows compiles programs, which a caller without routers need not load
    import jax

    from kvtheory.eviction import policy
    from kvtheory.routing import router
    from kvtheory.simulate_cluster import simulate_cluster

    parsed = [(name, router(name)) for name in routers]
    if instance.arrival is None:
        busy = priced_bound(unavoidable(instance, cluster), cluster, "makespan", 0)
        instance = replace(
            instance, arrival=np.linspace(0, busy, instance.requests, endpoint=False)
        )
    for name, rule in parsed:
        key = jax.random.key(seed)
        run = simulate_cluster(instance, cluster, rule, policy("llru"), key=key)
        yield name, run.worker[0].astype(np.int32)
