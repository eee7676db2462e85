"""``kvtheory sweep``: a grid of cells in many processes, kept as they finish."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from kvtheory.commands.output import Progress, check_files, write_csv
from kvtheory.errors import InputError, bad
from kvtheory.report.table import Column, count, decimal, duration, interval, table

if TYPE_CHECKING:
    from kvtheory.sweep.outcome import Report
    from kvtheory.sweep.plan import Plan

MOST_ROWS = 60  # of a table that is printed
MOST_JOBS = 10_000
MOST_FAILURES = 20  # told one by one; all are in the folder


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compute all combinations of a grid in many processes, and keep each as it finishes.

    The grid is a TOML file: [grid] with a value or a list for each of source, capacity, eviction,
    seeds, seed, oversize, admission and kind; with router, of workers, rate, view, speeds and the
    costs (as in kvtheory simulate) in place of the last two. Several [[grid]] are added up.

    Four cells, as grid.toml:

        [grid]
        source = "zipf:documents=200,requests=2000"
        capacity = ["5%", "20%"]
        eviction = ["llru", "rlt"]
        seeds = 4

    Example: kvtheory sweep grid.toml --out results
    """

    grid: Annotated[str, Positional, arg(metavar="GRID.toml")]
    """The grid."""
    out: Annotated[str | None, arg(metavar="DIR")] = None
    """Folder of the results: one Parquet file per finished cell (kvtheory.sweep.load reads
    them)."""
    jobs: int | None = None
    """Processes of this machine, 1 by default; of a scheduler, pieces of work at once."""
    scheduler: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """A dask scheduler, tcp://HOST:PORT, or local: one of its own with --jobs processes."""
    resume: bool = False
    """Go on in a folder with results: finished cells stay, failed ones are tried again."""
    dry_run: bool = False
    """Check the grid and estimate what it costs; nothing is written."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write a row for each seed of a cell as CSV to a file; to standard output, instead of the
    table, without one."""


def run(options: Options) -> int:
    """Run the sweep, or tell what it would cost."""
    if options.jobs is not None and not 1 <= options.jobs <= MOST_JOBS:
        raise bad("jobs", options.jobs, f"must lie between 1 and {MOST_JOBS:,}")
    if options.out is None and not options.dry_run:
        raise InputError("missing: --out DIR, a folder for the results (or --dry-run)")
    if options.out == "":
        raise bad("out", options.out, "needs the name of a folder")
    check_files(csv=options.csv)
    if not Path(options.grid).exists() or Path(options.grid).is_dir():
        raise bad("grid", options.grid, "is no file; name one in TOML (kvtheory sweep --help)")
    from kvtheory.sweep.grid import read_grid
    from kvtheory.sweep.plan import plan

    cells = read_grid(options.grid)
    with Progress(len({cell.source_of() for cell in cells})) as progress:
        planned = plan(cells, progress)
    if options.dry_run:
        return _dry_run(options, planned)
    return _run(options, planned)


def _run(options: Options, planned: "Plan") -> int:
    from kvtheory.sweep.folder import Folder
    from kvtheory.sweep.outcome import PoolLost
    from kvtheory.sweep.runner import run

    assert options.out is not None
    left = Folder(options.out).unfinished(planned)
    reports: list[Report] = []
    executor = "inline" if options.jobs in (None, 1) else "loky"
    if options.scheduler is not None:
        executor = "dask" if options.scheduler == "local" else options.scheduler
    try:
        with Progress(len(left)) as progress:
            run(
                planned,
                options.out,
                executor=executor,
                jobs=options.jobs,
                resume=options.resume,
                report=reports.append,
                progress=progress,
            )
    except PoolLost as error:
        print(f"kvtheory: error: {error}", file=sys.stderr)
        return 1
    finally:  # an interrupt, or a full disk, keeps what is finished
        if reports:
            _show(options, planned, reports[0])
    return 1 if reports[0].failures else 0


def _show(options: Options, planned: "Plan", report: "Report") -> None:
    for failure in report.failures[:MOST_FAILURES]:
        print(f"kvtheory: failed: {' '.join(str(failure).split())}", file=sys.stderr)
    if len(report.failures) > MOST_FAILURES:
        more = len(report.failures) - MOST_FAILURES
        print(f"kvtheory: failed: {more} more cells", file=sys.stderr)
    if report.failures:
        print(f"kvtheory: their tracebacks are in {report.folder / 'failures'}", file=sys.stderr)
    if report.outdated:
        print(
            f"kvtheory: {count(report.outdated)} finished cells of these parameters belong to "
            "another trace or version; they were to be computed anew",
            file=sys.stderr,
        )
    if (report.left or report.failures) and report.before + report.done:
        print(
            f"kvtheory: {count(report.before + report.done)} of {count(report.planned)} cells are "
            f"kept in {report.folder}; go on with --resume",
            file=sys.stderr,
        )
    if not report.before + report.done:
        return
    from kvtheory.sweep.table import load

    kinds = dict.fromkeys(p.task.table for p in planned.cells)
    tables = []
    for kind in kinds:
        try:
            tables.append(load(report.folder, kind, run=report.run))
        except InputError:  # none of this kind is finished
            continue
    if options.csv is not None:
        rows = [row for some in tables for row in some.to_pylist()]
        names = dict.fromkeys(name for row in rows for name in row)
        write_csv([{name: row.get(name) for name in names} for row in rows], options.csv)
    if options.csv != "-":
        print(describe(report, tables))


