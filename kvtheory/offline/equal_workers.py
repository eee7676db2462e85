"""Workers that differ in nothing, and a rule that tells them apart."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline.objective import Objective, alpha_depth


def query_order(instance: Instance) -> np.ndarray:
    """int64[n]; the queries in which equal workers are told apart: the longest first."""
    return np.lexsort((np.arange(instance.requests), -instance.query_length))


def classes(cluster: Cluster, objective: Objective) -> list[np.ndarray]:
    """Workers that differ in nothing, class by class."""
    table = [cluster.capacity]
    if objective != "misses":
        names = ("alpha_cached", "alpha_miss", "alpha_out", "overhead", "speed")
        table += [getattr(cluster, name) for name in names]
        table.append(alpha_depth(cluster))
    _, which = np.unique(np.column_stack(table), axis=0, return_inverse=True)
    return [np.flatnonzero(which == k) for k in range(int(which.max()) + 1)]


def renamed(
    routing: np.ndarray, instance: Instance, cluster: Cluster, objective: Objective
) -> np.ndarray:
    """The routing with equal workers in the order of first use that the program asks for."""
    routing = np.asarray(routing, np.int64)
    in_order = routing[query_order(instance)]
    name = np.arange(cluster.workers)
    for members in classes(cluster, objective):
        seen = [w for w in dict.fromkeys(in_order.tolist()) if w in set(members.tolist())]
        rest = [w for w in members.tolist() if w not in set(seen)]
        name[seen + rest] = members
    return name[routing].astype(np.int32)
