"""``kvtheory simulate``: routers × eviction policies on a cluster."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from kvtheory.commands.cluster import ClusterOptions
from kvtheory.commands.output import Progress, check_files, naming, print_json, write_csv
from kvtheory.errors import InputError, bad
from kvtheory.parameters import parse_speeds
from kvtheory.report.table import Column, count, decimal, duration, table

if TYPE_CHECKING:
    from kvtheory.cross_table import CrossFailure, CrossRow, Estimate


@dataclass(frozen=True, kw_only=True)
class Options(ClusterOptions):
    """Route and serve a request sequence on several workers, every router with every eviction
    policy.

    Example: kvtheory simulate shared_prefix:groups=32,prompts=16,block_size=16
    --router cache_aware lbgr --eviction llru rlt --capacity 48000tok --rate 12
    """

    router: tuple[str, ...] = ("cache_aware", "lbgr", "exponential_potential")
    """Routers, with parameters after a colon: lbgr:target=latency (kvtheory routers lists
    them)."""
    eviction: tuple[str, ...] = ("llru", "rlt")
    """Eviction policies, likewise (kvtheory policies lists them)."""
    rate: float | None = None
    """Queries per second: Poisson arrivals, drawn anew for each seed, in place of the source's
    own."""
    speed_changes: str | None = None
    """Speeds that change, unknown to the routers: 170:0:0.25 (from second 170 on, worker 0 has
    speed 0.25), several with commas."""
    believed_speeds: str | None = None
    """The speeds that the routers believe in; the true ones by default."""
    view: Literal["routed", "oracle", "stale"] = "routed"
    """What a router sees of the caches: its own tree of what it sent where, the truth, or how
    everything was at the last refresh."""
    view_capacity: str | None = None
    """Capacity of a router's own tree of each worker, written as --capacity, which it is by
    default."""
    refresh: float | None = None
    """Seconds between two looks of --view stale."""
    seeds: int = 16
    """Seeds, one run each: of arrivals and policies with --rate, of randomised policies without."""
    seed: int = 0
    """Seed of the arrivals and of the policies' random streams."""
    oversize: Literal["error", "truncate", "skip"] = "error"
    """A query longer than the cache: refuse it, serve its first units, or leave it out."""
    confidence: float = 0.95
    """Level of the intervals over seeds."""
    optimum: bool = False
    """Set every makespan beside the least one of the same queries known ahead."""
    optimum_seconds: float = 30.0
    """Seconds for that optimum; then the best interval so far is used."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write the rows as CSV to a file; to standard output, instead of the table, without one."""
    plot: Annotated[str | None, arg(metavar="FILE")] = None
    """Draw latencies and the load over time into a .png, .pdf or .svg file."""


def run(options: Options) -> int:
    """Print the cross table."""
    check_files(csv=options.csv, plot=options.plot)
    believed = parse_speeds("believed_speeds", options.believed_speeds, options.workers)
    changes = _speed_changes(options.speed_changes)
    if not options.optimum_seconds > 0:
        seconds = options.optimum_seconds
        raise bad("optimum_seconds", seconds, "must be a positive number of seconds")
    if options.optimum and changes:
        raise bad("optimum", True, "is not known for speeds that change")
    if options.optimum and options.oversize == "skip":
        raise bad("oversize", "skip", "has no optimum; use --oversize truncate")
    import numpy as np

    from kvtheory.cross_table import cross_table
    from kvtheory.offline.joint import joint_optimum

    instance = options.instance()
    if options.rate is None and instance.arrival is None:
        raise InputError(f"{options.source} has no arrival times: pass --rate, queries per second")
    cluster = replace(options.cluster(instance), speed_changes=changes)
    rows: list[CrossRow] = []
    failures: list[CrossFailure] = []
    try:
        pieces = len(options.router) * len(options.eviction) + options.optimum
        with Progress(pieces) as progress:
            best = None
            if options.optimum:
                progress("optimum")
                best = joint_optimum(
                    instance,
                    options.cluster(instance),
                    oversize=options.oversize,  # type: ignore[arg-type]
                    time_limit=options.optimum_seconds,
                )
                progress("optimum", 1.0)
            cross_table(
                instance,
                cluster,
                options.router,
                options.eviction,
                rate=options.rate,
                seeds=options.seeds,
                seed=options.seed,
                view=options.view,
                view_capacity=options.view_capacity,
                refresh=options.refresh,
                believed=None if believed is None else replace(cluster, speed=np.array(believed)),
                oversize=options.oversize,
                confidence=options.confidence,
                optimum=best,
                failures=failures,
                finished=rows.append,
                progress=progress,
            )
    finally:  # an interrupt keeps what is finished
        if rows:
            _show(options, rows)
    if failures and not rows:
        raise failures[0].error
    for failure in failures:
        print(f"kvtheory: failed: {' '.join(str(failure).split())}", file=sys.stderr)
    return 1 if failures else 0