def describe(report: "Report", tables: Sequence[Any]) -> str:
    """What was done, then means over the seeds, if these are few."""
    from kvtheory.sweep.summary import summary

    head = (
        f"{count(report.planned)} cells: {count(report.before)} finished before, "
        f"{count(report.done)} now in {duration(report.seconds)} s, "
        f"{count(len(report.failures))} failed"
    )
    if report.left:
        head += f", {count(report.left)} left"
    lines = [head, f"results in {report.folder}, run {report.run}"]
    for some in tables:
        rows = summary(some)
        if len(rows) > MOST_ROWS:
            lines.append(f"{count(len(rows))} rows of means: kvtheory.sweep.summary has them")
            continue
        lines += ["", _clusters(rows) if "router" in rows[0] else _caches(rows)]
    return "\n".join(lines)


def _caches(rows: Sequence[dict[str, Any]]) -> str:
    columns = [
        Column("source", right=False),
        Column("capacity", "units"),
        Column("eviction", right=False),
        Column("hit rate", "units"),
        Column("misses", "units"),
        Column("optimum", "units"),
        Column("ratio"),
        Column("interval"),
        Column("lanes"),
    ]
    body = [
        [
            row["source"],
            count(row["capacity_units"]),
            row["eviction"],
            decimal(row["hit_rate_units"]),
            count(row["counted_misses"]),
            count(row["optimum_high"]),
            decimal(row["ratio"]),
            interval(row["ratio_low"], row["ratio_high"]),
            count(row["lanes"]),
        ]
        for row in rows
    ]
    return table(columns, body)


def _clusters(rows: Sequence[dict[str, Any]]) -> str:
    columns = [
        Column("source", right=False),
        Column("workers"),
        Column("capacity", "units"),
        Column("rate", "queries/s"),
        Column("router", right=False),
        Column("eviction", right=False),
        Column("hit rate", "units"),
        Column("makespan", "s"),
        Column("interval"),
        Column("latency", "P50 s"),
        Column("latency", "P95 s"),
        Column("lanes"),
    ]
    body = [
        [
            row["source"],
            count(row["workers"]),
            count(row["capacity_units"]),
            count(row["rate"]),
            row["router"],
            row["eviction"],
            decimal(row["hit_rate_units"]),
            duration(row["makespan"]),
            interval(row["makespan_low"], row["makespan_high"], 3),
            duration(row["latency_p50"]),
            duration(row["latency_p95"]),
            count(row["lanes"]),
        ]
        for row in rows
    ]
    return table(columns, body)


def _dry_run(options: Options, planned: "Plan") -> int:
    from kvtheory.sweep.estimate import estimate
    from kvtheory.sweep.folder import unfinished

    left = planned.order()
    if options.out is not None and Path(options.out).is_dir():
        left = unfinished(planned, Path(options.out))
    told = (
        f"{count(len(planned.cells))} cells, {count(len(left))} of them to do; "
        f"{count(planned.lanes)} lanes, {count(len(planned.optima))} optima, "
        f"{count(planned.programs)} programs to compile for the cells"
    )
    print(told)
    for source, size in planned.sizes.items():
        print(
            f"  {source.text}: {count(size.requests)} requests, {count(size.units)} units asked "
            f"for, {count(size.units_distinct)} distinct"
        )
    if not left:
        return 0
    with Progress(len(planned.cells)) as progress:
        cost = estimate(planned, left, progress)
    jobs = options.jobs or 1
    processes = f"{jobs} processes" if jobs > 1 else "1 process"
    print(
        f"about {duration(cost.seconds(jobs))} s with {processes}: {duration(cost.running)} s of "
        f"running, {duration(cost.compiling)} s of compiling, {duration(cost.optima)} s for the "
        f"optima; {cost.bytes / 2**20:,.0f} MiB a process\n"
        f"an estimate from short samples of {cost.sampled} of {cost.pairs} policies or pairs"
    )
    return 0
