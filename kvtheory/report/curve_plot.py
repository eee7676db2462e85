"""Figure of hit rates against capacity."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtheory.curve.points import OPTIMUM, CurvePoint
from kvtheory.report.plot import COLOURS, MARKERS, OPTIMUM_COLOUR, _axes, _legend, capacity_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CEILING = "ceiling (cache of any size)"


def hit_rate_curves(points: Sequence[CurvePoint], ax: "Axes | None" = None) -> "Axes":
    """Unit hit rate against capacity: a curve per policy, the optimum, and the ceiling.

    Bands are the intervals over the seeds. The ceiling is the hit rate of a cache that holds
    everything: every unit is missed once.

    Parameters
    ----------
    points
        From `kvtheory.curve.points.curve`.
    ax
        Where to draw; a new figure by default.
    """
    ax = _axes(ax)
    if not points:
        return ax
    policies = list(dict.fromkeys(point.policy for point in points))
    for i, policy in enumerate(policies):
        mine = [point for point in points if point.policy == policy]
        x = [point.capacity_units for point in mine]
        best = policy == OPTIMUM
        colour = OPTIMUM_COLOUR if best else COLOURS[i % len(COLOURS)]
        ax.plot(
            x,
            [point.hit_rate_units for point in mine],
            color=colour,
            linestyle="--" if best else "-",
            marker=MARKERS[i % len(MARKERS)] if len(mine) <= 24 and not best else None,
            label=policy,
        )
        low, high = ([getattr(p, f"hit_rate_{end}") for p in mine] for end in ("low", "high"))
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    first = points[0]
    ceiling = 1 - first.units_distinct / first.units
    ax.axhline(ceiling, color="0.4", linestyle=":", label=CEILING)
    low, high = (f(p.capacity_units for p in points) for f in (min, max))
    ax.set_ylim(0, min(1.0, 1.15 * max(ceiling, *(p.hit_rate_units for p in points))) or 1)
    capacity_axis(ax, low, high)
    ax.set_ylabel("hit rate (units)")
    ax.set_title(first.source if len(first.source) <= 48 else first.source[:45] + "…")
    _legend(ax)
    return ax
