"""Figures of a cross table: latencies, and queries in the system over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtheory.cross_table import QUANTILES, CrossRow
from kvtheory.report.plot import COLOURS, MARKERS, _axes, blank, plain_logarithm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ("-", "--", ":", "-.")


def latencies(rows: Sequence[CrossRow], ax: "Axes | None" = None) -> "Axes":
    """Share of the queries with at most a given latency, a curve per router and eviction policy.

    Parameters
    ----------
    rows
        From `kvtheory.cross_table.cross_table`. Colours and markers stand for routers, kinds of
        lines for eviction policies.
    ax
        Where to draw; a new figure by default.
    """
    ax = _axes(ax)
    for row, style in zip(rows, _styles(rows), strict=True):
        ax.plot(row.latency_quantiles, QUANTILES, **style)
    values = [row.latency_quantiles for row in rows]
    if rows and np.max(values) > 0:
        ax.set_xscale("log")
        # the fastest queries of a run are not worth decades of empty paper
        low = min(np.quantile(v[v > 0], 0.02) for v in values if (v > 0).any())
        left, right = max(low, np.max(values) / 1e5), 1.2 * np.max(values)
        ax.set_xlim(left, right)
        plain_logarithm(ax, left, right)
    ax.set_ylim(0, 1.01)
    ax.set_xlabel("latency (s)")
    ax.set_ylabel("share of queries")
    ax.set_title(_title(rows))
    return ax


def in_system(rows: Sequence[CrossRow], ax: "Axes | None" = None) -> "Axes":
    """Queries waiting or served on all workers over time, a curve per router and policy."""
    ax = _axes(ax)
    for row, style in zip(rows, _styles(rows), strict=True):
        ax.plot(row.times, row.in_system, **style)
    peaks = [row.in_system.max() for row in rows]
    if peaks and max(peaks) > 30 * max(1.0, min(peaks)):
        ax.set_yscale("symlog", linthresh=1)
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.set_xlabel("time (s)")
    ax.set_ylabel("queries in the system")
    ax.set_title(_title(rows))
    return ax


def against(
    x: Sequence[float],
    tables: Sequence[Sequence[CrossRow]],
    value: str,
    ax: "Axes | None" = None,
) -> "Axes":
    """An estimate of each router and eviction policy against a parameter, with its intervals.

    Parameters
    ----------
    x, tables
        Values of the parameter, and a cross table for each; the tables have equal rows.
    value
        Name of the estimate, as a field of `kvtheory.cross_table.CrossRow`.
    ax
        Where to draw; a new figure by default.
    """
    ax = _axes(ax)
    for i, style in enumerate(_styles(tables[0]) if len(tables) else []):
        estimates = [getattr(rows[i], value) for rows in tables]
        ax.plot(x, [e.mean for e in estimates], **style | {"markevery": 1})
        low, high = [e.low for e in estimates], [e.high for e in estimates]
        ax.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    return ax


def latency_and_load(rows: Sequence[CrossRow]) -> "Figure":
    """Latencies and the load over time side by side, one legend below."""
    columns = min(4, max(1, len(rows)))
    lines = -(-len(rows) // columns)
    figure = blank(10.0, 4.2 + 0.22 * lines)
    left, right = figure.subplots(1, 2)
    latencies(rows, left)
    in_system(rows, right)
    for ax in (left, right):  # one title for both
        ax.set_title("")
    figure.suptitle(_title(rows, 100), fontsize="medium")
    legend_below(figure, left, columns)
    return figure


def legend_below(figure: "Figure", ax: "Axes", columns: int) -> None:
    """One legend for a figure whose axes show the same curves as ``ax``."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            handlelength=3.5,
            fontsize="small",
        )


def _styles(rows: Sequence[CrossRow]) -> list[dict[str, Any]]:
    routers = list(dict.fromkeys(row.router for row in rows))
    evictions = list(dict.fromkeys(row.eviction for row in rows))
    out = []
    for row in rows:
        i, j = routers.index(row.router), evictions.index(row.eviction)
        out.append(
            {
                "color": COLOURS[i % len(COLOURS)],
                "marker": MARKERS[i % len(MARKERS)],
                "markevery": (5 * i % 40, 40),
                "markersize": 4,
                "linewidth": 1.4,
                "linestyle": LINES[j % len(LINES)],
                "label": f"{row.router}, {row.eviction}",
            }
        )
    return out


def _title(rows: Sequence[CrossRow], width: int = 48) -> str:
    if not rows:
        return ""
    first = rows[0]
    source = first.source if len(first.source) <= width else first.source[: width - 3] + "…"
    rate = "" if first.rate is None else f", {first.rate:g} queries/s"
    return f"{source}\n{first.workers} workers{rate}"
