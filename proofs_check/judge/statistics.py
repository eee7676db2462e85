"""Tests of means with a stated error probability."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np


def differ(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, delta: float) -> bool:
    """Whether two samples have different means, wrong with probability delta if they do not.

    Welch's statistic against the normal law, for samples of some hundred.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    spread = math.sqrt(x.var(ddof=1) / len(x) + y.var(ddof=1) / len(y))
    apart = abs(float(x.mean() - y.mean()))
    return apart > NormalDist().inv_cdf(1 - delta / 2) * spread


def hoeffding(runs: int, span: float, delta: float) -> float:
    """By how much a mean of independent numbers in an interval exceeds its expectation.

    At most with probability delta, the interval having the length ``span``.
    """
    return span * math.sqrt(math.log(1 / delta) / (2 * runs))
