"""``kvtheory bench``: the speed on this machine."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from kvtheory.commands.output import Progress, print_json, write_csv
from kvtheory.report.table import Column, duration, table

if TYPE_CHECKING:
    from kvtheory.bench import Measurement


@dataclass(frozen=True)
class Options:
    """Measure the speed on this machine and print it beside the goals.

    Cases: leaf_lru, rlt, by_key, lanes, clusters, building, optima, million.

    Example: kvtheory bench --only leaf_lru rlt --repeats 9
    """

    only: tuple[str, ...] = ()
    """Cases to run; all by default."""
    repeats: int = 5
    """Runs of each measurement; the median is shown."""
    cores: int = 1
    """Cores to use."""
    trace: Annotated[str | None, arg(metavar="FILE")] = None
    """The Mooncake conversation trace. By default it is looked for in the folder that the variable
    KVTHEORY_TRACES names, or in ../shared/traces; without it some cases are left out."""
    json: bool = False
    """Print a JSON object with the machine and the measurements."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write the measurements as CSV to a file, or to standard output."""


def run(options: Options) -> int:
    """Print the measurements."""
    from kvtheory.bench.hardware import use_cores
    from kvtheory.errors import bad

    if options.repeats < 1:
        raise bad("repeats", options.repeats, "must be at least 1")
    if options.cores < 1:
        raise bad("cores", options.cores, "must be at least 1")
    if options.trace is not None and not Path(options.trace).is_file():
        raise bad("trace", options.trace, "is not a file")
    use_cores(options.cores)
    from kvtheory.bench import cases
    from kvtheory.bench.hardware import machine

    trace = Path(options.trace) if options.trace else cases.default_trace()
    setting = cases.Setting(options.repeats, trace)
    names = options.only or tuple(cases.CASES)
    measured: list[Measurement] = []
    try:
        with Progress(len(names)) as progress:
            for name in names:
                progress(name)
                measured += cases.run([name], setting)
                progress(name, 1)
    finally:  # an interrupt keeps what is finished
        rows = [m.as_dict() for m in measured]
        if options.json:
            print_json({"machine": machine(), "measurements": rows})
        elif options.csv != "-":
            print("\n".join(f"{key:10} {value}" for key, value in machine().items()))
            print("\n" + describe(measured))
        if options.csv is not None:
            write_csv(rows, options.csv)
    if trace is None:
        print("kvtheory: no conversation trace: some cases were left out", file=sys.stderr)
    return 0


def describe(measured: "Sequence[Measurement]") -> str:
    """The measurements as a table."""
    columns = [
        Column("measured", right=False),
        Column("median"),
        Column("unit", right=False),
        Column("low"),
        Column("high"),
        Column("goal"),
        Column("met", right=False),
        Column("compiling", "s"),
        Column("on", right=False),
    ]
    words = {True: "yes", False: "NO", None: ""}
    body = [
        [
            m.name,
            _number(m.value),
            m.unit,
            _number(m.low),
            _number(m.high),
            _goal(m.goal),
            words[m.met],
            "" if m.compile_seconds is None else duration(m.compile_seconds),
            m.note,
        ]
        for m in measured
    ]
    return table(columns, body)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _goal(goal: str) -> str:
    sign, _, bound = goal.partition(" ")
    return f"{sign} {_number(float(bound))}" if bound else ""
