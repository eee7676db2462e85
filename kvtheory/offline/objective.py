"""What the joint problem of routing and eviction minimises."""

from typing import Literal

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import bad, unknown
from kvtheory.instance import Instance

Objective = Literal["misses", "cost", "makespan"]
OBJECTIVES = ("misses", "cost", "makespan")


def check_objective(objective: str) -> None:
    """Raise `InputError` unless ``objective`` is known."""
    if objective not in OBJECTIVES:
        raise unknown("objective", objective, OBJECTIVES)


def check_plain(instance: Instance, cluster: Cluster) -> None:
    """Raise `InputError` for what the joint problem leaves out.

    Outputs that are cached and warm caches change what Belady's rule and the pooled bound may
    assume; speeds that change need a clock, and the joint problem has none.
    """
    for name in ("end", "warm"):
        if getattr(instance, name, None) is not None:
            raise bad(f"instance.{name}", "given", "is not covered by the joint optimum")
    if getattr(cluster, "speed_changes", ()):
        raise bad("cluster.speed_changes", "given", "are not covered by the joint optimum")


def service(
    instance: Instance, cluster: Cluster, worker: np.ndarray | int, hits: np.ndarray
) -> np.ndarray:
    """float64[n]; seconds of service of each query, Cost_ij / s_i.

    Parameters
    ----------
    instance, cluster
        The queries and the workers.
    worker
        int[n]; who serves each query, or one worker for all.
    hits
        int[n]; units of each query that hit there.

    Notes
    -----
    A hit costs α_cached and a miss α_miss, the unit at depth d of a query another α_depth·d if it
    is missed; the output adds α_out a token and the overhead, and the speed divides it all.
    """
    i = worker
    length = instance.query_length.astype(np.float64)
    h = np.asarray(hits, np.float64)
    seconds = cluster.alpha_cached[i] * h + cluster.alpha_miss[i] * (length - h)
    seconds = seconds + alpha_depth(cluster)[i] * (length * (length + 1) - h * (h + 1)) / 2
    return (seconds + output(instance, cluster, i)) / cluster.speed[i]


def output(instance: Instance, cluster: Cluster, worker: np.ndarray | int) -> np.ndarray:
    """float64[n]; seconds of each query for output and overhead, O_ij, before the speed."""
    seconds = np.zeros(instance.requests) + cluster.overhead[worker]
    if instance.output_length is not None:
        seconds += cluster.alpha_out[worker] * instance.output_length
    return seconds


def alpha_depth(cluster: Cluster) -> np.ndarray:
    """float64[M]; seconds that a missed unit costs per unit of its depth."""
    return np.asarray(getattr(cluster, "alpha_depth", np.zeros(cluster.workers)))


def loads(instance: Instance, cluster: Cluster, worker: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """float64[M]; seconds of service on each worker, P_i. Parameters as for `service`."""
    seconds = service(instance, cluster, worker, hits)
    return np.bincount(worker, weights=seconds, minlength=cluster.workers)


def value(
    objective: Objective,
    instance: Instance,
    cluster: Cluster,
    worker: np.ndarray,
    hits: np.ndarray,
) -> int | float:
    """Misses in units (an integer), the sum of all service, or the largest load, in seconds.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [3, 4], [1, 2]])
    >>> cluster = Cluster([2, 2], alpha_miss=0.5)
    >>> run = (instance, cluster, np.array([0, 1, 0]), np.array([0, 0, 2]))
    >>> [value(name, *run) for name in OBJECTIVES]
    [4, 2.0, 1.0]
    """
    check_objective(objective)
    if objective == "misses":
        return instance.units_requested - int(np.sum(hits))
    load = loads(instance, cluster, worker, hits)
    return float(load.sum() if objective == "cost" else load.max())
