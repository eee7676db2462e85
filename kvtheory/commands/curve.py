"""``kvtheory curve``: hit rates against capacity."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from kvtheory.commands.output import Progress, check_files, naming, print_json, write_csv
from kvtheory.commands.source import SourceOptions
from kvtheory.report.table import Column, count, decimal, duration, table

if TYPE_CHECKING:
    from kvtheory.curve.points import CurvePoint


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """Hit rates against capacity (the miss-ratio curve), beside the optimum and the ceiling.

    Leaf LRU takes one pass for all capacities, the optimum a cheap pass each; other policies are
    run at each capacity.

    Example: kvtheory curve shared_prefix:groups=32,prompts=16 --eviction llru rlt --optimum
    --points 16
    """

    eviction: tuple[str, ...] = ("llru",)
    """Policies, with parameters after a colon: rlt:phase=query (kvtheory policies lists them)."""
    points: int = 64
    """How many capacities, spaced evenly in logarithm from the longest query to all units."""
    capacity: tuple[str, ...] = ()
    """Capacities of your own instead: units (64), tokens (192000tok) or per cent of the distinct
    units (5%)."""
    optimum: bool = False
    """Add the optimum, with forced admission."""
    seeds: int = 16
    """Seeds of a randomised policy, one run each; the others run once."""
    seed: int = 0
    """Seed of the policies' random streams."""
    oversize: Literal["error", "truncate", "skip"] = "error"
    """A query longer than the cache: refuse it, serve its first units, or leave it out."""
    confidence: float = 0.95
    """Level of the intervals over seeds."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write the points as CSV to a file; to standard output, instead of the table, without one."""
    plot: Annotated[str | None, arg(metavar="FILE")] = None
    """Draw the curves into a .png, .pdf or .svg file."""


def run(options: Options) -> int:
    """Print the curves."""
    check_files(csv=options.csv, plot=options.plot)
    import jax

    from kvtheory.curve.points import curve
    from kvtheory.errors import check_seed

    check_seed(options.seed)
    instance = options.instance()
    points: list[CurvePoint] = []
    try:
        with Progress(len(options.eviction) + options.optimum) as progress:
            curve(
                instance,
                options.eviction,
                options.capacity or options.points,
                optimum=options.optimum,
                seeds=options.seeds,
                key=jax.random.key(options.seed),
                oversize=options.oversize,
                confidence=options.confidence,
                finished=points.extend,
                progress=progress,
            )
    finally:  # an interrupt keeps what is finished
        if points:
            _show(options, points)
    return 0


def _show(options: Options, points: "Sequence[CurvePoint]") -> None:
    # times are left out: the rest is the same every time
    told = [{k: v for k, v in p.as_dict().items() if k != "seconds"} for p in points]
    if options.json:
        print_json(told)
    elif options.csv != "-":
        print(describe(points))
    if options.csv is not None:
        write_csv(told, options.csv)
    if options.plot is not None:
        from kvtheory.report.curve_plot import hit_rate_curves
        from kvtheory.report.plot import blank, save

        figure = blank(7.0, 4.6)
        hit_rate_curves(points, figure.subplots())
        with naming(options.plot):
            save(figure, options.plot)


def describe(points: "Sequence[CurvePoint]") -> str:
    """The curves as text: a row per capacity, a column per policy, and how each was computed."""
    first = points[0]
    policies = list(dict.fromkeys(point.policy for point in points))
    ceiling = 1 - first.units_distinct / first.units
    lines = [
        f"{first.source}: {count(first.requests)} requests, {count(first.units)} units asked for, "
        f"{count(first.units_distinct)} distinct; no cache hits more than {ceiling:.4f} of them",
        "",
    ]
    if first.oversize != "error":
        lines.insert(1, f"queries longer than the capacity: {first.oversize}")
    at: dict[int, dict[str, CurvePoint]] = {}
    for point in points:
        at.setdefault(point.capacity_units, {})[point.policy] = point
    columns = [Column("capacity", "units"), Column("capacity", "%")]
    columns += [Column(policy, "hit rate") for policy in policies]
    body = [
        [
            count(capacity),
            f"{100 * capacity / first.units_distinct:.3g}",
            *(decimal(row[p].hit_rate_units if p in row else None) for p in policies),
        ]
        for capacity, row in sorted(at.items())
    ]
    lines += [table(columns, body), ""]
    for policy in policies:
        mine = [point for point in points if point.policy == policy]
        methods = " and ".join(dict.fromkeys(point.method for point in mine))
        seeds = f", {mine[0].seeds} seeds" if mine[0].seeds > 1 else ""
        seconds = duration(sum(point.seconds for point in mine))
        lines.append(f"{policy}: by {methods}{seeds}, {seconds} s with compiling")
    return "\n".join(lines)
