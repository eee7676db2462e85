"""Figures of a comparison. matplotlib is imported when a figure is drawn, not before."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtheory.atomic import atomic
from kvtheory.errors import InputError, bad
from kvtheory.ratio.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart by readers with any common colour vision. Yellow is left out,
# it is too pale for lines; markers differ too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
OPTIMUM_COLOUR = "#000000"
MARKERS = "osD^vPX<>*"
FORMATS = ("png", "pdf", "svg")
LEGEND_LETTERS = 56  # beside each other below axes of 5 inches


def ratios(rows: Sequence[Comparison], ax: "Axes | None" = None) -> "Axes":
    """Competitive ratio of each policy with its interval; against capacity if there are several.

    Parameters
    ----------
    rows
        From `kvtheory.ratio.compare`; rows without a finite ratio are left out.
    ax
        Where to draw; a new figure by default.
    """
    ax = _axes(ax)
    shown = [row for row in rows if math.isfinite(row.ratio)]
    capacities = _capacities(rows)
    if len(capacities) > 1:
        _against_capacity(ax, shown, "ratio", band=True)
    for i, row in enumerate(shown if len(capacities) == 1 else []):
        colour = COLOURS[i % len(COLOURS)]
        low, high = row.ratio - row.ratio_low, row.ratio_high - row.ratio
        spread = [[_finite(low)], [_finite(high)]]
        marker = MARKERS[i % len(MARKERS)]
        ax.errorbar(i, row.ratio, spread, fmt=marker, color=colour, capsize=4)
    if len(capacities) == 1:
        ax.set_xticks(range(len(shown)), [row.policy for row in shown], **_slant(shown))
        ax.set_xlim(-0.6, len(shown) - 0.4)
    ax.axhline(1, color="0.4", linewidth=1, linestyle="--")
    ax.set_ylabel("asymptotic ratio to the optimum" if _kind(rows) else "ratio to the optimum")
    ax.set_title(_title(rows))
    return ax


def hit_rates(rows: Sequence[Comparison], ax: "Axes | None" = None) -> "Axes":
    """Unit hit rate of each policy beside the optimum's and the ceiling.

    The ceiling is the hit rate of a cache that holds everything: every unit is missed once.
    """
    ax = _axes(ax)
    if not rows:
        return ax
    capacities = _capacities(rows)
    # after a warm-up a cache of any size may hit everything
    ceiling = 1.0 if rows[0].warmup else 1 - rows[0].units_distinct / rows[0].units
    if len(capacities) > 1:
        _against_capacity(ax, rows, "hit_rate_units", band=False)
        best = {row.capacity_units: _best(row) for row in rows}
        ax.plot(
            capacities,
            [best[c] for c in capacities],
            color=OPTIMUM_COLOUR,
            linestyle="--",
            label="optimum",
        )
    else:
        for i, row in enumerate(rows):
            ax.bar(i, row.hit_rate_units, color=COLOURS[i % len(COLOURS)], width=0.7)
        ax.set_xticks(range(len(rows)), [row.policy for row in rows], **_slant(rows))
        if math.isfinite(_best(rows[0])):
            ax.axhline(_best(rows[0]), color=OPTIMUM_COLOUR, linestyle="--", label="optimum")
    ax.axhline(ceiling, color="0.4", linestyle=":", label="ceiling (cache of any size)")
    ax.set_ylim(0, min(1.0, 1.15 * max(ceiling, *(row.hit_rate_units for row in rows))) or 1)
    ax.set_ylabel("hit rate (units)")
    ax.set_title(_title(rows))
    _legend(ax)
    return ax


def comparison(rows: Sequence[Comparison]) -> "Figure":
    """Ratios and hit rates side by side."""
    figure = blank(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    ratios(rows, left)
    hit_rates(rows, right)
    return figure


def check_path(path: str | Path) -> Path:
    """A path that ends in a format we can write."""
    path = Path(path)
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise bad("plot", str(path), f"must end in one of {', '.join('.' + f for f in FORMATS)}")
    return path


def save(figure: "Figure", path: str | Path) -> None:
    """Write a figure as png, pdf or svg, whole or not at all; equal figures give equal bytes."""
    path = check_path(path)
    suffix = path.suffix.lower().removeprefix(".")
    from matplotlib import rc_context

    dated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with rc_context({"svg.hashsalt": "kvtheory", "pdf.fonttype": 42}), atomic(path, "wb") as file:
        figure.savefig(file, format=suffix, dpi=150, metadata=dated[suffix])


def blank(width: float, height: float) -> "Figure":
    """An empty figure, in inches, that no window manager knows of."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib: pip install 'kvtheory[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def capacity_axis(ax: "Axes", low: float, high: float) -> None:
    """Capacities to the right, in logarithm if they span more than a factor of ten."""
    if high > 10 * low:
        ax.set_xscale("log")
        plain_logarithm(ax, low, high)
    else:
        plain_counts(ax.xaxis)
    ax.set_xlabel("capacity (units)")


