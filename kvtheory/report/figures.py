"""The figures of a report: what is drawn, under which heading, and what it says in numbers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kvtheory.report import cache_plot, cluster_plot, curve_plot, plot
from kvtheory.report.data import SourceReport
from kvtheory.report.inline_svg import inline_svg
from kvtheory.report.inside import Inside
from kvtheory.report.table import count, decimal, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

SHOWN_POINTS = 6  # of a curve that a text alternative names


@dataclass(frozen=True)
class Figure:
    """One figure of the page.

    Parameters
    ----------
    name
        Unique in the page.
    title, caption
        Heading, and what one has to know to read it.
    description
        The figure in numbers, for readers who do not see it.
    draw
        Draws into axes; a function of `kvtheory.plot` with its data.
    labels
        Of the curves, in the legend.
    """

    name: str
    title: str
    caption: str
    description: str
    draw: "Callable[[Axes], object]"
    labels: tuple[str, ...]

    @property
    def svg(self) -> str:
        """The figure as inline SVG."""
        lines = -(-len(self.labels) // plot.legend_columns(self.labels))
        return inline_svg(self.name, (self.title, self.description), self.draw, lines)


def sheet(some: Sequence[Figure]) -> "MatplotlibFigure":
    """The figures of a page on one sheet, two beside each other, for a paper."""
    rows = -(-len(some) // 2)
    whole = plot.blank(11.2, 4.3 * max(1, rows))
    parts = whole.subfigures(max(1, rows), 2, squeeze=False)
    for part, figure in zip(parts.flat, some, strict=False):
        ax = part.subplots()
        figure.draw(ax)
        ax.set_title(figure.title, fontsize="medium")
    return whole


def all_figures(report: SourceReport, name: str) -> list[Figure]:
    """Every figure of a source."""
    inside = inside_figures(report.inside, name) if report.inside else []
    return [*ratio_figures(report, name), *inside, *cluster_figures(report, name)]


def ratio_figures(report: SourceReport, name: str) -> list[Figure]:
    """Ratios and hit rates against capacity."""
    figures = []
    if report.rows:
        first = report.rows[0]
        figures.append(
            Figure(
                f"{name}-ratio",
                "Ratio to the optimum against capacity"
                if len({row.capacity_units for row in report.rows}) > 1
                else f"Ratio to the optimum at {count(first.capacity_units)} units",
                f"E[misses] over the misses of the optimum ({first.admission} admission)"
                + ("" if first.kind == "strict" else ", both over the second half of the sequence")
                + f"; bands and bars are intervals at {100 * first.confidence:g} % over the seeds.",
                _curves_in_words(
                    (r.policy, r.capacity_units, r.ratio, decimal(r.ratio, 3)) for r in report.rows
                ),
                partial(plot.ratios, report.rows),
                tuple(dict.fromkeys(row.policy for row in report.rows)),
            )
        )
    if report.points:
        first = report.points[0]
        ceiling = 1 - first.units_distinct / first.units
        figures.append(
            Figure(
                f"{name}-hit-rate",
                "Hit rate against capacity",
                "Share of the units asked for that are cached. The ceiling is that of a cache of "
                "any size: every unit is missed once.",
                _curves_in_words(
                    (p.policy, p.capacity_units, p.hit_rate_units, decimal(p.hit_rate_units, 3))
                    for p in report.points
                )
                + f" The ceiling is {decimal(ceiling, 3)}.",
                partial(curve_plot.hit_rate_curves, report.points),
                (*dict.fromkeys(point.policy for point in report.points), curve_plot.CEILING),
            )
        )
    return figures


def inside_figures(inside: Inside, name: str) -> list[Figure]:
    """Misses by depth, and the contents of the cache over time."""
    share = "" if inside.queries == inside.requests else f" of {count(inside.requests)}"
    where = (
        f"At {count(inside.capacity_units)} units, lane 0, {count(inside.queries)}{share} queries"
    )
    figures = [
        Figure(
            f"{name}-depth",
            "Where the misses come from, by depth",
            f"{where}. Compulsory misses are first requests for a unit, which no cache avoids; the "
            "others are of units that had been asked for before.",
            " ".join(
                [
                    *(f"{d.policy}: {_bands(inside, d.misses)}." for d in inside.depth),
                    f"Compulsory: {_bands(inside, inside.compulsory)}.",
                ]
            ),
            partial(cache_plot.misses_by_depth, inside),
            (*(d.policy for d in inside.depth), "compulsory"),
        )
    ]
    if not inside.occupancy:
        return figures
    held = [
        f"{o.policy}: {count(float(o.cached[-1]))} units cached at the end, "
        f"on average {decimal(float(o.useful_share.mean()), 3)} of them useful."
        for o in inside.occupancy
    ]
    figures += [
        Figure(
            f"{name}-occupancy",
            "Cache occupancy over time",
            f"{where}. Useful units are asked for again later, the others only take up room. "
            "Towards the end nothing is, under any policy.",
            " ".join(held),
            partial(cache_plot.occupancy, inside),
            (*(o.policy for o in inside.occupancy), "capacity"),
        ),
    ]
    return figures


def cluster_figures(report: SourceReport, name: str) -> list[Figure]:
    """Latencies and the load over time."""
    rows = report.cluster_curves
    if not rows:
        return []
    first = rows[0]
    where = (
        f"{first.workers} workers of {count(first.capacity_units[0])} units, "
        + ("arrivals of the source" if first.rate is None else f"{first.rate:g} queries/s")
        + (", means over the seeds" if any(row.seeds > 1 for row in rows) else "")
    )
    pairs = tuple(f"{row.router}, {row.eviction}" for row in rows)
    told = [
        f"{row.router} with {row.eviction}: P50 {duration(row.latency_p50.mean)} s, "
        f"P95 {duration(row.latency_p95.mean)} s."
        for row in rows
    ]
    peaks = [
        f"{row.router} with {row.eviction}: at most {count(float(row.in_system.max()))} queries."
        for row in rows
    ]
    return [
        Figure(
            f"{name}-latency",
            "Latency",
            f"Share of the queries that are completed within a time from arrival; {where}.",
            " ".join(told),
            partial(_with_legend, cluster_plot.latencies, rows),
            pairs,
        ),
        Figure(
            f"{name}-load",
            "Load over time",
            f"Queries waiting or being served on all workers; {where}.",
            " ".join(peaks),
            partial(_with_legend, cluster_plot.in_system, rows),
            pairs,
        ),
    ]


def _with_legend(draw: "Callable[..., Axes]", rows: object, ax: "Axes") -> "Axes":
    ax = draw(rows, ax)
    columns = plot.legend_columns(ax.get_legend_handles_labels()[1])
    cluster_plot.legend_below(ax.get_figure(), ax, columns)  # type: ignore[arg-type]
    return ax


def _curves_in_words(points: Iterable[tuple[str, int, float, str]]) -> str:
    curves: dict[str, list[str]] = {}
    for policy, capacity, _, value in points:
        curves.setdefault(policy, []).append(f"{value} at {count(capacity)} units")
    return " ".join(f"{policy}: {', '.join(_thinned(told))}." for policy, told in curves.items())


def _thinned(told: list[str]) -> list[str]:
    if len(told) <= SHOWN_POINTS:
        return told
    last = len(told) - 1
    return [told[round(i * last / (SHOWN_POINTS - 1))] for i in range(SHOWN_POINTS)]


def _bands(inside: Inside, misses: Iterable[float]) -> str:
    named = [cache_plot.band_name(inside.bands, i) for i in range(len(inside.bands) - 1)]
    pairs = zip(named, misses, strict=True)
    return ", ".join(_thinned([f"{count(float(m))} at depth {band}" for band, m in pairs]))
