"""What may stay cached between two uses when the routing is still open.

Queries of other workers separate the uses that one worker serves, so a unit may stay over uses of
its own edge that it has no part in. A gap is the time between two consecutive uses in the whole
sequence; what stays over several of them is carried from gap to gap.
"""

from typing import NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.next_use import NEVER, next_use, query_of
from kvtheory.offline.objective import Objective, alpha_depth, service
from kvtheory.offline.schedule import Admission
from kvtheory.oversize import path_units

NONE = -1


class Gaps(NamedTuple):
    """The gaps of all edges, and for costs that depend on depth which lie inside which.

    A gap belongs to a group of units of one path that are used together from its first query on:
    with equal costs they differ in nothing. `deep` gaps belong to one edge each.
    """

    enter: np.ndarray  # int64[G]; the query before the gap
    leave: np.ndarray  # int64[G]; the query after it
    following: np.ndarray  # int64[G]; the gap that begins at ``leave`` with these units, or NONE
    units: np.ndarray  # int64[G]; how many
    depth: np.ndarray  # float64[G]; their mean depth, 1 at the root
    below: np.ndarray  # int64[K]; a gap of an edge, for each …
    above: np.ndarray  # int64[K]; … gap of the edge above within it

    @property
    def carried(self) -> np.ndarray:
        """bool[G]; whether there is a later gap that the units may be carried into."""
        return self.following != NONE


class Costs(NamedTuple):
    """What the objective charges: seconds of service, or misses in units."""

    missed: np.ndarray  # float64[M, n]; each query if all of it is missed
    saved: np.ndarray  # float64[M, G]; less for each unit of a gap that is hit at its end
    fits: np.ndarray  # bool[M, n]; whether the worker may serve the query


def joint_gaps(instance: Instance, *, deep: bool = False) -> Gaps:
    """The gaps of an instance; ``deep`` keeps edges apart and lists the gaps inside each other.

    Cost: O(P log P) for P edges on all paths; with ``deep`` also the sum over all edges of the
    uses of the edge above.
    """
    log, tree, n = instance.log, instance.tree, instance.requests
    positions = len(log.edge)
    owner = query_of(log).astype(np.int64)
    following = next_use(log)
    again = np.flatnonzero(following != NEVER)
    rank, left = _ranks(instance)
    if deep:
        gap_of = np.full(positions, NONE, np.int64)
        gap_of[again] = np.arange(len(again))
        count = len(again)
    else:
        # On a path the edges with equally many uses left are used together from here on.
        key = owner[again] * (n + 1) + left[again]
        distinct, column = np.unique(key, return_inverse=True)
        gap_of = np.full(positions, NONE, np.int64)
        gap_of[again] = column
        count = len(distinct)
    which = gap_of[again]
    length = tree.length[log.edge[again]].astype(np.int64)
    enter, leave = np.zeros(count, np.int64), np.zeros(count, np.int64)
    then = np.full(count, NONE, np.int64)
    enter[which] = owner[again]
    leave[which] = owner[following[again]]
    then[which] = gap_of[following[again]]
    units = np.zeros(count, np.int64)
    np.add.at(units, which, length)
    middle = tree.depth[log.edge[again]] - (length - 1) / 2
    depth = np.bincount(which, middle * length, count) / np.maximum(units, 1)
    below = above = np.zeros(0, np.int64)
    if deep:
        below, above = _nested(instance, again, following, rank, gap_of)
    return Gaps(enter, leave, then, units, depth, below, above)


def joint_costs(instance: Instance, cluster: Cluster, gaps: Gaps, objective: Objective) -> Costs:
    """The costs of an objective; a gap of several units saves their mean each.

    With costs that rise with depth the upper units of an edge save less than the mean, and no unit
    can be hit without them: so a part of an edge never saves more than is charged off here.
    """
    workers, n = cluster.workers, instance.requests
    fits = path_units(instance) <= cluster.capacity[:, None]
    if objective == "misses":
        missed = np.tile(instance.query_length.astype(np.float64), (workers, 1))
        return Costs(missed, np.ones((workers, len(gaps.enter))), fits)
    nothing = np.zeros(n, np.int64)
    missed = np.stack([service(instance, cluster, i, nothing) for i in range(workers)])
    equal = (cluster.alpha_miss - cluster.alpha_cached)[:, None]
    saved = (equal + alpha_depth(cluster)[:, None] * gaps.depth) / cluster.speed[:, None]
    return Costs(missed, saved, fits)


def tolls(price: np.ndarray, gaps: Gaps, admission: Admission) -> tuple[np.ndarray, np.ndarray]:
    """float64[M, G] twice: what a unit pays for space in a gap, if hit at its end or if carried on.

    ``price`` float64[M, n]. With forced admission the space of a path is charged where its query is
    served: a unit that is hit pays for the queries strictly between, one that is carried over a use
    elsewhere pays at that query too. With bypass both pay from the first query on.
    """
    total = np.zeros((price.shape[0], price.shape[1] + 1))
    np.cumsum(price, axis=1, out=total[:, 1:])
    first = gaps.enter + (admission == "forced")
    hit = total[:, gaps.leave] - total[:, first]
    carried = hit + price[:, gaps.leave] if admission == "forced" else hit
    return hit, carried


def _ranks(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """int64[P] twice: a number for each use, edge by edge in order of time; the uses left."""
    log = instance.log
    positions = len(log.edge)
    order = np.lexsort((np.arange(positions), log.edge))
    rank = np.empty(positions, np.int64)
    rank[order] = np.arange(positions)
    uses = np.bincount(log.edge, minlength=instance.tree.edges)
    last = np.cumsum(uses) - 1
    return rank, last[log.edge] - rank


def _nested(
    instance: Instance,
    again: np.ndarray,
    following: np.ndarray,
    rank: np.ndarray,
    gap_of: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    log, tree = instance.log, instance.tree
    lower = again[tree.parent[log.edge[again]] >= 0]
    # every use of an edge is one of the edge above, which is next in the log
    first, stop = rank[lower + 1], rank[following[lower] + 1]
    size = stop - first
    inner = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    by_rank = np.empty(len(rank), np.int64)
    by_rank[rank] = gap_of
    return np.repeat(gap_of[lower], size), by_rank[np.repeat(first, size) + inner]
