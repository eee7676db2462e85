"""Rows of a sweep in the form of those that one comparison has."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvtheory.cross_table import CrossRow, Estimate
from kvtheory.curve.points import OPTIMUM, CurvePoint
from kvtheory.instance import Instance
from kvtheory.ratio.bounds import bound_of
from kvtheory.ratio.comparison import Comparison

_ESTIMATES = (
    *("hit_rate_units", "hit_rate_tokens", "hit_rate_requests", "believed_hit_rate"),
    *("makespan", "last_completion", "imbalance", "jain", "throughput"),
    *(f"{what}_{which}" for what in ("latency", "ttft") for which in ("mean", "p50", "p95", "p99")),
)
Row = dict[str, Any]  # as `kvtheory.sweep.summary` makes them


def comparison(row: Row, confidence: float, instance: Instance | None) -> Comparison:
    """A policy at a capacity; of an asymptotic ratio the optimum is that of the second half.

    The closed-form bound needs the instance.
    """
    bound = None
    if instance is not None and row["kind"] == "strict":
        bound = bound_of(
            row["eviction"],
            instance,
            row["capacity_units"],
            admission=row["admission"],
            oversize=row["oversize"],
        )
    status = row["optimum_status"]
    return Comparison(
        source=row["source"],
        policy=row["eviction"],
        admission=row["admission"],
        oversize=row["oversize"],
        capacity_units=row["capacity_units"],
        requests=row["requests"],
        units=row["units"],
        hits=row["hits"],
        misses=row["misses"],
        hit_rate_units=row["hit_rate_units"],
        hit_rate_tokens=row["hit_rate_tokens"],
        hit_rate_requests=row["hit_rate_requests"],
        seeds=row["lanes"],
        ratio=row["ratio"],
        ratio_low=row["ratio_low"],
        ratio_high=row["ratio_high"],
        optimum_low=row["optimum_low"],
        optimum_high=row["optimum_high"],
        method=row["optimum_method"],
        seconds=float("nan"),
        units_distinct=row["units_distinct"],
        warmup=0,
        kind=row["kind"],
        confidence=confidence,
        interval="normal",
        bound=bound,
        note="" if status == "optimal" else f"optimum: {status}",
        compile_seconds=float("nan"),
        optimum_seconds=float("nan"),
    )


def curve_points(rows: Sequence[Comparison], told: Sequence[Row]) -> list[CurvePoint]:
    """Hit rates at the capacities of the sweep, those of the optimum last."""
    ends = {
        (row["eviction"], row["capacity_units"]): (
            row["hit_rate_units_low"],
            row["hit_rate_units_high"],
        )
        for row in told
    }

    def point(
        row: Comparison, policy: str, hits: float, interval: tuple[float, float], seeds: int
    ) -> CurvePoint:
        best = policy == OPTIMUM
        return CurvePoint(
            source=row.source,
            policy=policy,
            oversize=row.oversize,
            capacity_units=row.capacity_units,
            capacity_share=row.capacity_units / row.units_distinct,
            requests=row.requests,
            units=row.units,
            units_distinct=row.units_distinct,
            hits=hits,
            misses=row.units - hits,
            hit_rate_units=hits / row.units,
            hit_rate_low=interval[0],
            hit_rate_high=interval[1],
            hit_rate_tokens=float("nan") if best else row.hit_rate_tokens,
            hit_rate_requests=float("nan") if best else row.hit_rate_requests,
            seeds=seeds,
            method=row.method if best else "lanes",
            seconds=float("nan"),
        )

    points = [
        point(row, policy, row.hits, ends[policy, row.capacity_units], row.seeds)
        for policy in dict.fromkeys(row.policy for row in rows)
        for row in rows
        if row.policy == policy
    ]
    if any(row.kind == "asymptotic" for row in rows):  # its optimum is that of an increase
        return points
    for row in {row.capacity_units: row for row in rows}.values():
        low, high = (row.units - misses for misses in (row.optimum_high, row.optimum_low))
        points.append(point(row, OPTIMUM, low, (low / row.units, high / row.units), 1))
    return points


def cross_row(row: Row, confidence: float) -> CrossRow:
    """A router with an eviction policy, without its curves, which a sweep does not keep."""
    estimates = {n: Estimate(row[n], row[f"{n}_low"], row[f"{n}_high"]) for n in _ESTIMATES}
    speeds = row["speeds"]
    return CrossRow(
        source=row["source"],
        router=row["router"],
        eviction=row["eviction"],
        view=row["view"],
        oversize=row["oversize"],
        workers=row["workers"],
        capacity_units=(row["capacity_units"],) * row["workers"],
        speed=tuple(map(float, speeds.split(","))) if speeds else (1.0,) * row["workers"],
        requests=row["requests"],
        units=row["units"],
        rate=row["rate"],
        seeds=row["lanes"],
        random="nothing" if row["lanes"] == 1 else "arrivals and policies",
        load=(),
        share=(),
        optimum_low=None,
        optimum_high=None,
        ratio_low=None,
        ratio_high=None,
        confidence=confidence,
        seconds=float("nan"),
        latency_quantiles=np.zeros(0),
        times=np.zeros(0),
        in_system=np.zeros(0),
        **estimates,
    )
