"""What no randomised algorithm can beat: the linear program, Yao's distributions, proofs."""

import itertools
from fractions import Fraction

import pytest

from kvtheory.errors import InputError
from kvtheory.ratio import best_randomised, exact, harmonic, yao_lower_bound
from kvtheory.ratio.average_cost import explored, least_average
from kvtheory.ratio.exact_engine import Forest, forest
from kvtheory.ratio.exact_engine.enumerate_forests import pairs
from kvtheory.ratio.width import effective_width
from kvtheory.ratio.yao import MarkovRequests, widest
from kvtheory.testing.online_cost import online_cost

THIRD = Fraction(1, 3)

# tree, B, start, T, ratio
KNOWN = [
    ("star:leaves=3", 2, "full", 1, 1),
    ("star:leaves=3", 2, "full", 2, 3 / 2),
    ("star:leaves=3", 2, "full", 4, 3 / 2),
    ("star:leaves=4", 3, "full", 3, 5 / 3),
    ("star:leaves=4", 3, "full", 4, 11 / 6),
    ("star:leaves=4", 3, "full", 5, 11 / 6),
    ("star:leaves=4", 2, "full", 5, 3 / 2),
    ("chains:n=3,length=2", 4, "full", 3, 3 / 2),
    ("chains:n=3,length=2", 4, "full", 4, 3 / 2),
    ("chains:n=3,length=2", 4, "full", 5, 3 / 2),
    ("star:leaves=3", 2, "empty", 3, 1),
    ("star:leaves=3", 2, "empty", 4, 7 / 6),
    ("star:leaves=3", 2, "empty", 7, 5 / 4),
]


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: "-".join(map(str, row[:4])))
def test_known_answers_and_their_adversaries(row: tuple) -> None:
    tree, capacity, start, horizon, ratio = row
    result = best_randomised(tree, capacity, horizon, start)
    assert result.status == "optimal"
    assert result.ratio == pytest.approx(ratio, abs=1e-9)
    assert result.lower == pytest.approx(ratio, abs=1e-9)
    adversary = result.adversary()
    assert sum(adversary.values()) == pytest.approx(1)
    assert {len(sequence) for sequence in adversary} == {horizon}
    # the proof, literally: the best that an online algorithm can do against this distribution
    online, optimum = online_cost(forest(tree).parents, capacity, result.start, adversary)
    assert float(online / optimum) == pytest.approx(ratio, abs=1e-9)


def test_symmetry_changes_nothing() -> None:
    for tree, capacity, horizon in (("star:leaves=4", 2, 4), ((-1, 0, 0, -1), 3, 4)):
        folded, plain = (
            best_randomised(tree, capacity, horizon, symmetry=s) for s in (True, False)
        )
        assert folded.ratio == pytest.approx(plain.ratio, abs=1e-9)
        assert folded.histories < plain.histories


def test_no_policy_is_better_and_the_horizon_helps_the_adversary() -> None:
    for tree, capacity in (("star:leaves=4", 2), ("chains:n=3,length=2", 3), ((-1, 0, 0, -1), 2)):
        ratios = [best_randomised(tree, capacity, t).ratio for t in (1, 2, 3, 4)]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(ratios))
        assert ratios[-1] <= exact("lrlt:stem=true", tree, capacity).ratio + 1e-9


def test_queries_and_starts_are_respected() -> None:
    leaves = best_randomised("chains:n=3,length=2", 4, 3, queries="leaves")
    assert {q for s in leaves.adversary() for q in s} <= {1, 3, 5}
    assert best_randomised("star:leaves=3", 2, 2, [1, 2]).start == (1, 2)


def test_a_mutant_adversary_proves_less() -> None:
    result = best_randomised("star:leaves=4", 3, 4)
    adversary = result.adversary()
    biased = {s: p * (2 if s[0] == 3 and s[1] == 0 else 1) for s, p in adversary.items()}
    total = sum(biased.values())
    online, optimum = online_cost(
        (-1,) * 4, 3, (0, 1, 2), {s: p / total for s, p in biased.items()}
    )
    assert float(online / optimum) < result.ratio - 1e-3


