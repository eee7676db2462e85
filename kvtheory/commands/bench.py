"""``kvtheory bench``: the speed on this machine."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from kvtheory.commands.output import Progress, check_files, naming, print_json, write_csv
from kvtheory.report.table import Column, table

if TYPE_CHECKING:
    from kvtheory.bench import Measurement


@dataclass(frozen=True)
class Options:
    """Measure the speed on this machine and print it beside the goals.

    Cases: leaf_lru, curve, rivals, twins, rlt, by_key, lanes, width, steps, clusters, building,
    optima, million.

    Example: kvtheory bench --only rlt --repeats 3
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
    history: Annotated[str | None, arg(metavar="FILE")] = None
    """Add machine, date, versions and measurements to this file, a JSON object a line."""
    markdown: Annotated[str | None, arg(metavar="FILE")] = None
    """Write the page of the documentation into this file."""


def run(options: Options) -> int:
    """Print the measurements."""
    from kvtheory.bench.hardware import use_cores
    from kvtheory.errors import bad, unknown

    if options.repeats < 1:
        raise bad("repeats", options.repeats, "must be at least 1")
    if options.cores < 1:
        raise bad("cores", options.cores, "must be at least 1")
    if options.trace is not None and not Path(options.trace).is_file():
        raise bad("trace", options.trace, "is not a file")
    check_files(csv=options.csv, history=options.history, markdown=options.markdown)
    use_cores(options.cores)
    from kvtheory.bench import cases
    from kvtheory.bench.hardware import machine

    trace = Path(options.trace) if options.trace else cases.default_trace()
    setting = cases.Setting(options.repeats, trace)
    names = options.only or tuple(cases.CASES)
    for name in names:
        if name not in cases.CASES:
            raise unknown("case", name, cases.CASES)
    told = machine()
    groups: list[tuple[str, list[Measurement]]] = []
    try:
        with Progress(len(names)) as progress:
            for name in names:
                progress(name)
                groups.append((name, []))
                for measured in cases.run([name], setting):
                    groups[-1][1].append(measured)
                progress(name, 1)
    finally:  # an interrupt keeps what is finished
        _show(options, told, groups)
    if trace is None:
        print("kvtheory: no conversation trace: some cases were left out", file=sys.stderr)
    return 0


def _show(
    options: Options, machine: dict[str, str], groups: "Sequence[tuple[str, list[Measurement]]]"
) -> None:
    measured = [m for _, some in groups for m in some]
    rows = [m.as_dict() for m in measured]
    if options.json:
        print_json({"machine": machine, "measurements": rows})
    elif options.csv != "-":
        print("\n".join(f"{key:17} {value}" for key, value in machine.items()))
        print("\n" + describe(measured))
    if options.csv is not None:
        write_csv(rows, options.csv)
    if options.history is not None:
        from kvtheory.bench import history

        with naming(options.history):
            history.append(options.history, machine, measured)
    if options.markdown is not None:
        from kvtheory.atomic import atomic
        from kvtheory.bench.page import page

        with naming(options.markdown), atomic(options.markdown) as file:
            file.write(page(machine, groups))


def describe(measured: "Sequence[Measurement]") -> str:
    """The measurements as a table."""
    from kvtheory.bench.page import cells

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
    return table(columns, [cells(m) for m in measured])