def plain_counts(axis: "Axis") -> None:
    """Numbers of things on a linear axis: 5,000, and 1.5 M from a million on."""

    def written(value: float, position: float) -> str:
        large = max(map(abs, axis.get_view_interval())) >= 1e6
        return f"{value / 1e6:g} M" if large and value else f"{value:,g}"

    axis.set_major_formatter(written)


def plain_logarithm(ax: "Axes", low: float, high: float) -> None:
    """Numbers instead of powers of ten on a logarithmic axis to the right."""
    from matplotlib.ticker import LogLocator, NullFormatter

    near = high < 500 * low  # room for numbers between the powers
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if near else (1.0,), numticks=12))
    ax.xaxis.set_major_formatter(lambda value, position: short(value))
    ax.xaxis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """A round number in few letters.

    Examples
    --------
    >>> [short(x) for x in (0.02, 500, 20_000, 1e6)]
    ['0.02', '500', '20 k', '1 M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _axes(ax: "Axes | None") -> "Axes":
    return blank(6.0, 4.2).subplots() if ax is None else ax


def _against_capacity(ax: "Axes", rows: Sequence[Comparison], key: str, *, band: bool) -> None:
    policies = list(dict.fromkeys(row.policy for row in rows))
    for i, policy in enumerate(policies):
        mine = sorted((r for r in rows if r.policy == policy), key=lambda r: r.capacity_units)
        x = [row.capacity_units for row in mine]
        colour = COLOURS[i % len(COLOURS)]
        ax.plot(
            x,
            [getattr(row, key) for row in mine],
            color=colour,
            marker=MARKERS[i % len(MARKERS)],
            label=policy,
        )
        if band:
            low, high = [row.ratio_low for row in mine], [row.ratio_high for row in mine]
            ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    capacities = _capacities(rows)
    if capacities:
        capacity_axis(ax, capacities[0], capacities[-1])
    _legend(ax)


def _capacities(rows: Sequence[Comparison]) -> list[int]:
    return sorted({row.capacity_units for row in rows})


def _best(row: Comparison) -> float:
    return 1 - row.optimum_high / row.units


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _kind(rows: Sequence[Comparison]) -> bool:
    return bool(rows) and rows[0].kind == "asymptotic"


def _slant(rows: Sequence[Comparison]) -> dict[str, Any]:
    crowded = sum(len(row.policy) for row in rows) > 40
    return {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}


def _title(rows: Sequence[Comparison]) -> str:
    if not rows:
        return ""
    capacities = _capacities(rows)
    source = rows[0].source if len(rows[0].source) <= 48 else rows[0].source[:45] + "…"
    return source if len(capacities) > 1 else f"{source}\n{capacities[0]:,} units"


def _legend(ax: "Axes", below: float = -0.14) -> None:
    # below the axes, where it covers no line
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, below),
        ncols=legend_columns(ax.get_legend_handles_labels()[1]),
        frameon=False,
        fontsize="small",
    )


def legend_columns(labels: Sequence[str], most: int = 3) -> int:
    """Columns of a legend that is no wider than its axes.

    Examples
    --------
    >>> legend_columns(["llru", "rlt"] * 3), legend_columns(["exp4:experts=lbgr+max_hit"] * 3)
    (3, 2)
    """
    longest = sorted(map(len, labels), reverse=True)
    return max([1, *(n for n in range(2, most + 1) if sum(longest[:n]) <= LEGEND_LETTERS)])
