"""Competitive ratios: exact, empirical with intervals, closed-form bounds, the main comparison."""

from kvtheory.ratio.best_randomised import best_randomised
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
from kvtheory.ratio.exact_engine import exact, to_instance
from kvtheory.ratio.search import SearchResult, search
from kvtheory.ratio.survey import survey
from kvtheory.ratio.yao import yao_lower_bound

__all__ = [
    "Bound",
    "Comparison",
    "Failure",
    "Ratio",
    "SearchResult",
    "best_randomised",
    "bound",
    "bound_of",
    "compare",
    "deterministic_lower_bound",
    "empirical_ratio",
    "exact",
    "harmonic",
    "is_broom",
    "mean_interval",
    "randomised_lower_bound",
    "ratio_of_means",
    "ratio_over_instances",
    "search",
    "survey",
    "to_instance",
    "yao_lower_bound",
]
