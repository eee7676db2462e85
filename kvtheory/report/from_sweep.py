"""A report of a sweep: the means of its finished cells, and what one lane of each policy shows."""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from kvtheory.cross_table import CrossRow, cross_table
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.offline.optimum import optimum
from kvtheory.ratio.comparison import Comparison
from kvtheory.report.data import SourceReport, methods_of
from kvtheory.report.inside import Inside, look_inside
from kvtheory.report.sweep_rows import Row, comparison, cross_row, curve_points
from kvtheory.report.worst import LaneRun, worst_lanes
from kvtheory.sweep.cell import ClusterCell
from kvtheory.sweep.cluster_rows import cluster_of
from kvtheory.sweep.folder import cell_file, cells_of_runs
from kvtheory.sweep.source import Source
from kvtheory.sweep.summary import summary
from kvtheory.sweep.table import load

DRAWN_LANES = 4  # of a cluster, for its curves
_SETTING = ("source", "format", "ids", "block_size", "oversize")
_CLUSTER = ("workers", "speeds", "capacity", "rate", "view", "view_capacity", "refresh")
_COSTS = ("alpha_miss", "alpha_cached", "alpha_out")


@dataclass(frozen=True)
class Sweep:
    """What a folder tells.

    Parameters
    ----------
    sources
        A report for each setting: source, treatment of long queries, admission and kind of ratio.
    parameters
        Of the grids: the values of each parameter.
    versions
        Of the packages that computed the last run.
    planned, finished, failed
        Cells.
    """

    sources: tuple[SourceReport, ...]
    parameters: Mapping[str, str]
    versions: Mapping[str, str]
    planned: int
    finished: int
    failed: int


def read_sweep(
    folder: str | Path,
    *,
    run: str | None = None,
    confidence: float = 0.95,
    look: bool = True,
    progress: Callable[[str, float], object] | None = None,
) -> Sweep:
    """Read the finished cells of a sweep, which may be going on.

    Parameters
    ----------
    folder
        As for `kvtheory.sweep.load`.
    run
        Only the cells of that run, as for `kvtheory.sweep.load`.
    confidence
        Level of the intervals over lanes and seeds.
    look
        Read the sources again and run a few lanes, for what the cells do not keep: misses by
        depth, occupancy, latencies and load over time. What cannot be read, or has changed since,
        is left out with a note.
    progress
        Called with a description and the share just finished of a piece, of which there are two:
        reading, and all sources.

    Raises
    ------
    InputError
        If it is no folder of a sweep, or no cell is finished.
    """
    folder = Path(folder)
    tell = progress or (lambda what, done: None)
    tell("reading", 0.0)
    cells = dict(cells_of_runs(folder, run).values())
    finished = {name: kind for name, kind in cells.items() if cell_file(folder, name).is_file()}
    if not finished:
        load(folder, run=run)  # says what is wrong
    tables = {kind: load(folder, kind, run=run) for kind in sorted(set(finished.values()))}
    manifests = [
        json.loads(path.read_text("utf-8"))
        for path in sorted((folder / "runs").glob("*.json"))
        if run in (None, path.stem)
    ]
    known = [source for manifest in manifests for source in manifest["sources"]]
    tell("reading", 1.0)

    groups: dict[tuple[object, ...], _Group] = {}
    for kind, table in tables.items():
        extra = ("admission", "kind") if kind == "cache" else ()
        lanes: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in table.to_pylist():
            lanes[tuple(row[name] for name in (*_SETTING, *extra))].append(row)
        for row in summary(table, confidence):
            key = tuple(row[name] for name in (*_SETTING, *extra))
            group = groups.setdefault(key, _Group(kind, [], lanes[key]))
            group.rows.append(row)
    reports = []
    for group in groups.values():
        what = str(group.rows[0]["source"])
        tell(what, 0.0)
        reports.append(_report(group, groups.values(), known, confidence, look))
        tell(what, 1 / len(groups))
    return Sweep(
        sources=tuple(reports),
        parameters=_parameters(
            told
            for manifest in manifests
            for name, told in manifest["cells"].items()
            if name in cells
        ),
        versions=manifests[-1]["versions"] | {"python": manifests[-1]["python"]},
        planned=len(cells),
        finished=len(finished),
        failed=sum((folder / "failures" / f"{name}.json").is_file() for name in cells),
    )


def _parameters(cells: Iterable[Mapping[str, object]]) -> dict[str, str]:
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.items():
            if value is not None:
                values.setdefault(name.replace("_", " "), {})[str(value)] = None
    return {name: ", ".join(told) for name, told in values.items() if name != "table"}


@dataclass(frozen=True)
class _Group:
    """Rows of one setting: means, and a row for each lane."""

    kind: str
    rows: list[Row]
    lanes: list[Row]


