"""``kvtheory ratio``: eviction policies against the offline optimum."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from kvtheory.commands.output import Progress, check_files, naming, print_json, write_csv
from kvtheory.commands.source import SourceOptions
from kvtheory.report.table import Column, count, decimal, duration, interval, table

if TYPE_CHECKING:
    from kvtheory.ratio.comparison import Comparison, Failure

# Times other than `seconds` are left out of --json and --csv: the rest is the same every time.
TIMES = ("compile_seconds", "optimum_seconds")


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """Run eviction policies on a request sequence and compare each with the offline optimum.

    Example: kvtheory ratio shared_prefix:groups=32,prompts=16 --eviction llru rlt
    --capacity 5% 10% --seeds 64
    """

    eviction: tuple[str, ...] = ("llru", "rlt")
    """Policies, with parameters after a colon: rlt:phase=query (kvtheory policies lists them)."""
    capacity: tuple[str, ...] = ("5%",)
    """Capacities in units (64), tokens (192000tok) or per cent of the distinct units (5%)."""
    seeds: int = 16
    """Seeds of a randomised policy, one run each; the others run once."""
    seed: int = 0
    """Seed of the policies' random streams."""
    optimum: Literal["belady", "lp"] = "belady"
    """Belady's rule, or the interval linear program."""
    solver: str | None = None
    """Solver of the linear program, as cvxpy names it; HiGHS by default."""
    time_limit: float | None = None
    """Seconds for the linear program; if they run out, optimum and ratio are intervals."""
    admission: Literal["forced", "bypass"] = "forced"
    """Must the optimum cache what it serves, as the policies must, or may it pass a query by?"""
    oversize: Literal["error", "truncate", "skip"] = "error"
    """A query longer than the cache: refuse it, serve its first units, or leave it out."""
    kind: Literal["strict", "asymptotic"] = "strict"
    """Ratio of the totals, or of the increase over the second half of the sequence."""
    warmup: int = 0
    """Queries that are served but not counted; the optimum of the others starts with the best
    cache for them."""
    confidence: float = 0.95
    """Level of the intervals over seeds."""
    interval: Literal["bootstrap", "normal"] = "bootstrap"
    """How the intervals are made."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write the rows as CSV to a file; to standard output, instead of the table, without one."""
    plot: Annotated[str | None, arg(metavar="FILE")] = None
    """Draw ratios and hit rates into a .png, .pdf or .svg file."""


def run(options: Options) -> int:
    """Print the comparison."""
    check_files(csv=options.csv, plot=options.plot)
    import jax

    from kvtheory.errors import bad, check_seed
    from kvtheory.ratio.comparison import compare

    check_seed(options.seed)
    if options.time_limit is not None and not options.time_limit > 0:
        raise bad("time_limit", options.time_limit, "must be a positive number of seconds")
    instance = options.instance()
    rows: list[Comparison] = []
    failures: list[Failure] = []
    optima = 2 if options.kind == "asymptotic" else 1
    try:
        pieces = len(options.capacity) * (optima + len(options.eviction))
        with Progress(pieces) as progress:
            compare(
                instance,
                options.eviction,
                options.capacity,
                seeds=options.seeds,
                key=jax.random.key(options.seed),
                admission=options.admission,
                oversize=options.oversize,
                method=options.optimum,
                solver=options.solver,
                time_limit=options.time_limit,
                kind=options.kind,
                confidence=options.confidence,
                interval=options.interval,
                warmup=options.warmup,
                failures=failures,
                finished=rows.append,
                progress=progress,
            )
    finally:  # an interrupt keeps what is finished
        if rows:
            _show(options, rows)
    if failures and not rows:
        raise failures[0].error
    _complain(failures)
    return 1 if failures else 0


def _show(options: Options, rows: "Sequence[Comparison]") -> None:
    told = [{k: v for k, v in row.as_dict().items() if k not in TIMES} for row in rows]
    if options.json:
        print_json(told)
    elif options.csv != "-":
        print(describe(rows))
    if options.csv is not None:
        write_csv(told, options.csv)
    if options.plot is not None:
        from kvtheory.report import plot

        with naming(options.plot):
            plot.save(plot.comparison(rows), options.plot)


def describe(rows: "Sequence[Comparison]") -> str:
    """The rows as text: what they share on top, then a table, then what is to be said of it."""
    first = rows[0]
    ceiling = 1 - first.units_distinct / first.units
    told = f"{count(first.units_distinct)} distinct; no cache hits more than {ceiling:.4f} of them"
    if first.warmup:
        told = f"after a warm-up of {count(first.warmup)}; the optimum starts with the best cache"
    lines = [
        f"{first.source}: {count(first.requests)} requests, {count(first.units)} units asked for, "
        f"{told}",
        f"optimum by {first.method.replace('_', ' ')}, {first.admission} admission; "
        f"{first.kind} ratio; intervals at {100 * first.confidence:g} % over the policy's seeds",
        "",
    ]
    if first.oversize != "error":
        lines[1] += f"; longer queries: {first.oversize}"
    columns = [
        Column("capacity", "units"),
        Column("policy", right=False),
        Column("hit rate", "units"),
        Column("hit rate", "tokens"),
        Column("hit rate", "requests"),
        Column("misses", "units"),
        Column("ratio"),
        Column("interval"),
        Column("bound"),
        Column("seeds"),
        Column("time", "s"),
    ]
    body = []
    for i, row in enumerate(rows):
        if i == 0 or row.capacity_units != rows[i - 1].capacity_units:
            body.append(_optimum_row(row))
        body.append(
            [
                count(row.capacity_units),
                row.policy,
                decimal(row.hit_rate_units),
                decimal(row.hit_rate_tokens),
                decimal(row.hit_rate_requests),
                count(row.misses),
                decimal(row.ratio),
                interval(row.ratio_low, row.ratio_high),
                _bound(row.bound),
                str(row.seeds),
                duration(row.seconds),
            ]
        )
    lines.append(table(columns, body))
    notes = dict.fromkeys(f"{row.policy}: {row.note}" for row in rows if row.note)
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)


def _optimum_row(row: "Comparison") -> list[str]:
    exact = row.optimum_low == row.optimum_high
    misses = count(row.optimum_low)
    if not exact and row.optimum_low == row.optimum_low:
        misses = f"{count(row.optimum_low)}–{count(row.optimum_high)}"
    rate = decimal(1 - row.optimum_high / row.units)
    return [
        count(row.capacity_units),
        "optimum",
        rate,
        "",
        "",
        misses,
        decimal(1.0) if exact else "",
        "",
        "",
        "",
        duration(row.optimum_seconds),
    ]


def _bound(value: float | None) -> str:
    return count(value) if value is not None and value % 1 == 0 else decimal(value, 2)


def _complain(failures: "Sequence[Failure]") -> None:
    for failure in failures:
        print(f"kvtheory: failed: {' '.join(str(failure).split())}", file=sys.stderr)