@pytest.mark.parametrize(
    ("arguments", "options", "word"),
    [
        (("star:leaves=3", 2, 0), {}, "horizon"),
        (("star:leaves=3", 0, 1), {}, "capacity"),
        (("star:leaves=3", 2, 12), {"most_histories": 10}, "histories"),
        (("star:leaves=3", 2, 2, "half"), {}, "start"),
        (("parents:-1,0,0", 2, 2, [1, 2]), {}, "start"),
        (("star:leaves=3", 2, 2, [0, 1, 2]), {}, "start"),
        (("star:leaves=3", 2, 2), {"solver": "none"}, "solver"),
    ],
)
def test_mistakes_are_named(arguments: tuple, options: dict, word: str) -> None:
    with pytest.raises(InputError, match=word):
        best_randomised(*arguments, **options)


# -- Markov chains of requests --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "capacity", "length"),
    [("star:leaves=3", 2, 1), ("broom:L=2,leaves=4", 4, 2), ("broom:L=3,leaves=5", 6, 3)],
)
def test_uniform_leaves_of_a_broom(tree: str, capacity: int, length: int) -> None:
    units = forest(tree)
    k = capacity - length + 1
    assert len(units.leaves) == k + 1
    bound = yao_lower_bound({q: Fraction(1, k + 1) for q in units.leaves}, tree, capacity)
    assert bound.exact
    assert bound.ratio == harmonic(k)
    assert bound.online == Fraction(1, k + 1)


def test_the_widest_set_gives_the_harmonic_number_everywhere() -> None:
    for tree, capacity in pairs(5):
        k = effective_width(tree.as_tree(), capacity)
        assert len(widest(tree, capacity)) == k + 1
        bound = yao_lower_bound(None, tree, capacity)
        assert bound.exact
        assert bound.ratio == harmonic(k)


def test_a_chain_that_forgets_is_independent_requests() -> None:
    chain = MarkovRequests([0, 1, 2], [[THIRD] * 3] * 3)
    bound = yao_lower_bound(chain, "star:leaves=3", 2)
    assert (bound.ratio, bound.exact) == (Fraction(3, 2), True)


def test_a_cycle_is_no_surprise() -> None:
    chain = MarkovRequests([0, 1, 2], [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    bound = yao_lower_bound(chain, "star:leaves=3", 2)
    assert (bound.ratio, bound.online) == (1, Fraction(1, 2))


def test_no_randomised_policy_escapes_a_chain() -> None:
    half = Fraction(1, 2)
    chain = MarkovRequests(
        [0, 1, 2, 3], [[0, half, half, 0], [half, 0, half, 0], [0, half, 0, half], [1, 0, 0, 0]]
    )
    bound = yao_lower_bound(chain, "star:leaves=4", 2)
    assert bound.exact
    assert 1 <= bound.ratio <= harmonic(2)


def test_bounds_on_an_average_hold_for_a_choice() -> None:
    # a coin; after heads one may go to a state that costs 2 a step, or stay for 1
    half = Fraction(1, 2)
    moves = {0: [(half, 1, [0, 1]), (half, 0, [0])], 1: [(Fraction(1), 2, [1, 0])]}
    average = least_average(explored(0, lambda s: moves[s]))
    assert average.low <= half <= average.high
    assert average.low == average.high


@pytest.mark.parametrize(
    ("requests", "word"),
    [
        ({0: 0.3, 1: 0.3}, "sum to 1"),
        ({0: Fraction(3, 2), 1: Fraction(-1, 2)}, "sum to 1"),
        ({7: 1}, "units below 3"),
        ({0: 1}, "nothing in the long run"),
        (MarkovRequests([0, 1], [[1, 0]]), "transition"),
        (MarkovRequests([0, 1], [[1, 0], [0, 1]]), "irreducible"),
    ],
)
def test_bad_requests_are_named(requests: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        yao_lower_bound(requests, "star:leaves=3", 2)  # type: ignore[arg-type]


def test_a_tree_that_fits_has_no_widest_set() -> None:
    with pytest.raises(InputError, match="holds all"):
        widest(Forest((-1, -1)), 2)
