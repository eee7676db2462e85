"""``kvtheory simulate``: routers × eviction policies on a cluster."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from kvtheory.commands.output import Progress, print_json, write_csv
from kvtheory.commands.source import SourceOptions
from kvtheory.errors import InputError, bad
from kvtheory.report.table import Column, count, decimal, duration, table

if TYPE_CHECKING:
    from kvtheory.cluster import Cluster
    from kvtheory.cross_table import CrossFailure, CrossRow, Estimate
    from kvtheory.instance import Instance


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """Route and serve a request sequence on several workers, every router with every eviction
    policy.

    Example: kvtheory simulate shared_prefix:groups=32,prompts=16,block_size=16
    --router cache_aware lbgr --eviction llru rlt --capacity 48000tok --rate 12
    """

    workers: int = 4
    """Number of workers."""
    capacity: str = "5%"
    """Capacity of each worker: units (64), tokens (192000tok) or per cent of the distinct
    units (5%)."""
    router: tuple[str, ...] = ("cache_aware", "lbgr", "exponential_potential")
    """Routers, with parameters after a colon: lbgr:target=latency (kvtheory routers lists
    them)."""
    eviction: tuple[str, ...] = ("llru", "rlt")
    """Eviction policies, likewise (kvtheory policies lists them)."""
    rate: float | None = None
    """Queries per second: Poisson arrivals, drawn anew for each seed, in place of the source's
    own."""
    alpha_miss: float = 0.16
    """Milliseconds per missed token."""
    alpha_cached: float = 0.0
    """Milliseconds per cached token."""
    alpha_out: float = 0.0
    """Milliseconds per output token."""
    speeds: str | None = None
    """Speed of each worker: 1,1,0.5,2 (every service time is divided by it); 1 by default."""
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
    """Lanes: of arrivals and policies with --rate, of randomised policies without."""
    seed: int = 0
    """Seed of the arrivals and of the policies' random streams."""
    oversize: Literal["error", "truncate", "skip"] = "error"
    """A query longer than the cache: refuse it, serve its first units, or leave it out."""
    confidence: float = 0.95
    """Level of the intervals over seeds."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write the rows as CSV to a file; to standard output, instead of the table, without one."""
    plot: Annotated[str | None, arg(metavar="FILE")] = None
    """Draw latencies and the load over time into a .png, .pdf or .svg file."""


def run(options: Options) -> int:
    """Print the cross table."""
    if options.plot is not None:
        from kvtheory.report.plot import check_path

        check_path(options.plot)
    if options.workers < 1:
        raise bad("workers", options.workers, "must be at least 1")
    speeds = _speeds("speeds", options.speeds, options.workers)
    believed = _speeds("believed_speeds", options.believed_speeds, options.workers)
    changes = _speed_changes(options.speed_changes)
    from kvtheory.cross_table import cross_table

    instance = options.instance()
    if options.rate is None and instance.arrival is None:
        raise InputError(f"{options.source} has no arrival times: pass --rate, queries per second")
    cluster = _cluster(options, instance, speeds, changes)
    rows: list[CrossRow] = []
    failures: list[CrossFailure] = []
    try:
        with Progress(len(options.router) * len(options.eviction)) as progress:
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
                believed=None if believed is None else _cluster(options, instance, believed),
                oversize=options.oversize,
                confidence=options.confidence,
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


def _speeds(name: str, text: str | None, workers: int) -> list[float] | None:
    if text is None:
        return None
    rule = f"needs a positive number for each of {workers} workers: 1,1,0.5,2"
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise bad(name, text, rule) from None
    if len(values) != workers or not all(0 < value < float("inf") for value in values):
        raise bad(name, text, rule)
    return values


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


def _cluster(
    options: Options,
    instance: "Instance",
    speeds: list[float] | None,
    changes: tuple[tuple[float, int, float], ...] = (),
) -> "Cluster":
    import numpy as np

    from kvtheory.cluster import Cluster, capacity_units

    for name in ("alpha_miss", "alpha_cached", "alpha_out"):
        if not 0 <= getattr(options, name) < float("inf"):
            raise bad(name, getattr(options, name), "must be finite and not negative")
    workers, size = options.workers, instance.block_size
    return Cluster(
        capacity=np.full(workers, capacity_units(options.capacity, instance)),
        block_size=size,
        alpha_miss=np.full(workers, options.alpha_miss * size / 1000),
        alpha_cached=np.full(workers, options.alpha_cached * size / 1000),
        alpha_out=np.full(workers, options.alpha_out / 1000),
        speed=np.array(speeds if speeds is not None else [1.0] * workers),
        speed_changes=changes,
    )


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
    columns = [
        Column("router", right=False),
        Column("eviction", right=False),
        Column("hit rate", "units"),
        Column("believed", "units"),
        Column("makespan", "s"),
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
                decimal(row.imbalance.mean, 3),
                duration(row.throughput.mean),
                *(duration(value.mean) for value in seconds),
                str(row.seeds),
                duration(row.seconds),
            ]
        )
        if row.seeds > 1:
            body.append(["", "", *map(_margin, estimates), "", ""])
    lines.append(table(columns, body))
    return "\n".join(lines)


def _random(rows: "Sequence[CrossRow]") -> str:
    names = dict.fromkeys(row.random for row in rows if row.random != "nothing")
    return ", ".join(names) or "nothing is random"


def _margin(value: "Estimate") -> str:
    """Half the interval, with two significant digits."""
    half = (value.high - value.low) / 2
    return "±0" if half < 1e-9 * abs(value.mean) else f"±{half:.2g}"  # rounding is no spread