def _report(
    group: _Group,
    every: Any,
    known: Sequence[Row],
    confidence: float,
    look: bool,
) -> SourceReport:
    first = group.rows[0]
    source = Source(first["source"], first["format"], first["ids"], first["block_size"])
    there, digest = _located(source, known)
    instance, notes = None, []
    if look:
        instance, why = _read(there, digest)
        notes = [why] if why else []
    report = SourceReport(
        name=_name(group, every),
        call=call_of(source),
        digest=digest,
        methods=() if instance is None else methods_of(instance),
        notes=tuple(notes),
    )
    if group.kind == "cluster":
        rows = tuple(cross_row(row, confidence) for row in group.rows)
        curves, why = (None, "") if instance is None else _cluster_curves(group, instance)
        return replace(
            report,
            cluster=rows,
            cluster_curves=curves or (),
            notes=(*report.notes, *filter(None, [why])),
        )
    rows = sorted(
        (comparison(row, confidence, instance) for row in group.rows),
        key=lambda row: row.capacity_units,
    )
    return replace(
        report,
        rows=tuple(rows),
        points=tuple(curve_points(rows, group.rows)),
        worst=worst_lanes(_lane_runs(group, rows)),
        inside=None if instance is None else _inside(group, rows, instance),
    )


def _name(group: _Group, every: Any) -> str:
    first = group.rows[0]
    text = first["source"]
    alike = {other.rows[0]["source"] for other in every}
    same = [t for t in alike if os.path.basename(t) == os.path.basename(text)]
    is_path = os.sep in text.partition(":")[0]
    told = [os.path.basename(text) if is_path and len(same) == 1 else text]
    if group.kind == "cluster" and any(other.kind == "cache" for other in every):
        told.append("several workers")
    for name in ("oversize", "admission", "kind"):
        if len({other.rows[0].get(name) for other in every if name in other.rows[0]}) > 1:
            told.append(f"{name} {first[name]}" if name in first else "")
    return ", ".join(filter(None, told))


def call_of(source: Source) -> str:
    """Python that reads a source."""
    more = [
        f"{name}={value!r}"
        for name, value in (("ids", source.ids), ("block_size", source.block_size))
        if value is not None
    ]
    if source.format != "auto":
        more.insert(0, f"format={source.format!r}")
    return f"kvtheory.instances.source({', '.join([repr(source.text), *more])})"


def _located(source: Source, known: Sequence[Row]) -> tuple[Source, str]:
    """The source with the path that the planner saw, and the digest of what it read."""
    text = os.path.normpath(source.text)
    for told in reversed(known):
        whole = told["text"]
        if whole == source.text or whole.endswith(os.sep + text.lstrip("./")):
            return replace(source, text=whole), told["digest"]
    return source, ""


def _read(source: Source, digest: str) -> tuple[Instance | None, str]:
    lost = "so misses by depth, occupancy, latencies and load over time are not shown"
    try:
        instance, now = source.read()
    except (InputError, OSError) as error:
        return None, f"{source.text} cannot be read here ({error}), {lost}."
    if digest and now != digest:
        return None, f"{source.text} is not what the sweep read, {lost}."
    return instance, ""


def _lane_runs(group: _Group, rows: Sequence[Comparison]) -> list[LaneRun]:
    lanes: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in group.lanes:
        lanes[row["eviction"], row["capacity_units"], row["seed"]].append(row)
    means = {(row.policy, row.capacity_units): row for row in rows}
    return [
        LaneRun(
            means[policy, capacity],
            seed,
            np.array([row["counted_misses"] for row in sorted(some, key=lambda r: r["lane"])]),
        )
        for (policy, capacity, seed), some in lanes.items()
    ]


def _inside(group: _Group, rows: Sequence[Comparison], instance: Instance) -> Inside:
    units = sorted({row.capacity_units for row in rows})
    capacity = units[(len(units) - 1) // 2]
    first = group.rows[0]
    return look_inside(
        instance,
        capacity,
        list(dict.fromkeys(r.policy for r in rows if r.capacity_units == capacity)),
        key=jax.random.key(group.lanes[0]["seed"]),
        optimum=optimum(
            instance, capacity, admission=first["admission"], oversize=first["oversize"]
        ),
        oversize=first["oversize"],
    )


def _cluster_curves(group: _Group, instance: Instance) -> tuple[tuple[CrossRow, ...], str]:
    """The first cluster of the group again, with a few lanes, for what its cells do not keep."""

    def setting(row: Row) -> tuple[object, ...]:
        return tuple(row[name] for name in (*_CLUSTER, *_COSTS))

    first = group.lanes[0]
    mine = [row for row in group.rows if setting(row) == setting(first)]
    lanes = min(DRAWN_LANES, max(row["lanes"] for row in mine))
    names = ("source", "capacity", "eviction", "router", "workers", "speeds", "rate", *_COSTS)
    cell = ClusterCell(**{name: first[name] for name in names})
    rows = cross_table(
        instance,
        cluster_of(cell, instance),
        list(dict.fromkeys(row["router"] for row in mine)),
        list(dict.fromkeys(row["eviction"] for row in mine)),
        rate=first["rate"],
        seeds=lanes,
        seed=first["seed"],
        view=first["view"],
        view_capacity=first["view_capacity"],
        refresh=first["refresh"],
        oversize=first["oversize"],
    )
    there = {(row["router"], row["eviction"]) for row in mine}
    drawn = tuple(row for row in rows if (row.router, row.eviction) in there)
    return drawn, f"Latencies and load over time are drawn from {lanes} of the lanes."
