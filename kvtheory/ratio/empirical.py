"""Empirical competitive ratios: a policy's misses over the optimum's, with confidence intervals."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from kvtheory.errors import bad
from kvtheory.result import Result

Kind = Literal["strict", "asymptotic"]
Interval = Literal["bootstrap", "normal"]
RESAMPLES = 9_999


class Bounded(Protocol):
    """A value known to lie between two bounds, such as an optimum in misses."""

    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...


@dataclass(frozen=True)
class Ratio:
    """A ratio of expectations with an interval.

    Parameters
    ----------
    mean
        The mean cost over the upper bound of the optimum, that is, over the best known schedule.
        With an exact optimum it is the ratio itself, otherwise the ratio is at least this.
    low, high
        The interval: it covers the seeds (at level ``confidence``) and, where the optimum is
        only known to lie in an interval, that too. A point for a deterministic policy; nan if
        there is a single seed of a randomised one.
    kind
        ``"strict"`` or ``"asymptotic"``.
    confidence, method
        Level of the interval over seeds, and how it was made: ``"bootstrap"``, ``"normal"``
        or ``"exact"`` where there is nothing random.
    seeds
        Number of lanes averaged.
    note
        Says why a number is infinite or missing; empty otherwise.
    """

    mean: float
    low: float
    high: float
    kind: Kind
    confidence: float
    method: Literal["bootstrap", "normal", "exact"]
    seeds: int
    note: str = ""

    def __str__(self) -> str:
        if self.low == self.high == self.mean:
            return f"{self.mean:.4f}"
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


def empirical_ratio(
    result: Result,
    optimum: Bounded,
    *,
    kind: Kind = "strict",
    half: Bounded | None = None,
    confidence: float = 0.95,
    method: Interval = "bootstrap",
    randomised: bool | None = None,
) -> Ratio:
    """The competitive ratio of a run on its own request sequence.

    Parameters
    ----------
    result
        The run; each of its lanes is one seed.
    optimum
        Its optimum in misses, exact or as an interval.
    kind
        ``"strict"``: E[ALG] / OPT. ``"asymptotic"``:
        (E[ALG(T)] − E[ALG(⌊T/2⌋)]) / (OPT(T) − OPT(⌊T/2⌋)), which forgets the cold start.
    half
        The optimum of the first ⌊T/2⌋ queries (``instance.prefix(instance.requests // 2)``);
        needed for the asymptotic ratio.
    confidence
        Level of the interval over seeds.
    method
        ``"bootstrap"`` (BCa, 9,999 resamples of the seeds, fixed generator) or ``"normal"``
        (Student's t).
    randomised
        Whether the lanes are draws. By default they are if there is more than one.

    Raises
    ------
    InputError
        For an asymptotic ratio without ``half``, or a bad level, kind or method.
    """
    costs: np.ndarray = result.misses
    if kind == "asymptotic":
        if half is None:
            raise bad("half", None, "an asymptotic ratio needs the optimum of the first half")
        costs = costs - result.misses_of_first(result.instance.requests // 2)
        optimum = _increase(optimum, half)
    return ratio_of_means(
        costs,
        optimum,
        kind=kind,
        confidence=confidence,
        method=method,
        randomised=randomised,
    )


def ratio_of_means(
    costs: Sequence[float] | np.ndarray,
    optimum: Bounded | float,
    *,
    kind: Kind = "strict",
    confidence: float = 0.95,
    method: Interval = "bootstrap",
    randomised: bool | None = None,
) -> Ratio:
    """The mean of ``costs``, one per seed, over one optimum.

    Examples
    --------
    >>> ratio_of_means([30.0], 20.0).mean
    1.5
    >>> ratio = ratio_of_means([3, 4, 5, 4], 2.0, method="normal")
    >>> print(ratio)
    2.0000 [1.3504, 2.6496]
    """
    check_ratio_options(kind, confidence, method)
    costs = _seeds(costs, "costs")
    lower, upper = _bounds(optimum)
    if randomised is None:
        randomised = len(costs) > 1
    cost = float(costs.mean())
    low, high = cost, cost
    how: Literal["bootstrap", "normal", "exact"] = "exact"
    if randomised:
        how = method
        low, high = mean_interval(costs, confidence, method)
    notes = [_zero_note(lower, upper, kind, cost)]
    if randomised and len(costs) == 1:
        notes.append("one seed of a randomised policy: no interval")
    return Ratio(
        mean=_over(cost, upper),
        low=_over(low, upper),
        high=_over(high, lower),
        kind=kind,
        confidence=confidence,
        method=how,
        seeds=len(costs),
        note="; ".join(filter(None, notes)),
    )


def ratio_over_instances(
    costs: Sequence[float] | np.ndarray,
    optima: Sequence[float] | np.ndarray,
    *,
    start: float = 0.0,
    confidence: float = 0.95,
    method: Interval = "bootstrap",
) -> Ratio:
    """E[ALG] / E[OPT] over random instances, lane by lane: the seeds are those of the instances.

    Parameters
    ----------
    costs, optima
        float64[seeds]; misses of the policy and exact optimum on the same instance.
    start
        Subtracted from both means, for example the B misses that fill an empty cache.
    method
        ``"bootstrap"`` resamples pairs; ``"normal"`` is the delta method with Student's t.
    """
    check_ratio_options("strict", confidence, method)
    a, b = _seeds(costs, "costs") - start, _seeds(optima, "optima") - start
    if len(a) != len(b):
        raise bad("optima", f"{len(b)} values", f"need one per cost, {len(a)}")
    mean = _over(float(a.mean()), float(b.mean()))
    low = high = math.nan
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        low = high = mean
    elif len(a) > 1 and math.isfinite(mean):
        if method == "normal":
            spread = _student(len(a), confidence) * (a - mean * b).std(ddof=1)
            margin = float(spread / math.sqrt(len(a)) / b.mean())
            low, high = mean - margin, mean + margin
        else:
            low, high = _bootstrap((a, b), confidence)
    note = "" if len(a) > 1 else "one instance: no interval"
    return Ratio(mean, low, high, "strict", confidence, method, len(a), note)


def mean_interval(
    values: Sequence[float] | np.ndarray, confidence: float = 0.95, method: Interval = "bootstrap"
) -> tuple[float, float]:
    """Confidence interval of the mean of independent draws; nan, nan for a single one."""
    check_ratio_options("strict", confidence, method)
    values = _seeds(values, "values")
    mean = float(values.mean())
    if len(values) == 1:
        return math.nan, math.nan
    if np.ptp(values) == 0:
        return mean, mean
    if method == "bootstrap":
        return _bootstrap((values,), confidence)
    margin = _student(len(values), confidence) * values.std(ddof=1) / math.sqrt(len(values))
    return mean - float(margin), mean + float(margin)


def _bootstrap(samples: tuple[np.ndarray, ...], confidence: float) -> tuple[float, float]:
    from scipy.stats import bootstrap

    def statistic(a: np.ndarray, *rest: np.ndarray, axis: int = -1) -> np.ndarray:
        top = a.mean(axis=axis)
        return top / rest[0].mean(axis=axis) if rest else top

    for kind in ("BCa", "percentile"):  # BCa has no acceleration where the jackknife is flat
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interval = bootstrap(
                samples,
                statistic,
                paired=len(samples) > 1,
                vectorized=True,
                n_resamples=RESAMPLES,
                confidence_level=confidence,
                method=kind,
                rng=np.random.default_rng(0),
            ).confidence_interval
        low, high = float(interval.low), float(interval.high)
        if math.isfinite(low) and math.isfinite(high):
            break
    return low, high


def _student(seeds: int, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(seeds - 1, (1 + confidence) / 2))


def _increase(whole: Bounded, half: Bounded) -> "_Interval":
    # OPT never falls as the sequence grows, so the increase is not negative.
    return _Interval(max(0.0, whole.lower - half.upper), max(0.0, whole.upper - half.lower))


@dataclass(frozen=True)
class _Interval:
    lower: float
    upper: float


def _bounds(optimum: Bounded | float) -> tuple[float, float]:
    if isinstance(optimum, int | float | np.number):
        lower = upper = float(optimum)
    else:
        lower, upper = float(optimum.lower), float(optimum.upper)
    if not 0 <= lower <= upper:
        raise bad("optimum", (lower, upper), "needs 0 <= lower <= upper")
    return lower, upper


def _over(cost: float, optimum: float) -> float:
    if optimum > 0 or math.isnan(cost):
        return cost / optimum if optimum > 0 else math.nan
    return math.inf if cost > 0 else math.nan


def _zero_note(lower: float, upper: float, kind: Kind, cost: float) -> str:
    if lower > 0:
        return ""
    what = "optimum" if kind == "strict" else "increase of the optimum over the second half"
    if upper > 0:
        return f"the {what} may be 0: no upper end"
    return f"the {what} is 0: " + ("the ratio is infinite" if cost > 0 else "no ratio (0/0)")


def _seeds(values: Sequence[float] | np.ndarray, name: str) -> np.ndarray:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise bad(name, array.shape, "needs one value per seed")
    if not np.isfinite(array).all():
        raise bad(name, array.tolist(), "must be finite")
    return array


def check_ratio_options(kind: str, confidence: float, method: str) -> None:
    """Refuse a kind, level or method that does not exist."""
    if kind not in get_args(Kind):
        raise bad("kind", kind, "must be 'strict' or 'asymptotic'")
    if method not in get_args(Interval):
        raise bad("method", method, "must be 'bootstrap' or 'normal'")
    if not 0 < confidence < 1:
        raise bad("confidence", confidence, "must lie strictly between 0 and 1")
