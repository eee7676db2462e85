"""Inside one cache: where the misses come from by depth, and what the cache holds over time."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from kvtheory.curve.points import OPTIMUM
from kvtheory.eviction import policy as parse_policy
from kvtheory.instance import Instance
from kvtheory.offline.optimum import Optimum
from kvtheory.oversize import Oversize, check_oversize
from kvtheory.report.snapshots import scheduled, snapshots

MOST_QUERIES = 1 << 17  # of a trace that are looked at
MOMENTS = 200


@dataclass(frozen=True, eq=False)
class DepthMisses:
    """Misses of one policy by the depth of the unit.

    Parameters
    ----------
    policy
        Its name, or ``"optimum"``.
    misses
        int64[bands]; missed units.
    """

    policy: str
    misses: np.ndarray


@dataclass(frozen=True, eq=False)
class Occupancy:
    """What the cache of one policy holds over time.

    Parameters
    ----------
    policy
        Its name, or ``"optimum"``.
    served
        int64[moments]; queries served.
    cached, useful
        int64[moments]; units in the cache, and those of them that a later query asks for.
    """

    policy: str
    served: np.ndarray
    cached: np.ndarray
    useful: np.ndarray

    @property
    def useful_share(self) -> np.ndarray:
        """float64[moments]; the useful units over those in the cache, 1 for an empty cache."""
        held = np.maximum(self.cached, 1)
        return np.where(self.cached > 0, self.useful / held, 1.0)


@dataclass(frozen=True, eq=False)
class Inside:
    """One lane of each policy at one capacity.

    Parameters
    ----------
    source
        Where the requests come from.
    capacity_units
        B.
    requests, queries
        Queries of the sequence, and the first of them that were looked at.
    bands
        int64[bands + 1]; depths: band i is of the units at depth bands[i] + 1 … bands[i + 1].
    asked, compulsory
        int64[bands]; units asked for, and first requests for a unit, which every policy misses.
    depth, occupancy
        A value for each policy, the optimum last if it is known.
    """

    source: str
    capacity_units: int
    requests: int
    queries: int
    bands: np.ndarray
    asked: np.ndarray
    compulsory: np.ndarray
    depth: tuple[DepthMisses, ...]
    occupancy: tuple[Occupancy, ...]


def look_inside(
    instance: Instance,
    capacity: int,
    policies: Sequence[str],
    *,
    key: jax.Array,
    optimum: Optimum | None = None,
    oversize: Oversize = "error",
    most: int = MOST_QUERIES,
) -> Inside:
    """Run lane 0 of some policies at one capacity and look into the cache.

    Parameters
    ----------
    instance
        The request sequence.
    capacity
        Units of the cache.
    policies
        Names with parameters.
    key
        Typed PRNG key, as for `kvtheory.simulate.simulate`.
    optimum
        Of the same sequence, capacity and treatment of long queries; shown beside the policies if
        it is one of forced admission.
    oversize
        What is done with queries longer than the capacity.
    most
        Queries that are looked at; of a longer sequence the first ones. What is useful is judged
        by all of it.
    """
    queries = min(instance.requests, most)
    part = instance.prefix(queries)
    length = part.query_length
    bands = depth_bands(int(length.max(initial=1)))
    depth, occupancy = [], []
    for name in policies:
        seen = snapshots(
            instance,
            capacity,
            parse_policy(name),
            queries=queries,
            wanted=MOMENTS,
            key=key,
            oversize=oversize,
        )
        depth.append(DepthMisses(name, units_by_depth(seen.hits, length, bands)))
        occupancy.append(_occupancy(name, seen.instance, seen.served, seen.cached))
    if optimum is not None:
        hits = optimum.hits[:queries]
        depth.append(DepthMisses(OPTIMUM, units_by_depth(hits, length, bands)))
        run = check_oversize(instance, capacity, oversize)
        if optimum.admission == "forced" and oversize != "skip":
            served = occupancy[0].served
            cached = scheduled(optimum.schedule, run, served)
            occupancy.append(_occupancy(OPTIMUM, run, served, cached))
    return Inside(
        source=instance.source or instance.name,
        capacity_units=capacity,
        requests=instance.requests,
        queries=queries,
        bands=bands,
        asked=units_by_depth(np.zeros_like(length), length, bands),
        compulsory=_first_uses(part, bands),
        depth=tuple(depth),
        occupancy=tuple(occupancy),
    )


def depth_bands(longest: int) -> np.ndarray:
    """int64; ends of the bands: 1, 2, 4, 8, … units, the last one at the longest query.

    Examples
    --------
    >>> depth_bands(6).tolist(), depth_bands(8).tolist(), depth_bands(1).tolist()
    ([0, 1, 2, 4, 6], [0, 1, 2, 4, 8], [0, 1])
    """
    ends = [0]
    while ends[-1] < longest:
        ends.append(min(longest, max(1, 2 * ends[-1])))
    return np.array(ends, np.int64)


def units_by_depth(above: np.ndarray, length: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """int64[bands]; how many units lie below depth ``above`` and not below ``length``, by band.

    With the hits and lengths of queries these are the misses.

    Examples
    --------
    >>> units_by_depth(np.array([0, 1]), np.array([3, 2]), np.array([0, 1, 2, 4])).tolist()
    [1, 2, 1]
    """
    ends = [int((np.minimum(length, b) - np.minimum(above, b)).sum()) for b in bands]
    return np.diff(np.array(ends, np.int64))


def _first_uses(part: Instance, bands: np.ndarray) -> np.ndarray:
    """Units that the queries ask for, each once, by band; those below a cut by their query."""
    tree = part.tree
    used = np.zeros(tree.edges, bool)
    used[part.log.edge] = True
    below = tree.depth[used].astype(np.int64)
    return units_by_depth(below - tree.length[used], below, bands)


def _occupancy(name: str, run: Instance, served: np.ndarray, cached: np.ndarray) -> Occupancy:
    log = run.log
    last = np.full(run.tree.edges, -1, np.int64)
    query = np.repeat(np.arange(run.requests), np.diff(log.start))
    last[log.edge] = query  # queries rise, so that the last one stays
    held = cached.sum(axis=1, dtype=np.int64)
    # a query has all units of an edge or none, so a cached part of it is asked for with the rest
    again = np.array(
        [int(row[last >= t].sum(dtype=np.int64)) for t, row in zip(served, cached, strict=True)]
    )
    return Occupancy(name, served, held, again)
