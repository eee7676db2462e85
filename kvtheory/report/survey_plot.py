"""A figure of the survey: exact ratios against the effective width."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtheory.ratio.bounds import harmonic
from kvtheory.ratio.survey import POLICIES, SurveyRow
from kvtheory.report.plot import COLOURS, MARKERS, _axes, blank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {"llru": "L-LRU", "rlt": "RLT", "lrlt": "LRLT", "stems": "LRLT with stems"}


def ratios_by_width(rows: Sequence[SurveyRow], ax: "Axes | None" = None) -> "Axes":
    """Ratio of each policy on each pair of forest and capacity, grouped by effective width.

    Parameters
    ----------
    rows
        From `kvtheory.ratio.survey`. A larger mark stands for more pairs.
    ax
        Where to draw; a new figure by default.
    """
    ax = _axes(ax)
    widths = sorted({row.width for row in rows})
    for i, column in enumerate(POLICIES):
        shift = 0.17 * (i - (len(POLICIES) - 1) / 2)
        many = Counter((row.width, round(getattr(row, column), 9)) for row in rows)
        ax.scatter(
            [k + shift for k, _ in many],
            [ratio for _, ratio in many],
            s=[8 + 12 * count**0.5 for count in many.values()],
            marker=MARKERS[i],
            color=COLOURS[i],
            alpha=0.8,
            linewidths=0,
            label=LABELS[column],
        )
    for name, style, bound in (("k", "--", float), ("H_k", "-", harmonic)):
        label = f"${name}$: no {'deterministic' if name == 'k' else 'randomised'} policy is below"
        for k in widths:
            ax.plot(
                [k - 0.42, k + 0.42],
                [float(bound(k))] * 2,
                linestyle=style,
                color="0.35",
                linewidth=1,
                zorder=0,
                label=label if k == widths[0] else None,
            )
    ax.set_xticks(widths)
    ax.set_xlabel("effective width $k$")
    ax.set_ylabel("competitive ratio, exact")
    if rows:
        ax.set_title(f"{len(rows):,} pairs of a forest and a capacity")
    # below the axes, where it covers no mark; sizes of marks are data, not in the legend
    legend = ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize="small"
    )
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([30.0])
    return ax


def figure(rows: Sequence[SurveyRow]) -> "Figure":
    """`ratios_by_width` on a page of its own."""
    page = blank(7.0, 4.8)
    ratios_by_width(rows, page.subplots())
    return page
