"""What the rows of a sweep come to over lanes and seeds: means with intervals."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kvtheory.ratio.empirical import mean_interval, ratio_of_means
from kvtheory.sweep.cell import TABLES

_CONSTANT = ("capacity_units", "requests", "units", "units_distinct")
_LEFT_OUT = ("cell", "seed", "lane", "seconds", "compile_seconds")


@dataclass(frozen=True)
class _Bounds:
    lower: float
    upper: float


def summary(table: Any, confidence: float = 0.95) -> list[dict[str, Any]]:
    """One row for all lanes and seeds of equal parameters; lanes with the same draws count once.

    Parameters
    ----------
    table
        As from `kvtheory.sweep.load`.
    confidence
        Level of the intervals (Student's t).

    Returns
    -------
    list of dict
        The parameters; ``lanes``; what is the same in all lanes; and for every other number x its
        mean ``x`` and the interval ``x_low``, ``x_high``: a point where nothing is random, nan
        for a single draw. ``ratio`` is E[misses] over the optimum, and its interval also covers
        an optimum that is only known to lie in one.
    """
    kind = TABLES["cluster" if "router" in table.column_names else "cache"]
    names = [f.name for f in fields(kind) if f.name in table.column_names and f.name != "seed"]
    groups: dict[tuple[Any, ...], dict[object, dict[str, Any]]] = {}
    for row in table.to_pylist():
        lanes = groups.setdefault(tuple(row[name] for name in names), {})
        lanes.setdefault(_draw(row), row)
    out = []
    for key, lanes in groups.items():
        parameters = dict(zip(names, key, strict=True))
        random = kind(**parameters).randomised
        out.append(parameters | _over(list(lanes.values()), names, random, confidence))
    return out


def _draw(row: dict[str, Any]) -> object:
    """What a lane draws: arrivals come from seed + lane, so lanes that share them count once."""
    if row.get("rate") is not None:
        return row["seed"] + row["lane"]
    return row["seed"], row["lane"]


def _over(
    lanes: list[dict[str, Any]], names: list[str], random: bool, confidence: float
) -> dict[str, Any]:
    first = lanes[0]
    told: dict[str, Any] = {"lanes": len(lanes)}
    for name, value in first.items():
        if name in names or name in _LEFT_OUT or name == "ratio":
            continue
        if name in _CONSTANT or name.startswith("optimum_"):
            told[name] = value
            continue
        values = np.array([lane[name] for lane in lanes], np.float64)
        mean = float(values.mean())
        low, high = mean_interval(values, confidence, "normal") if random else (mean, mean)
        told |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    if "ratio" in first:
        ratio = ratio_of_means(
            [lane["counted_misses"] for lane in lanes],
            _Bounds(first["optimum_low"], first["optimum_high"]),
            kind=first["kind"],
            confidence=confidence,
            method="normal",
            randomised=random,
        )
        told |= {"ratio": ratio.mean, "ratio_low": ratio.low, "ratio_high": ratio.high}
    return told
