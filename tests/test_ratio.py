"""Empirical ratios and closed-form bounds, against numbers worked out by hand."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.ratio import (
    bound,
    bound_of,
    deterministic_lower_bound,
    empirical_ratio,
    harmonic,
    is_broom,
    mean_interval,
    randomised_lower_bound,
    ratio_of_means,
    ratio_over_instances,
)
from kvtheory.result import Result
from kvtheory.tree import PrefixTree


@dataclass(frozen=True)
class Known:
    lower: float
    upper: float


def star(leaves: int) -> Instance:
    return Instance.from_tokens([[i] for i in range(leaves)])


def broom(length: int, leaves: int) -> Instance:
    return Instance.from_tokens([[*range(length - 1), 100 + i] for i in range(leaves)])


def chains(number: int, length: int) -> Instance:
    return Instance.from_tokens([[10 * i + j for j in range(length)] for i in range(number)])


# -- empirical ---------------------------------------------------------------------------


def test_strict_ratio_of_a_deterministic_run_is_a_point():
    ratio = ratio_of_means([30], Known(20, 20))
    assert (ratio.mean, ratio.low, ratio.high) == (1.5, 1.5, 1.5)
    assert (ratio.seeds, ratio.method, ratio.note) == (1, "exact", "")


def test_students_interval_by_hand():
    # mean 4, standard deviation √(2/3), quantile 3.182446 at three degrees of freedom
    ratio = ratio_of_means([3, 4, 5, 4], 2.0, method="normal")
    margin = 3.182446305284263 * math.sqrt(2 / 3) / math.sqrt(4) / 2
    assert ratio.mean == 2
    assert ratio.low == pytest.approx(2 - margin, rel=1e-12)
    assert ratio.high == pytest.approx(2 + margin, rel=1e-12)


def test_an_optimum_known_as_an_interval_widens_the_ratio():
    ratio = ratio_of_means([12], Known(4, 6))
    assert (ratio.mean, ratio.low, ratio.high) == (2, 2, 3)
    several = ratio_of_means([11, 12, 13, 12], Known(4, 6), method="normal")
    exact = ratio_of_means([11, 12, 13, 12], 6.0, method="normal")
    other = ratio_of_means([11, 12, 13, 12], 4.0, method="normal")
    assert (several.low, several.high) == (exact.low, other.high)


def test_asymptotic_ratio_forgets_the_cold_start():
    # units asked: 2, 1, 1, 2; missed on lane 0: 2, 1, 0, 1; on lane 1: 2, 1, 1, 2
    instance = Instance.from_tokens([[1, 2], [1], [3], [1, 2]])
    hits = np.array([[0, 0, 1, 1], [0, 0, 0, 0]], np.int32)
    result = Result(instance, "some", 2, hits)
    strict = empirical_ratio(result, Known(4, 4))
    assert strict.mean == (4 + 6) / 2 / 4
    assert strict.kind == "strict"
    ratio = empirical_ratio(result, Known(5, 5), kind="asymptotic", half=Known(3, 3))
    assert ratio.mean == ((4 - 3) + (6 - 3)) / 2 / (5 - 3)
    assert ratio.kind == "asymptotic"


def test_asymptotic_ratio_combines_the_ends_of_two_intervals():
    instance = Instance.from_tokens([[1], [2], [3], [4]])
    result = Result(instance, "some", 2, np.zeros((1, 4), np.int32))
    ratio = empirical_ratio(result, Known(6, 8), kind="asymptotic", half=Known(3, 4))
    # the increase lies between 6 − 4 and 8 − 3
    assert (ratio.low, ratio.high) == (2 / 5, 2 / 2)
    touching = empirical_ratio(result, Known(4, 8), kind="asymptotic", half=Known(3, 4))
    assert touching.low == 2 / 5
    assert touching.high == math.inf
    assert "no upper end" in touching.note


def test_asymptotic_ratio_needs_the_first_half():
    result = Result(star(2), "some", 1, np.zeros((1, 2), np.int32))
    with pytest.raises(InputError, match="first half"):
        empirical_ratio(result, Known(1, 1), kind="asymptotic")


@pytest.mark.parametrize(
    ("cost", "mean", "word"), [(3, math.inf, "infinite"), (0, math.nan, "no ratio")]
)
def test_no_optimum_to_divide_by(cost, mean, word):
    ratio = ratio_of_means([cost], 0.0)
    assert ratio.mean == mean or (math.isnan(mean) and math.isnan(ratio.mean))
    assert word in ratio.note


def test_one_seed_of_a_randomised_policy_has_no_interval():
    ratio = ratio_of_means([30], 20.0, randomised=True)
    assert ratio.mean == 1.5
    assert math.isnan(ratio.low)
    assert math.isnan(ratio.high)
    assert "no interval" in ratio.note


def test_equal_seeds_give_a_point():
    ratio = ratio_of_means([30, 30, 30], 20.0)
    assert (ratio.low, ratio.high) == (1.5, 1.5)


@pytest.mark.parametrize("method", ["bootstrap", "normal"])
def test_intervals_cover_the_mean_as_often_as_they_say(method):
    # A skewed law with mean 1; an interval that forgot √n, or used one tail, would be far off.
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        low, high = mean_interval(rng.gamma(4, 0.25, size=40), 0.9, method)
        covered += low <= 1 <= high
    assert 0.82 <= covered / 200 <= 0.97


def test_the_bootstrap_gives_the_same_numbers_twice():
    values = np.random.default_rng(1).normal(size=30)
    assert mean_interval(values) == mean_interval(values.copy())


@pytest.mark.parametrize("method", ["bootstrap", "normal"])
def test_ratio_over_instances_pairs_the_lanes(method):
    # Costs are exactly 1.5 times the optimum after the start: pairing leaves no spread at all.
    optima = np.array([12.0, 20.0, 32.0, 14.0])
    ratio = ratio_over_instances(1.5 * (optima - 4) + 4, optima, start=4, method=method)
    assert ratio.mean == 1.5
    assert ratio.low == pytest.approx(1.5, abs=1e-12)
    assert ratio.high == pytest.approx(1.5, abs=1e-12)
    spread = ratio_over_instances([10, 20, 30, 20], optima, method=method)
    assert spread.mean == pytest.approx(80 / 78)
    assert spread.low < spread.mean < spread.high


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"kind": "exact"}, "kind"),
        ({"confidence": 1.0}, "confidence"),
        ({"method": "guess"}, "method"),
    ],
)
def test_bad_options_are_named(arguments, word):
    with pytest.raises(InputError, match=word):
        ratio_of_means([1, 2], 1.0, **arguments)


@pytest.mark.parametrize("optimum", [-1.0, math.nan, Known(3, 2)])
def test_bad_optimum_is_refused(optimum):
    with pytest.raises(InputError, match="lower <= upper"):
        ratio_of_means([1, 2], optimum)


# -- bounds ------------------------------------------------------------------------------


def test_harmonic_numbers():
    assert harmonic(0) == 0
    assert harmonic(3) == Fraction(11, 6)
    assert harmonic(10) == Fraction(7381, 2520)
    exact = float(sum(Fraction(1, i) for i in range(1, 1001)))
    assert harmonic(1000) == pytest.approx(exact, rel=1e-15)
    with pytest.raises(InputError):
        harmonic(-1)


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        (star(1), True),
        (star(4), True),
        (broom(4, 3), True),
        (broom(4, 1), True),
        (Instance.from_tokens([[1], [1, 2], [1, 2, 3], [1, 2, 4]]), True),
        (chains(3, 2), False),
        (Instance.from_tokens([[1, 2], [1, 3], [4]]), False),
        (Instance.from_tokens([[1, 2], [1, 3], [1, 3, 4], [1, 3, 5]]), False),
        (Instance.from_tokens([[1, 2], [1, 3, 4]]), False),
        (Instance(PrefixTree([], []), np.zeros(0, np.int32)), True),
    ],
)
def test_brooms_are_recognised(instance, expected):
    assert is_broom(instance.tree) is expected


def test_bounds_on_a_star():
    # k = 3: LRU 3, marking H_3 on four pages and 2 H_3 − 1 on more
    assert bound_of("llru", star(5), 3) == 3
    assert bound_of("fifo", star(5), 3) == 3
    assert bound_of("rlt", star(4), 3) == pytest.approx(11 / 6)
    assert bound_of("rlt", star(5), 3) == pytest.approx(8 / 3)
    assert bound_of("mru", star(5), 3) == math.inf
    assert bound_of("belady", star(5), 3) == 1


def test_bounds_on_a_broom_are_those_of_the_free_slots():
    # three shared units and one leaf each: at B = 6 three slots are free, as on a star with k = 3
    assert bound_of("llru", broom(4, 5), 6) == 3
    assert bound_of("rlt", broom(4, 4), 6) == pytest.approx(11 / 6)
    assert bound_of("rlt", broom(4, 5), 6) == pytest.approx(8 / 3)
    assert bound_of("rlt:phase=query", broom(4, 5), 6) == pytest.approx(8 / 3)
    assert bound_of("rlt:phase=published", broom(4, 5), 6) is None


def test_bounds_on_other_trees():
    trees = chains(3, 2)
    # the effective width, which the exact ratios of these trees are
    for name in ("llru", "lrlt", "layered:victim=stem", "duel"):
        assert [bound_of(name, trees, b) for b in (4, 5)] == [2, 2]
        assert bound_of(name, chains(4, 2), 4) == 3
    assert bound_of("rlt", trees, 4) == pytest.approx(2 * 25 / 12 - 1)
    assert bound_of("rlt:phase=query", trees, 4) is None
    assert bound_of("fifo", trees, 4) is None
    assert bound_of("no such policy", trees, 4) is None


@pytest.mark.parametrize(
    ("instance", "capacity", "llru", "rlt"),
    [
        # exact ratios of trees from an independent program: (L-LRU, RLT)
        (star(3), 2, 2, 3 / 2),
        (star(4), 2, 2, 2),
        (star(4), 3, 3, 11 / 6),
        (chains(3, 2), 3, 4 / 3, 4 / 3),
        (chains(3, 2), 4, 2, 5 / 2),
        (chains(4, 2), 4, 3, 8 / 3),
        (chains(3, 3), 6, 2, 5 / 2),
    ],
)
def test_bounds_hold_on_trees_with_a_known_ratio(instance, capacity, llru, rlt):
    assert bound_of("llru", instance, capacity) >= llru
    assert bound_of("rlt", instance, capacity) >= rlt - 1e-12
    if is_broom(instance.tree):
        assert bound_of("llru", instance, capacity) == llru
        assert bound_of("rlt", instance, capacity) == pytest.approx(rlt)


def test_no_bound_where_it_would_not_hold():
    instance = star(5)
    assert bound_of("llru", instance, 3, admission="bypass") is None
    assert bound_of("llru", instance, 3, oversize="skip") is None
    long = broom(4, 5)
    assert bound_of("llru", long, 3) is None
    # cut at depth 3 the tree is a single path, and one slot is free
    assert bound_of("llru", long, 3, oversize="truncate") == 1


def test_bounds_say_what_they_hold_for():
    for policy in ("llru", "rlt", "fifo", "random_leaf", "mru", "lfu", "belady"):
        known = bound(policy, star(5), 3)
        assert known is not None
        assert known.statement
        assert known.assumptions
        assert known.source


def test_lower_bounds():
    assert deterministic_lower_bound(4) == 4
    assert randomised_lower_bound(3) == Fraction(11, 6)
    for k in range(1, 50):
        assert randomised_lower_bound(k) <= deterministic_lower_bound(k)
