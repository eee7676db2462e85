"""``kvtheory report``: one page of a comparison or a sweep."""

import os
import shlex
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from kvtheory.commands.output import Progress, check_files
from kvtheory.commands.source import SourceOptions
from kvtheory.errors import InputError, bad

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvtheory.cross_table import CrossRow
    from kvtheory.instance import Instance
    from kvtheory.report.data import ReportData, SourceReport

ROUTERS = ("cache_aware", "lbgr")  # where none is named and the arrivals are known


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """Write one self-contained HTML page: ratios and hit rates with the optimum and the ceiling,
    what happens inside a cache, latencies and load on several workers, the worst seeds, and how to
    get all of it again.

    Of a folder of kvtheory sweep, finished or not, it shows what is there; then only --out,
    --confidence, --single, --title, --date and --plot apply.

    Example: kvtheory report shared_prefix:groups=32,prompts=16 --eviction llru rlt
    --capacity 2% 5% 20% -o report.html
    """

    source: Annotated[str, Positional, arg(metavar="SOURCE|DIR")]
    """A trace file, a generator with parameters (kvtheory generators lists them), or a folder of
    kvtheory sweep."""
    out: Annotated[str, arg(aliases=["-o"], metavar="FILE.html")] = "report.html"
    """The page."""
    confidence: float = 0.95
    """Level of the intervals over seeds."""
    single: bool = False
    """One cache only: no workers, and of a sweep nothing that needs its sources again."""
    title: str | None = None
    """Title of the page."""
    date: str = ""
    """A date to print on the page; without one, equal input gives equal bytes."""
    plot: Annotated[str | None, arg(metavar="FILE")] = None
    """Draw the figures of the page, those of the first source, into a .png, .pdf or .svg file
    too."""
    eviction: tuple[str, ...] = ("llru", "rlt")
    """Policies, with parameters after a colon: rlt:phase=query (kvtheory policies lists them)."""
    capacity: tuple[str, ...] = ("2%", "5%", "10%", "20%")
    """Capacities in units (64), tokens (192000tok) or per cent of the distinct units (5%)."""
    detail: str | None = None
    """Capacity at which the cache is looked into; by default the middle one of --capacity."""
    seeds: int = 16
    """Seeds of a randomised policy, one run each; the others run once."""
    seed: int = 0
    """Seed of the policies' random streams, and of the arrivals."""
    admission: Literal["forced", "bypass"] = "forced"
    """Must the optimum cache what it serves, as the policies must, or may it pass a query by?"""
    oversize: Literal["error", "truncate", "skip"] = "error"
    """A query longer than the cache: refuse it, serve its first units, or leave it out."""
    router: tuple[str, ...] = ()
    """Routers, with parameters (kvtheory routers lists them); cache_aware and lbgr by default if
    there are arrival times."""
    workers: int = 4
    """Number of workers."""
    worker_capacity: str | None = None
    """Capacity of each worker, written as --capacity; by default its first."""
    rate: float | None = None
    """Queries per second: Poisson arrivals, drawn anew for each seed, in place of the source's
    own."""
    speeds: str | None = None
    """Speed of each worker: 1,1,0.5,2; 1 by default."""
    alpha_miss: float = 0.16
    """Milliseconds per missed token."""
    alpha_cached: float = 0.0
    """Milliseconds per cached token."""
    alpha_out: float = 0.0
    """Milliseconds per output token."""


# what a sweep does not take, because its cells say it
_OF_SOURCES = ("eviction", "capacity", "detail", "seeds", "seed", "admission", "oversize")
_OF_CLUSTERS = ("router", "workers", "worker_capacity", "rate", "speeds")
_COSTS = ("alpha_miss", "alpha_cached", "alpha_out")
_OF_FILES = ("format", "ids", "block_size")


