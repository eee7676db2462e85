"""A schedule of routing and evictions, carried out by the driver that runs the policies."""

from dataclasses import replace

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline.evictions import evictions
from kvtheory.offline.objective import Objective, value
from kvtheory.offline.replay import replay
from kvtheory.offline.schedule import Schedule, ScheduleError

TOLERANCE = 1e-9  # relative; sums of the same seconds in another order


def verify_joint(
    schedule: Schedule,
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    claimed: float,
) -> np.ndarray:
    """Replay a schedule twice, and insist on the objective that is claimed of it.

    Once in numpy (`kvtheory.offline.replay.replay`), and once in the cluster driver, with the
    routing as its router and the evictions as its policy: both must hit the same units query by
    query, and the driver's own service times must add up to ``claimed``.

    Parameters
    ----------
    schedule
        For ``instance``, whose arrival times do not matter.
    instance, cluster, objective
        What it is a schedule of.
    claimed
        Misses in units, or seconds.

    Returns
    -------
    int64[n]
        Hits of each query.

    Raises
    ------
    ScheduleError
        Naming the first step that differs, or both values.
    """
    hits = replay(schedule, instance, cluster.capacity)
    reached = value(objective, instance, cluster, schedule.worker, hits)
    if abs(reached - claimed) > TOLERANCE * abs(claimed):
        raise ScheduleError(f"the schedule has {objective} {reached}, but {claimed} is claimed")
    if instance.requests == 0:
        return hits
    driven, reached = _driven(schedule, instance, cluster, objective)
    wrong = np.flatnonzero(driven != hits)
    if len(wrong):
        t = int(wrong[0])
        raise ScheduleError(
            f"step {t}: the driver hits {int(driven[t])} units, the schedule {int(hits[t])}"
        )
    if abs(reached - claimed) > TOLERANCE * abs(claimed):
        raise ScheduleError(f"the driver has {objective} {reached}, but {claimed} is claimed")
    return hits


def _driven(
    schedule: Schedule, instance: Instance, cluster: Cluster, objective: Objective
) -> tuple[np.ndarray, float]:
    from kvtheory.eviction.replay import Replay
    from kvtheory.result import PolicyError
    from kvtheory.routing.given import GivenRouting
    from kvtheory.simulate_cluster import simulate_cluster

    start, edge, units = evictions(schedule, instance, cluster.capacity)
    policy = Replay.of(start, edge, units, bypass=schedule.admission == "bypass")
    try:
        result = simulate_cluster(
            replace(instance, arrival=np.zeros(instance.requests)),
            cluster,
            GivenRouting(schedule.worker),
            policy,
            view="oracle",
            # a query may be too long for another worker than its own
            oversize="skip",
        )
    except PolicyError as error:
        raise ScheduleError(f"the driver refuses the schedule: {error}") from error
    seconds = {"cost": float(result.load.sum()), "makespan": float(result.makespan[0])}
    misses = float(result.cached.misses[0])
    return result.hits[0].astype(np.int64), seconds.get(objective, misses)