def _speed_changes(text: str | None) -> tuple[tuple[float, int, float], ...]:
    changes = []
    for part in text.split(",") if text else ():
        try:
            at, worker, speed = part.split(":")
            changes.append((float(at), int(worker), float(speed)))
        except ValueError:
            rule = "needs second:worker:speed, such as 170:0:0.25, and commas between several"
            raise bad("speed_changes", text, rule) from None
    return tuple(changes)


def _show(options: Options, rows: "Sequence[CrossRow]") -> None:
    told = [row.as_dict() for row in rows]
    if options.json:
        print_json(told)
    elif options.csv != "-":
        print(describe(rows))
    if options.csv is not None:
        write_csv([_flat(row) for row in told], options.csv)
    if options.plot is not None:
        from kvtheory.report import cluster_plot, plot

        with naming(options.plot):
            plot.save(cluster_plot.latency_and_load(rows), options.plot)


def _flat(row: dict[str, object]) -> dict[str, object]:
    """A list, which has one number per worker, becomes columns: load_0, load_1, …"""
    flat: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, list):
            flat |= {f"{name}_{i}": item for i, item in enumerate(value)}
        else:
            flat[name] = value
    return flat


def describe(rows: "Sequence[CrossRow]") -> str:
    """The rows as text: what they share on top, then a table; below a row its intervals."""
    first = rows[0]
    arrivals = "its own arrivals" if first.rate is None else f"{first.rate:g} queries/s (Poisson)"
    workers = f"{first.workers} workers" if first.workers > 1 else "1 worker"
    units = dict.fromkeys(map(count, first.capacity_units))
    cluster = f"{workers} of {', '.join(units)} units"
    if len(set(first.speed)) > 1 or first.speed[0] != 1:
        cluster += f", speeds {', '.join(f'{speed:g}' for speed in first.speed)}"
    lines = [
        f"{first.source}: {count(first.requests)} requests, {count(first.units)} units asked for, "
        f"{arrivals}",
        f"{cluster}; view {first.view}; seeds: {_random(rows)}; "
        f"± at {100 * first.confidence:g} % over them",
        "",
    ]
    if first.oversize != "error":
        lines[1] += f"; longer queries: {first.oversize}"
    if first.optimum_low is not None and first.optimum_high is not None:
        low, high = duration(first.optimum_low), duration(first.optimum_high)
        lines.insert(
            2, f"least makespan of these queries on these workers, known ahead: {low} to {high} s"
        )
    columns = [
        Column("router", right=False),
        Column("eviction", right=False),
        Column("hit rate", "units"),
        Column("believed", "units"),
        Column("makespan", "s"),
        *([Column("ratio to", "optimum")] if first.optimum_low is not None else []),
        Column("imbalance", "max/mean"),
        Column("throughput", "queries/s"),
        Column("latency", "P50 s"),
        Column("latency", "P95 s"),
        Column("latency", "P99 s"),
        Column("TTFT", "P50 s"),
        Column("TTFT", "P95 s"),
        Column("seeds"),
        Column("time", "s"),
    ]
    body = []
    for row in rows:
        rates = (row.hit_rate_units, row.believed_hit_rate)
        seconds = (row.latency_p50, row.latency_p95, row.latency_p99, row.ttft_p50, row.ttft_p95)
        estimates = (*rates, row.makespan, row.imbalance, row.throughput, *seconds)
        body.append(
            [
                row.router,
                row.eviction,
                *(decimal(rate.mean) for rate in rates),
                duration(row.makespan.mean),
                *_ratio(row),
                decimal(row.imbalance.mean, 3),
                duration(row.throughput.mean),
                *(duration(value.mean) for value in seconds),
                str(row.seeds),
                duration(row.seconds),
            ]
        )
        if row.seeds > 1:
            margins = [*map(_margin, estimates)]
            body.append(["", "", *margins[:3], *("" for _ in _ratio(row)), *margins[3:], "", ""])
    lines.append(table(columns, body))
    return "\n".join(lines)


def _random(rows: "Sequence[CrossRow]") -> str:
    names = dict.fromkeys(row.random for row in rows if row.random != "nothing")
    return ", ".join(names) or "nothing is random"


def _ratio(row: "CrossRow") -> list[str]:
    """The interval of the makespan's ratio to the optimum, if there is one."""
    if row.ratio_low is None or row.ratio_high is None:
        return []
    return [f"{decimal(row.ratio_low, 3)}…{decimal(row.ratio_high, 3)}"]


def _margin(value: "Estimate") -> str:
    """Half the interval, with two significant digits."""
    half = (value.high - value.low) / 2
    return "±0" if half < 1e-9 * abs(value.mean) else f"±{half:.2g}"  # rounding is no spread