def run(options: Options) -> int:
    """Write the page."""
    _check_out(options.out)
    _check_installed()
    check_files(out=options.out, plot=options.plot)
    failures: list[str] = []
    sweep = os.path.isdir(options.source)
    data = _of_sweep(options) if sweep else _of_source(options, failures)
    from kvtheory.atomic import atomic
    from kvtheory.report.page import page

    text = page(data)
    with atomic(options.out) as file:
        file.write(text)
    if options.plot is not None:
        from kvtheory.report.figures import all_figures, sheet
        from kvtheory.report.plot import save

        save(sheet(all_figures(data.sources[0], "s0")), options.plot)
    size = len(text.encode())
    print(f"{options.out}: {size / 1000:,.0f} kB, open it in a browser")
    for failure in failures:
        print(f"kvtheory: failed: {' '.join(failure.split())}", file=sys.stderr)
    return 1 if failures else 0


def _check_out(out: str) -> None:
    path = Path(out)
    if path.is_dir():
        raise bad("out", out, "is a folder; name a file, such as report.html")
    if not path.parent.is_dir():
        raise bad("out", out, f"the folder {str(path.parent)!r} does not exist")


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise InputError(f"reports need {' and '.join(missing)}: pip install 'kvtheory[report]'")


def _of_sweep(options: Options) -> "ReportData":
    given = [
        f"--{f.name.replace('_', '-')}"
        for f in fields(Options)
        if f.name in (*_OF_SOURCES, *_OF_CLUSTERS, *_COSTS, *_OF_FILES)
        and getattr(options, f.name) != f.default
    ]
    if given:
        raise InputError(
            f"{', '.join(given)}: {options.source} is a folder of a sweep, whose grid settled it; "
            "leave it out"
        )
    from kvtheory.report.data import ReportData
    from kvtheory.report.from_sweep import read_sweep

    with Progress(2) as progress:
        told = read_sweep(
            options.source,
            confidence=options.confidence,
            look=not options.single,
            progress=progress,
        )
    notes = []
    if told.finished < told.planned:
        failed = f", {told.failed} failed" if told.failed else ""
        notes.append(
            f"{told.finished} of {told.planned} cells are finished{failed}; "
            "kvtheory sweep --resume goes on."
        )
    name = Path(options.source).resolve().name
    return ReportData(
        title=options.title or f"Sweep {name}",
        sources=told.sources,
        command=_command(options),
        parameters={"cells": f"{told.finished} of {told.planned}", **told.parameters},
        versions=told.versions,
        bibtex=_bibtex(told.sources),
        date=options.date,
        notes=tuple(notes),
    )


def _of_source(options: Options, failures: list[str]) -> "ReportData":
    from dataclasses import replace

    from kvtheory.report.data import ReportData
    from kvtheory.report.from_sweep import call_of
    from kvtheory.report.measure import Question, measure
    from kvtheory.sweep.source import Source

    question = Question(
        policies=options.eviction,
        capacities=options.capacity,
        detail=options.detail,
        seeds=options.seeds,
        seed=options.seed,
        admission=options.admission,
        oversize=options.oversize,
        confidence=options.confidence,
    )
    _check_routers(options)
    instance = options.instance()
    if instance.end is not None or instance.warm is not None:
        raise InputError(
            f"{options.source} has warm caches or output units, for which there is no optimum of "
            "one cache to compare with: kvtheory simulate runs it"
        )
    routers = _routers(options, instance)
    optima = len({*options.capacity, *([options.detail] if options.detail else [])})
    pieces = optima + len(options.eviction) + 2 + len(routers) * len(options.eviction)
    ids = None if options.ids == "auto" else options.ids
    with Progress(pieces) as progress:
        report = measure(
            instance,
            question,
            name=_short(options.source),
            call=call_of(Source(options.source, options.format, ids, options.block_size)),
            failures=failures,
            progress=progress,
        )
        if failures and not report.rows:
            raise InputError("; ".join(failures))
        if routers:
            rows = _cross_table(options, instance, routers, failures, progress)
            report = replace(report, cluster=rows, cluster_curves=rows)
        elif not options.single:
            why = "The source has no arrival times, so there are no latencies and no load over time"
            report = replace(report, notes=(*report.notes, f"{why}: --rate draws some."))
    if failures:
        report = replace(report, notes=(*report.notes, *(f"Failed: {f}" for f in failures)))
    from kvtheory.sweep.identity import versions

    return ReportData(
        title=options.title or f"KV caching on {_short(options.source)}",
        sources=(report,),
        command=_command(options),
        parameters=_parameters(options, routers),
        versions={k: v for k, v in versions().items() if k != "code"} | {"python": _python()},
        bibtex=_bibtex([report]),
        date=options.date,
    )


