"""``kvtheory optimum``: the best that routing and eviction could have done together."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from kvtheory.commands.cluster import ClusterOptions
from kvtheory.commands.output import Progress, check_files, naming, print_json
from kvtheory.errors import bad, check_seed
from kvtheory.report.table import Column, count, duration, table

if TYPE_CHECKING:
    from kvtheory.instance import Instance
    from kvtheory.offline.optimum import Optimum


@dataclass(frozen=True, kw_only=True)
class Options(ClusterOptions):
    """The least misses, cost or makespan of a cluster that knows the whole sequence, as an
    interval with a schedule that has been replayed.

    Example: kvtheory optimum shared_prefix:groups=10,prompts=5,block_size=16 --workers 2
    --capacity 600 --objective makespan --time-limit 60
    """

    objective: Literal["misses", "cost", "makespan"] = "makespan"
    """Missed units, the sum of all service times, or the largest sum of a worker."""
    admission: Literal["forced", "bypass"] = "forced"
    """Must what is served be cached, as the policies must, or may it be passed by?"""
    method: Literal["auto", "belady", "interval_lp", "mip", "lp", "pooled"] = "auto"
    """Integer program, its relaxation, bounds with local search, or Belady and the interval
    program for one worker; auto takes the strongest that fits the size."""
    solver: str | None = None
    """Solver of the program, as cvxpy names it; HiGHS by default."""
    time_limit: float = 60.0
    """Seconds in all; then the best interval so far is printed."""
    mip_gap: float = 0.0
    """Relative gap at which the integer program may stop."""
    seed: int = 0
    """Seed of the local search."""
    router: tuple[str, ...] = ()
    """Routers to simulate for more routings to begin from (seconds each)."""
    oversize: Literal["error", "truncate"] = "error"
    """A query longer than the cache: refuse it, or serve its first units."""
    schedule: Annotated[str | None, arg(metavar="FILE")] = None
    """Write the schedule (.npz) that reaches the upper bound."""
    json: bool = False
    """Print a JSON object instead of the table."""


def run(options: Options) -> int:
    """Print the interval."""
    check_files(schedule=options.schedule)
    if not 0 <= options.mip_gap < math.inf:
        raise bad("mip_gap", options.mip_gap, "must be finite and not negative")
    check_seed(options.seed)
    from kvtheory.offline.joint import joint_optimum

    instance = options.instance()
    cluster = options.cluster(instance)
    with Progress(1) as progress:

        def tell(seconds: float, lower: float, upper: float, what: str) -> None:
            most = duration(upper) if math.isfinite(upper) else "?"
            progress(f"{what}: {duration(lower)} to {most}")

        found = joint_optimum(
            instance,
            cluster,
            options.objective,
            admission=options.admission,
            method=options.method,
            oversize=options.oversize,
            solver=options.solver,
            time_limit=options.time_limit,
            mip_gap=options.mip_gap,
            seed=options.seed,
            routers=options.router,
            progress=tell,
        )
    if options.schedule is not None:
        with naming(options.schedule):
            found.schedule.save(options.schedule)
    if options.json:
        print_json(as_dict(found))
    else:
        print(describe(found, instance, options))
    return 0


def as_dict(found: "Optimum") -> dict[str, object]:
    """What is told of an optimum, its history included."""
    names = ("objective", "admission", "lower", "upper", "gap", "method", "why", "status")
    told: dict[str, object] = {name: getattr(found, name) for name in names}
    told["seconds"] = found.seconds
    told["trace"] = [
        {"seconds": seconds, "lower": lower, "upper": upper}
        for seconds, lower, upper in found.trace
    ]
    return told


def describe(found: "Optimum", instance: "Instance", options: Options) -> str:
    """The interval as text."""
    unit = "units" if found.objective == "misses" else "s"
    show = count if found.objective == "misses" else duration
    workers = f"{options.workers} workers" if options.workers > 1 else "1 worker"
    lines = [
        f"{instance.source or instance.name}: {count(instance.requests)} requests, "
        f"{count(instance.units_requested)} units asked for, on {workers} of {options.capacity}",
        f"{found.method.replace('_', ' ')} ({found.why}); {found.admission} admission; "
        "the schedule has been replayed by the driver",
        "",
        table(
            [
                Column("objective", right=False),
                Column("lower", unit),
                Column("upper", unit),
                Column("gap"),
                Column("status", right=False),
                Column("time", "s"),
            ],
            [
                [
                    found.objective,
                    show(found.lower),
                    show(found.upper),
                    f"{100 * found.gap:.2g} %",
                    found.status,
                    duration(found.seconds),
                ]
            ],
        ),
    ]
    if options.schedule is not None:
        lines.append(f"\nschedule written to {options.schedule}")
    return "\n".join(lines)
