"""Competitive ratios: empirical with intervals, closed-form bounds, and the main comparison."""

from kvtheory.ratio.bounds import (
    Bound,
    bound,
    bound_of,
    deterministic_lower_bound,
    harmonic,
    is_broom,
    randomised_lower_bound,
)
from kvtheory.ratio.comparison import Comparison, Failure, compare
from kvtheory.ratio.empirical import (
    Ratio,
    empirical_ratio,
    mean_interval,
    ratio_of_means,
    ratio_over_instances,
)

__all__ = [
    "Bound",
    "Comparison",
    "Failure",
    "Ratio",
    "bound",
    "bound_of",
    "compare",
    "deterministic_lower_bound",
    "empirical_ratio",
    "harmonic",
    "is_broom",
    "mean_interval",
    "randomised_lower_bound",
    "ratio_of_means",
    "ratio_over_instances",
]
