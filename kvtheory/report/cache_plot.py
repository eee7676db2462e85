"""Figures of what happens inside one cache: misses by depth, and contents over time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kvtheory.curve.points import OPTIMUM
from kvtheory.report.inside import Inside
from kvtheory.report.plot import COLOURS, MARKERS, OPTIMUM_COLOUR, _axes, _legend, plain_counts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 14  # of bands that have room below one axis


def misses_by_depth(inside: Inside, ax: "Axes | None" = None) -> "Axes":
    """Misses of each policy by the depth of the unit, over those that no cache avoids.

    Parameters
    ----------
    inside
        From `kvtheory.report.inside.look_inside`. Grey bars are compulsory misses: the first
        request for a unit.
    ax
        Where to draw; a new figure by default.
    """
    ax = _axes(ax)
    x = np.arange(len(inside.bands) - 1)
    ax.bar(x, inside.compulsory, width=0.8, color="0.75", label="compulsory", zorder=0)
    for i, one in enumerate(inside.depth):
        ax.plot(x, one.misses, **_style(i, one.policy, marked=True))
    every = -(-len(x) // MOST_LABELS)
    ax.set_xticks(x[::every], [band_name(inside.bands, int(i)) for i in x[::every]])
    if len(x) > 5:
        ax.tick_params(axis="x", labelrotation=40)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    plain_counts(ax.yaxis)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("depth of the unit below the root (units)")
    ax.set_ylabel("missed units")
    ax.set_title(_title(inside))
    _legend(ax, -0.14 if len(x) <= 5 else -0.3)
    return ax


def occupancy(inside: Inside, ax: "Axes | None" = None) -> "Axes":
    """Units in the cache, dotted, and those of them that a later query asks for."""
    ax = _axes(ax)
    for i, one in enumerate(inside.occupancy):
        style = _style(i, one.policy)
        ax.plot(one.served, one.useful, **style)
        ax.plot(one.served, one.cached, **style | {"label": None, "linestyle": ":"})
    ax.axhline(inside.capacity_units, color="0.4", linestyle=":", label="capacity")
    plain_counts(ax.yaxis)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("units: cached (dotted), useful (solid)")
    plain_counts(ax.xaxis)
    ax.set_xlim(0, inside.queries)
    ax.set_xlabel("queries served")
    ax.set_title(_title(inside))
    _legend(ax)
    return ax


def inside_figure(inside: Inside) -> "Figure":
    """Misses by depth, and what the cache holds, side by side."""
    from kvtheory.report.plot import blank

    figure = blank(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    misses_by_depth(inside, left)
    occupancy(inside, right)
    return figure


def band_name(bands: np.ndarray, i: int) -> str:
    """The depths of a band.

    Examples
    --------
    >>> [band_name(np.array([0, 1, 2, 4]), i) for i in range(3)]
    ['1', '2', '3–4']
    """
    first, last = int(bands[i]) + 1, int(bands[i + 1])
    return f"{last:,}" if first == last else f"{first:,}–{last:,}"


def _style(i: int, policy: str, *, marked: bool = False) -> dict[str, Any]:
    best = policy == OPTIMUM
    return {
        "color": OPTIMUM_COLOUR if best else COLOURS[i % len(COLOURS)],
        "linestyle": "--" if best else "-",
        "marker": MARKERS[i % len(MARKERS)] if marked and not best else None,
        "label": policy,
    }


def _title(inside: Inside) -> str:
    source = inside.source if len(inside.source) <= 48 else inside.source[:45] + "…"
    return f"{source}\n{inside.capacity_units:,} units"
