"""The optimum of the last part of a sequence, from a cache that is given or the best there is."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.cluster import capacity_units
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.offline.optimum import Optimum, optimum
from kvtheory.offline.schedule import Admission
from kvtheory.oversize import check_oversize
from kvtheory.rows import check_queries_alone
from kvtheory.simulate import cache_after

Start = Literal["free"]


@dataclass(frozen=True, eq=False)
class WindowOptimum:
    """The fewest misses of the queries after the first ``warmup`` ones.

    Parameters
    ----------
    lower, upper
        Misses in units of the window alone.
    warmup
        Queries that come before it.
    start
        ``"free"`` or the name of the policy whose cache the window starts from.
    held
        Units in the cache when it starts.
    optimum
        Of ``instance``, whose first queries fetch the starting cache: it has ``held`` misses more.
    instance
        One unit per edge: queries that fetch the starting cache, then the window.
    """

    lower: int
    upper: int
    warmup: int
    start: str
    held: int
    optimum: Optimum
    instance: Instance


def window_optimum(
    instance: Instance,
    capacity: int | str,
    warmup: int,
    *,
    start: Start | EvictionPolicy = "free",
    admission: Admission = "forced",
) -> WindowOptimum:
    """The optimum of the queries from ``warmup`` on, with equal miss costs.

    Parameters
    ----------
    instance, capacity, admission
        As for `kvtheory.offline.optimum.optimum`.
    warmup
        Queries before the window, which are not counted.
    start
        ``"free"``: the window starts with whatever cache is best for it, at no cost, so that the
        optimum bounds every policy, whatever it did before. A policy: with the cache that this one
        has after the first ``warmup`` queries (lane 0 if it is randomised).

    Raises
    ------
    InputError
        For a ``warmup`` outside 0 … n, or a query longer than the cache.

    Notes
    -----
    Guarantee: exact. A cache of at most B units may be fetched by queries that end at its leaves:
    nothing has to go meanwhile, and Belady's rule lets nothing go before it must. The best cache to
    start from holds the B units of the window that are used first (an ancestor is never used later
    than a unit below it): Belady's exchange argument at step 0.

    Examples
    --------
    >>> cycle = Instance.from_blocks([[1], [2], [3], [4]] * 4)
    >>> window_optimum(cycle, 3, 8).upper, optimum(cycle, 3).upper
    (2, 8)
    """
    check_queries_alone(instance, "the optimum")
    if not 0 <= warmup <= instance.requests:
        raise bad("warmup", warmup, f"must be a number of queries, at most {instance.requests}")
    size = capacity_units(capacity, instance)
    check_oversize(instance, size)
    units = instance.uncompressed()
    window = units.query[warmup:]
    if isinstance(start, EvictionPolicy):
        held = cache_after(units.prefix(warmup), size, start) > 0
        name = start.name
    elif start == "free":
        held, name = _used_first(units, warmup, size), "free"
    else:
        raise bad("start", start, "must be 'free' or an eviction policy")
    parent = units.tree.parent
    inner = np.zeros(units.tree.edges + 1, bool)
    inner[parent[held]] = True
    leaves = np.flatnonzero(held & ~inner[:-1])
    whole = replace(
        units,
        query=np.concatenate([leaves, window]),
        arrival=None,
        input_length=None,
        output_length=None,
    )
    best = optimum(whole, size, admission=admission)
    count = int(held.sum())
    return WindowOptimum(
        int(best.lower) - count, int(best.upper) - count, warmup, name, count, best, whole
    )


def _used_first(units: Instance, warmup: int, size: int) -> np.ndarray:
    """bool[units]; those of the window that are used first, ancestors before what is below."""
    log = units.log
    first = np.full(units.tree.edges, np.iinfo(np.int64).max)
    positions = np.arange(log.start[warmup], len(log.edge))
    query = np.repeat(np.arange(units.requests), np.diff(log.start))[positions]
    np.minimum.at(first, log.edge[positions], query)
    used = np.flatnonzero(first < np.iinfo(np.int64).max)
    order = np.lexsort((units.tree.depth[used], first[used]))
    held = np.zeros(units.tree.edges, bool)
    held[used[order[:size]]] = True
    return held
