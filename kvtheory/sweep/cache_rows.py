"""The rows of a cell on one cache: one for each lane, with its misses and ratio."""

import jax
import numpy as np

from kvtheory.cluster import capacity_units
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.ratio.empirical import ratio_of_means
from kvtheory.simulate import simulate
from kvtheory.sweep.cell import CacheCell
from kvtheory.sweep.work import Columns, Known, Rows


def cache_rows(cell: CacheCell, instance: Instance, known: Known) -> Rows:
    """The rows of a cell.

    Lane s is lane s of `kvtheory.ratio.compare` with ``key=jax.random.key(seed)``. The optimum is
    the same for all lanes, so that the mean of their ratios is the ratio of the means.
    """
    capacity = capacity_units(cell.capacity, instance)
    with jax.enable_x64(False):
        result = simulate(
            instance,
            capacity,
            policy(cell.eviction),
            seeds=cell.seeds,
            key=jax.random.key(cell.seed, impl="threefry2x32"),
            oversize=cell.oversize,
            keep="totals",
            cuts=[instance.requests // 2],
        )
    counted = result.misses
    if cell.kind == "asymptotic":
        counted = counted - result.misses_of_first(instance.requests // 2)
    lanes = result.seeds
    columns: dict[str, np.ndarray | list[object]] = {
        "lane": np.arange(lanes),
        "capacity_units": np.full(lanes, capacity),
        "requests": np.full(lanes, instance.requests),
        "units": np.full(lanes, instance.units_requested),
        "units_distinct": np.full(lanes, instance.tree.units),
        "hits": result.total_hits,
        "misses": result.misses,
        "hit_rate_units": result.hit_rate_units,
        "hit_rate_tokens": result.hit_rate_tokens,
        "hit_rate_requests": result.hit_rate_requests,
        "counted_misses": counted,
        "optimum_low": np.full(lanes, known.lower),
        "optimum_high": np.full(lanes, known.upper),
        "optimum_method": [known.method] * lanes,
        "optimum_status": [known.status] * lanes,
        "ratio": np.array([ratio_of_means([c], known).mean for c in counted]),
    }
    return Rows(as_lists(columns), result.seconds, result.compile_seconds)


def as_lists(columns: dict[str, np.ndarray | list[object]]) -> Columns:
    """Arrays as lists of plain numbers, which travel between processes and into files alike."""
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
