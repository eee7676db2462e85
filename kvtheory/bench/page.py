"""The measurements as a page of the documentation."""

from collections.abc import Mapping, Sequence

from kvtheory.bench.cases import CASES
from kvtheory.bench.measure import Measurement
from kvtheory.report.table import duration

INTRODUCTION = """\
# Benchmarks

Written by `kvtheory bench --markdown`, which measures the same on your machine. Every number is the
median of its repetitions with their extremes; compiling is apart. A ratio (x) says how many times
less time this library took, within one run of the program: ratios travel between machines, times do
not. A load above the number of cores says that others were using the machine: then look at ratios,
and at their extremes.

- libCacheSim runs classic paging over the unrolled units of all paths, read from its own binary
  format, with the best of three sizes of its hash table. "unrolled" is the same sequence in this
  library, every unit a query of its own: hits must be equal, except for random victims. "tree" is
  the same work as this library does it.
- kvcache-simulator's C++ runs leaf LRU on a trie, once for each capacity; both build the trie from
  block ids. Hits must be equal.
- The plain-Python twins are literal and slow on purpose: they are what the tests compare with."""


def page(machine: Mapping[str, str], groups: Sequence[tuple[str, Sequence[Measurement]]]) -> str:
    """The page in Markdown: the machine, then a table for each case that was run."""
    parts = [
        INTRODUCTION,
        "## Machine\n\n" + _table(("", ""), [[k, v] for k, v in machine.items()]),
    ]
    for case, measured in groups:
        told = (CASES[case].__doc__ or "").strip().splitlines()[0]
        head = ("measured", "median", "unit", "low", "high", "goal", "met", "compiling, s", "on")
        parts.append(f"## {case}\n\n{told}\n\n{_table(head, [cells(m) for m in measured])}")
    return "\n\n".join(parts) + "\n"


def cells(measurement: Measurement) -> list[str]:
    """A measurement as the texts of its row."""
    m = measurement
    return [
        m.name,
        number(m.value),
        m.unit,
        number(m.low),
        number(m.high),
        _goal(m.goal),
        {True: "yes", False: "NO", None: ""}[m.met],
        "" if m.compile_seconds is None else duration(m.compile_seconds),
        m.note,
    ]


def number(value: float | None) -> str:
    """Three significant digits, thousands in full.

    Examples
    --------
    >>> number(0.012345), number(1234567.8), number(None)
    ('0.0123', '1,234,568', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _goal(goal: str) -> str:
    sign, _, bound = goal.partition(" ")
    return f"{sign} {number(float(bound))}" if bound else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(c.replace('|', '∣') for c in line)} |" for line in lines)