def _check_routers(options: Options) -> None:
    from kvtheory.routing import router

    for name in options.router:
        router(name)
    if options.single and (options.router or options.rate is not None):
        raise bad("single", True, "goes without --router and --rate, which are for several workers")


def _routers(options: Options, instance: "Instance") -> tuple[str, ...]:
    if options.single:
        return ()
    timed = options.rate is not None or instance.arrival is not None
    if options.router and not timed:
        raise InputError(f"{options.source} has no arrival times: pass --rate, queries per second")
    return options.router or (ROUTERS if timed else ())


def _cross_table(
    options: Options,
    instance: "Instance",
    routers: tuple[str, ...],
    failures: list[str],
    progress: Progress,
) -> "tuple[CrossRow, ...]":
    from kvtheory.commands.cluster import ClusterOptions
    from kvtheory.cross_table import CrossFailure, cross_table

    cluster = ClusterOptions(
        source=options.source,
        workers=options.workers,
        capacity=options.worker_capacity or options.capacity[0],
        speeds=options.speeds,
        alpha_miss=options.alpha_miss,
        alpha_cached=options.alpha_cached,
        alpha_out=options.alpha_out,
    ).cluster(instance)
    failed: list[CrossFailure] = []
    rows = cross_table(
        instance,
        cluster,
        routers,
        options.eviction,
        rate=options.rate,
        seeds=options.seeds,
        seed=options.seed,
        oversize=options.oversize,
        confidence=options.confidence,
        failures=failed,
        progress=progress,
    )
    failures += map(str, failed)
    return tuple(rows)


def _parameters(options: Options, routers: tuple[str, ...]) -> dict[str, str]:
    names = ["source", *_OF_SOURCES, "confidence"]
    if routers:
        names += [*_OF_CLUSTERS, *_COSTS]
    told = {}
    for name in (*names, *(n for n in _OF_FILES if getattr(options, n) not in ("auto", None))):
        value = routers if name == "router" else getattr(options, name)
        if name == "worker_capacity":
            value = value or options.capacity[0]
        if value is not None:
            told[name.replace("_", " ")] = (
                ", ".join(value) if isinstance(value, tuple) else str(value)
            )
    return told


def _command(options: Options) -> str:
    """The command line with what differs from its defaults."""
    words = ["kvtheory", "report", options.source]
    for f in fields(options):
        value = getattr(options, f.name)
        if f.name == "source" or value == f.default:
            continue
        words.append(f"--{f.name.replace('_', '-')}")
        if value is not True:
            words += map(str, value) if isinstance(value, tuple) else [str(value)]
    return shlex.join(words)


def _bibtex(reports: "Iterable[SourceReport]") -> str:
    from kvtheory.cite import WORKS, bibtex

    names: dict[str, None] = {}
    for report in reports:
        names |= dict.fromkeys((report.name, *report.methods))
        names |= dict.fromkeys(row.policy for row in report.rows)
        names |= dict.fromkeys(row.method for row in report.rows)
        for row in report.cluster:
            names |= {row.router: None, row.eviction: None}
    return bibtex([name for name in names if name.partition(":")[0] in WORKS])


def _short(source: str) -> str:
    name = os.path.basename(source) if os.path.isfile(source) else source
    return name if len(name) <= 80 else f"{name[:77]}…"


def _python() -> str:
    import platform

    return platform.python_version()
