"""Aligned text tables and the numbers in them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A column: its title, the unit written below it, and whether it is aligned to the right."""

    title: str
    unit: str = ""
    right: bool = True


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """The rows below the titles, a line of units between if any column has one.

    Examples
    --------
    >>> print(table([Column("policy", right=False), Column("misses", "units")],
    ...             [["llru", "1,024"], ["rlt", "96"]]))
    policy  misses
             units
    ──────  ──────
    llru     1,024
    rlt         96
    """
    head = [[c.title for c in columns]]
    if any(c.unit for c in columns):
        head.append([c.unit for c in columns])
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells for {len(columns)} columns: {row!r}")
    width = [max(len(line[i]) for line in [*head, *rows]) for i in range(len(columns))]

    def show(cells: Sequence[str]) -> str:
        placed = [
            cell.rjust(w) if column.right else cell.ljust(w)
            for cell, w, column in zip(cells, width, columns, strict=True)
        ]
        return "  ".join(placed).rstrip()

    rule = "  ".join("─" * w for w in width)
    return "\n".join([*map(show, head), rule, *map(show, rows)])


def count(value: float | None) -> str:
    """A number of things: 1234567 as 1,234,567; a mean with one decimal, 12.5."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def decimal(value: float | None, places: int = 4) -> str:
    """A number with a fixed number of places; a dash if missing, ∞ if infinite."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{places}f}"


def interval(low: float, high: float, places: int = 4) -> str:
    """``[low, high]``; a dash if it is missing, empty if it is a point."""
    if math.isnan(low) or math.isnan(high):
        return MISSING
    return "" if low == high else f"[{decimal(low, places)}, {decimal(high, places)}]"


def duration(seconds: float | None) -> str:
    """Seconds with three significant digits.

    Examples
    --------
    >>> [duration(s) for s in (0.00012345, 0.0123, 1.5, 321.4)]
    ['0.000123', '0.0123', '1.50', '321']
    """
    if seconds is None or math.isnan(seconds):
        return MISSING
    if seconds <= 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(seconds)))
    return f"{seconds:.{min(places, 6)}f}"
