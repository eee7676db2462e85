"""Figures of what the package computes, to draw into axes of one's own.

Every function of rows takes ``ax=None`` and returns the `matplotlib.axes.Axes`; a figure of its
own is made where none is given. The pages of ``kvtheory report`` and the files of ``--plot`` are
drawn by the same functions. Colours are those of Okabe and Ito; lines differ in markers or
dashes too.

::

    rows = compare(instance, ["llru", "rlt"], ["2%", "5%", "20%"])
    figure, (left, right) = matplotlib.pyplot.subplots(1, 2)
    kvtheory.plot.ratios(rows, left)
    kvtheory.plot.hit_rates(rows, right)
"""

from kvtheory.report.cache_plot import inside_figure, misses_by_depth, occupancy
from kvtheory.report.cluster_plot import against, in_system, latencies, latency_and_load
from kvtheory.report.curve_plot import hit_rate_curves
from kvtheory.report.plot import COLOURS, MARKERS, blank, comparison, hit_rates, ratios, save
from kvtheory.report.survey_plot import ratios_by_width

__all__ = [
    "COLOURS",
    "MARKERS",
    "against",
    "blank",
    "comparison",
    "hit_rate_curves",
    "hit_rates",
    "in_system",
    "inside_figure",
    "latencies",
    "latency_and_load",
    "misses_by_depth",
    "occupancy",
    "ratios",
    "ratios_by_width",
    "save",
]
