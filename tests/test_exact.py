"""Exact competitive ratios: known answers, proofs checked by literal means, mutants refused."""

import dataclasses
import math
import random
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import jax
import numpy as np
import pytest

from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.offline.optimum import optimum
from kvtheory.ratio import empirical_ratio, exact, harmonic, to_instance
from kvtheory.ratio.exact_engine import Exact, Forest, forest, potential
from kvtheory.ratio.exact_engine.engine import states_bound
from kvtheory.ratio.exact_engine.enumerate_forests import forests, pairs
from kvtheory.ratio.exact_engine.layered import VICTIMS, Layered
from kvtheory.ratio.exact_engine.models import MODELS, beliefs
from kvtheory.ratio.exact_engine.rlt import RLT, TokenPhases
from kvtheory.ratio.exact_engine.symmetry import Symmetry
from kvtheory.ratio.exact_engine.work_function import WorkFunctions
from kvtheory.ratio.width import effective_width
from kvtheory.simulate import simulate
from kvtheory.testing import optimum_by_search
from kvtheory.testing.check_exact import (
    CertificateError,
    check_adaptive_bound,
    check_exact_certificate,
)

POLICIES = ("llru", "rlt", "lrlt", "lrlt:stem=true")
THREE_AND_SINGLES = "parents:-1,0,1,-1,-1,-1"
UNEVEN = "parents:-1,-1,-1,0,1"
TWO_AND_SINGLES = "parents:-1,0,-1,-1,-1,-1"

# tree, B, queries, then the ratios of the four policies; None where nothing independent is known
KNOWN = [
    ("star:leaves=3", 2, "leaves", "2", "3/2", "3/2", "3/2"),
    ("star:leaves=4", 3, "leaves", "3", "11/6", "11/6", "11/6"),
    ("star:leaves=4", 2, "leaves", "2", "2", "3/2", "3/2"),
    ("star:leaves=5", 3, "leaves", "3", "8/3", "11/6", "11/6"),
    ("star:leaves=6", 3, "leaves", "3", "8/3", "11/6", "11/6"),
    ("broom:L=3,leaves=3", 4, "leaves", "2", "3/2", "3/2", "3/2"),
    ("broom:L=2,leaves=4", 4, "leaves", "3", "11/6", "11/6", "11/6"),
    ("broom:L=3,leaves=4", 4, "leaves", "2", "2", "3/2", "3/2"),
    ("broom:L=2,leaves=5", 4, "leaves", "3", "8/3", "11/6", "11/6"),
    ("chains:n=3,length=2", 3, "leaves", "4/3", "4/3", "5/4", "7/6"),
    ("chains:n=3,length=2", 3, "all", "2", "2", "25/16", "3/2"),
    ("chains:n=3,length=2", 4, "leaves", "2", "3/2", None, None),
    ("chains:n=3,length=2", 4, "all", "2", "5/2", "3/2", "3/2"),
    ("chains:n=3,length=2", 5, "all", "2", "3/2", "3/2", "3/2"),
    ("chains:n=4,length=2", 4, "leaves", "2", "2", "3/2", "3/2"),
    ("chains:n=4,length=2", 4, "all", "3", "8/3", "11/6", "11/6"),
    ("chains:n=3,length=3", 6, "all", "2", "5/2", "3/2", "3/2"),
    (THREE_AND_SINGLES, 4, "leaves", "2", "29/15", "29/18", "29/18"),
    (THREE_AND_SINGLES, 4, "all", "3", "7/3", "11/6", "11/6"),
    (THREE_AND_SINGLES, 5, "all", "3", "11/6", "11/6", "11/6"),
    (TWO_AND_SINGLES, 5, "leaves", "4", "25/12", None, None),
    (TWO_AND_SINGLES, 5, "all", "4", None, "25/12", "25/12"),
    ("parents:-1,-1,-1,0,1", 3, "all", "2", None, "37/24", "3/2"),
    ("parents:-1,-1,0,0,1,2", 4, "all", "2", None, "49/32", "3/2"),
    ("parents:-1,-1,-1,-1,0,1,2", 5, "all", "3", None, "91/48", "91/48"),
]


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
def test_known_answers(row: tuple) -> None:
    tree, capacity, queries, *ratios = row
    for name, ratio in zip(POLICIES, ratios, strict=True):
        if ratio is None:
            continue
        result = exact(name, tree, capacity, queries=queries)
        assert result.status == "exact"
        assert result.fraction == Fraction(ratio), name
        assert abs(result.ratio - Fraction(ratio)) < 1e-9
        assert result.upper is not None
        assert 0 <= result.upper - Fraction(ratio) < Fraction(1, 10**9)


def test_four_chains_without_symmetry_in_under_a_second() -> None:
    result = exact("rlt", "chains:n=4,length=2", 4, symmetry=False)
    assert result.states == 7_368
    assert result.fraction == Fraction(8, 3)
    assert result.states_bound is not None
    assert result.states <= result.states_bound
    folded = exact("rlt", "chains:n=4,length=2", 4)
    assert (folded.fraction, folded.automorphisms) == (Fraction(8, 3), 24)
    assert 7_368 / 24 <= folded.states < 400


def table(units: int) -> dict[str, int]:
    """Counts over all pairs, and the exceptions."""
    found = dict.fromkeys(("pairs", "lrlt", "stems", "rlt above llru"), 0)
    for tree, capacity in pairs(units):
        llru, rlt, lrlt, stems = (exact(name, tree, capacity).fraction for name in POLICIES)
        assert llru is not None
        assert rlt is not None
        assert lrlt is not None
        assert stems is not None
        assert llru.denominator == 1
        best = harmonic(int(llru))
        assert rlt <= 2 * harmonic(capacity) - 1
        assert best <= stems <= lrlt <= min(llru, rlt)
        found["pairs"] += 1
        found["lrlt"] += lrlt == best
        found["stems"] += stems == best
        found["rlt above llru"] += rlt > llru
    return found


def test_all_forests_of_up_to_four_units() -> None:
    assert table(4) == {"pairs": 19, "lrlt": 19, "stems": 19, "rlt above llru": 0}


@pytest.mark.slow
def test_all_forests_of_up_to_six_units() -> None:
    assert table(6) == {"pairs": 191, "lrlt": 183, "stems": 191, "rlt above llru": 2}


# -- the parts ------------------------------------------------------------------------------


def test_the_work_function_is_the_optimum() -> None:
    rng = random.Random(0)
    for _ in range(60):
        tree = rng.choice(forests(rng.randint(2, 6)))
        capacity = rng.randint(tree.depth, max(tree.depth, tree.units - 1))
        queries = range(tree.units)
        work = WorkFunctions(tree, capacity, queries)
        w, total = work.start(), 0
        asked: list[list[int]] = []
        for _ in range(rng.randint(1, 9)):
            q = rng.choice(queries)
            nexts, increases = work.after(np.array([w]))
            w, total = int(nexts[0, q]), total + int(increases[0, q])
            asked.append(tree.path(q))
            assert total == optimum_by_search(asked, capacity)
        assert work.values[w].min() == 0


def test_symmetry_changes_nothing() -> None:
    for tree, capacity in (("chains:n=3,length=2", 4), ("star:leaves=5", 3), ((-1, 0, 0, -1), 2)):
        for name in ("llru", "fifo", "rlt", "lrlt"):
            folded, plain = (exact(name, tree, capacity, symmetry=s) for s in (True, False))
            assert folded.fraction == plain.fraction
            assert plain.states <= folded.states * folded.automorphisms
            assert folded.states <= plain.states


def test_a_group_that_is_cut_down_is_as_right() -> None:
    tree = forest("star:leaves=5")
    whole, part = Symmetry(tree, range(5)), Symmetry(tree, range(5), most=10)
    assert (whole.order, part.order) == (120, 6)
    members = set(part.as_tuples)
    for p in members:
        for r in members:
            assert tuple(p[r[u]] for u in range(5)) in members
    first, second = np.arange(6), np.array([3, 1, 5, 0, 2, 4])
    for a, b, both in zip(first, second, part.then(first, second), strict=True):
        then = [part.as_tuples[b][image] for image in part.as_tuples[a]]
        assert tuple(then) == part.as_tuples[both]


def test_automorphisms_keep_the_queries() -> None:
    tree = forest("star:leaves=4")
    assert Symmetry(tree, (0, 1)).order == 4
    assert exact("llru", tree, 2, queries=[0, 1, 2]).fraction == 2


def by_bisection(result: Exact, name: str) -> float:
    """The ratio by another method: bisection, with Bellman-Ford for the sign of the best cycle."""
    tree = Forest(result.parents)
    model = beliefs(name).on(tree, result.capacity)
    work = WorkFunctions(tree, result.capacity, result.queries)
    number: dict[tuple[Hashable, int], int] = {}
    edges: list[tuple[int, int, float, int]] = []
    start = (model.belief_init(), work.start())
    to_do = [start]
    number[start] = 0
    while to_do:
        state = to_do.pop()
        after, increase = work.after(np.array([state[1]]))
        for place, q in enumerate(result.queries):
            cost, belief = model.belief_step(state[0], q)
            then = (belief, int(after[0, place]))
            if then not in number:
                number[then] = len(number)
                to_do.append(then)
            edges.append((number[state], number[then], float(cost), int(increase[0, place])))
    low, high = 0.0, 2.0 * result.capacity + 1
    for _ in range(40):
        middle = (low + high) / 2
        longest = [0.0] * len(number)
        for _ in range(len(number)):
            changed = False
            for a, b, cost, increase in edges:
                if longest[a] + cost - middle * increase > longest[b] + 1e-9:
                    longest[b] = longest[a] + cost - middle * increase
                    changed = True
            if not changed:
                break
        low, high = (middle, high) if changed else (low, middle)
    return low


@pytest.mark.parametrize("name", POLICIES)
def test_another_method_finds_the_same(name: str) -> None:
    for tree, capacity in (("star:leaves=3", 2), ("parents:-1,0,-1", 2)):
        result = exact(name, tree, capacity)
        assert by_bisection(result, name) == pytest.approx(result.ratio, abs=1e-6)


# -- proofs ---------------------------------------------------------------------------------

SMALL = [
    ("star:leaves=4", 2, "all"),
    ("parents:-1,-1,-1,0,1", 3, "all"),
    ("chains:n=3,length=2", 4, "leaves"),
    ("parents:-1,0,0,-1,2", 3, "all"),
]


@pytest.mark.parametrize("name", [*POLICIES, "fifo", "mru", "slru", "lfu:cap=3"])
def test_proofs_hold(name: str) -> None:
    for tree, capacity, queries in SMALL:
        result = exact(name, tree, capacity, queries=queries)
        report = check_exact_certificate(result)
        if result.status == "unbounded":
            assert math.isinf(result.ratio)
        else:
            assert (report.states, report.edges) == (result.states, result.edges)


@pytest.mark.slow
def test_proofs_hold_on_all_forests_of_up_to_five_units() -> None:
    for tree, capacity in pairs(5):
        for name in POLICIES:
            result = exact(name, tree, capacity)
            report = check_exact_certificate(result)
            assert (report.states, report.edges) == (result.states, result.edges)


def spoiled(result: Exact, **changes: object) -> Exact:
    certificate = dataclasses.replace(result.certificate, **changes)  # type: ignore[type-var]
    return dataclasses.replace(result, certificate=certificate)


def test_a_proof_that_is_tampered_with_is_refused() -> None:
    result = exact("rlt", "parents:-1,-1,-1,0,1", 3)
    proof = result.certificate
    assert proof is not None
    assert result.upper is not None
    lower = result.upper * Fraction(99, 100)
    nothing = {"cycle": (), "cycle_cost": Fraction(0), "cycle_optimum": 0}
    told = dataclasses.replace(result, upper=lower, fraction=lower, **nothing)
    with pytest.raises(CertificateError, match="is more than"):
        check_exact_certificate(spoiled(told, ratio=lower))
    with pytest.raises(CertificateError, match="the cycle"):
        check_exact_certificate(dataclasses.replace(result, fraction=lower))
    with pytest.raises(CertificateError, match="the proof is for"):
        check_exact_certificate(dataclasses.replace(result, upper=lower))
    # no edge leads to the start, so there a larger potential is a proof as well
    for s in np.random.default_rng(0).permutation(np.arange(1, result.states))[:12]:
        potential = proof.potential.copy()
        potential[s] += 5 * proof.scale
        with pytest.raises(CertificateError, match="is more than"):
            check_exact_certificate(spoiled(result, potential=potential))
    swapped = proof.next.copy()
    swapped[1] = swapped[1, ::-1]
    with pytest.raises(CertificateError):
        check_exact_certificate(spoiled(result, next=swapped))
    with pytest.raises(CertificateError, match="automorphism"):
        check_exact_certificate(
            spoiled(result, permutations=np.roll(proof.permutations, 1, axis=1))
        )


def test_costs_that_do_not_fit_are_rounded_against_us(monkeypatch) -> None:
    monkeypatch.setattr(potential, "ROOM", 1)
    for name in POLICIES:
        result = exact(name, "parents:-1,-1,-1,0,1", 3)
        assert result.upper is not None
        assert result.fraction is not None
        assert 0 < result.upper - result.fraction < Fraction(1, 10**9)
        check_exact_certificate(result)


class FirstMissing(TokenPhases):
    """A mutant of fact 2: the clean units of a query that is being served are forgotten."""

    def _gone_uncached(self, stale: int, clean: int, v: int) -> Fraction:
        return super()._gone_uncached(stale, max(0, clean - 1), v)


class Mutant(RLT):
    """RLT with that belief, under its name."""

    def on(self, forest: Forest, capacity: int) -> TokenPhases:
        return FirstMissing(forest, capacity)


def test_a_wrong_belief_is_refused() -> None:
    result = exact(Mutant(), "chains:n=3,length=2", 4)
    with pytest.raises(CertificateError):
        check_exact_certificate(result)


def test_a_stem_is_not_what_is_called_uniform() -> None:
    result = exact("lrlt:stem=true", "chains:n=3,length=2", 3)
    with pytest.raises(CertificateError):
        check_exact_certificate(dataclasses.replace(result, policy="lrlt"))


def test_any_belief_joins() -> None:
    class Flush:
        """Drops all it has when a query does not fit: no symmetry, no bound, no name needed."""

        name = "flush"

        def on(self, forest: Forest, capacity: int) -> "Flush":
            self.forest, self.capacity = forest, capacity
            return self

        def belief_init(self) -> int:
            return 0

        def belief_step(self, belief: int, query: int) -> tuple[Fraction, int]:
            path = self.forest.path_mask(query)
            if (belief | path).bit_count() > self.capacity:
                belief = 0
            return Fraction((path & ~belief).bit_count()), belief | path

    result = exact(Flush(), "star:leaves=3", 2)
    assert (result.fraction, result.automorphisms, result.states_bound) == (2, 1, None)


# -- worst cases in the driver ------------------------------------------------------------------


def asymptotic(result: Exact, seeds: int) -> tuple[float, float]:
    worst = to_instance(result, cycles=400)
    run = simulate(
        worst, result.capacity, policy(result.policy), seeds=seeds, key=jax.random.key(0)
    )
    whole = optimum(worst, result.capacity)
    half = optimum(worst.prefix(worst.requests // 2), result.capacity)
    ratio = empirical_ratio(run, whole, kind="asymptotic", half=half, confidence=0.99)
    return ratio.low, ratio.high


@pytest.mark.slow
@pytest.mark.parametrize(("tree", "capacity"), [("chains:n=3,length=2", 4), (THREE_AND_SINGLES, 4)])
def test_worst_cases_can_be_replayed(tree: str, capacity: int) -> None:
    result = exact("rlt", tree, capacity)
    low, high = asymptotic(result, seeds=256)
    period = 1 / 400  # the halves may be off by one cycle
    assert low - period <= result.ratio <= high + period
    assert high - low < 0.05
    result = exact("lrlt", tree, capacity)
    low, high = asymptotic(result, seeds=256)
    assert low - period <= result.ratio <= high + period
    result = exact("llru", tree, capacity)
    low, high = asymptotic(result, seeds=1)
    assert low == high == pytest.approx(result.ratio, rel=0.02)


def test_requests_of_a_worst_case() -> None:
    result = exact("llru", "star:leaves=3", 2)
    assert list(result.requests(2)) == [*result.prefix, *result.cycle, *result.cycle]
    with pytest.raises(InputError, match="cycles"):
        to_instance(result, cycles=0)
    fits = exact("llru", "star:leaves=3", 3)
    assert (fits.fraction, fits.cycle) == (1, ())
    with pytest.raises(InputError, match="no cycle"):
        to_instance(fits)


# -- limits and mistakes ------------------------------------------------------------------------


def test_a_search_that_is_stopped_has_a_lower_bound() -> None:
    told: list[tuple[str, float]] = []
    result = exact(
        "rlt",
        "chains:n=4,length=2",
        4,
        symmetry=False,
        max_states=3_000,
        progress=lambda what, done: told.append((what, done)),
    )
    assert result.status == "states"
    assert result.certificate is None
    assert result.upper is None
    assert result.fraction is not None
    assert 1 < result.fraction <= Fraction(8, 3)
    assert result.cycle_cost == result.fraction * result.cycle_optimum
    assert "at most 219,750,000 states" in told[0][0]
    assert sum(done for _, done in told) == pytest.approx(1)
    late = exact("lrlt", "chains:n=4,length=2", 4, time_limit=1e-9)
    assert late.status == "time"
    assert repr(late).endswith("states)")


def test_bounds_on_the_number_of_states() -> None:
    for name in ("llru", "fifo", "lfu:cap=2", "rlt"):
        for tree, capacity in pairs(4):
            result = exact(name, tree, capacity, symmetry=False)
            bound = states_bound(beliefs(name).on(tree, capacity), tree, capacity)
            assert bound is not None
            assert result.states <= bound


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("llur", "star:leaves=3", 2), ["llur", "llru"]),
        (("rlt:phase=never", "star:leaves=3", 2), ["phase", "never"]),
        (("lfu:cap=0", "star:leaves=3", 2), ["cap", "0"]),
        (("llru", "stra:leaves=3", 2), ["stra", "star"]),
        (("llru", "star:leafs=3", 2), ["leafs", "leaves"]),
        (("llru", "star:leaves=x", 2), ["leaves", "whole"]),
        (("llru", "star:leaves=0", 2), ["leaves", "at least 1"]),
        (("llru", "broom:leaves=3", 2), ["L is missing", "broom:L=…"]),
        (("llru", "broom:L=3,leaves=2", 2), ["capacity", "3 units"]),
        (("llru", "star:leaves=16", 2), ["16 units", "15"]),
        (("llru", (-1, 2, 0), 2), ["parents[1]", "2"]),
        (("llru", "star:leaves=3", 0), ["capacity", "0"]),
    ],
)
def test_mistakes_are_named(arguments: tuple, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        exact(*arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"queries": "some"}, "queries"),
        ({"queries": []}, "queries"),
        ({"queries": [7]}, "queries"),
        ({"objective": "cost"}, "objective"),
        ({"max_states": 0}, "max_states"),
        ({"time_limit": 0}, "time_limit"),
    ],
)
def test_bad_options_are_named(options: dict, word: str) -> None:
    with pytest.raises(InputError, match=word):
        exact("llru", "star:leaves=3", 2, **options)


def test_every_model_has_its_name() -> None:
    assert all(kind.name == name for name, kind in MODELS.items())


# -- policies without a finite belief -----------------------------------------------------------


@cache
def bounded() -> Exact:
    """Random eviction on a star of three."""
    return exact("random_leaf", "star:leaves=3", 2)


def test_random_eviction_is_no_better_than_lru() -> None:
    # its ratio on a star is k (Raghavan and Snir 1989), which no cycle reaches
    result = bounded()
    assert result.status == "lower bound"
    assert result.upper is not None
    assert 2 < result.upper < 3.001
    assert repr(result).startswith("Exact(random_leaf, B=2, parents=[-1, -1, -1]: >= ")
    assert 1.9 < result.ratio < 2
    assert result.fraction == result.cycle_cost / result.cycle_optimum


@pytest.mark.slow
def test_the_bound_of_a_cycle_is_met_in_the_driver() -> None:
    result = exact("rlt:phase=query", "chains:n=3,length=2", 4)
    assert result.status == "lower bound"
    low, high = asymptotic(result, seeds=128)
    assert low - 0.01 <= result.ratio <= high + 0.01


def test_query_phases_on_a_star_are_marking() -> None:
    for leaves, capacity, ratio in ((3, 2, "3/2"), (4, 2, "2"), (4, 3, "11/6")):
        result = exact("rlt:phase=query", f"star:leaves={leaves}", capacity)
        assert (result.status, result.fraction) == ("exact", Fraction(ratio))
        check_exact_certificate(result)


def test_published_phases_are_not_marking() -> None:
    # marks are cleared when B − 1 units have them: on a star of B + 1 leaves that is above H_B
    result = exact("rlt:phase=published", "star:leaves=3", 2)
    assert result.ratio > 1.9


@pytest.mark.parametrize(
    ("policy", "tree", "capacity"),
    [
        ("rlt:phase=query", "chains:n=3,length=2", 4),
        ("rlt:phase=published", "star:leaves=4", 3),
        ("random_leaf", "chains:n=3,length=2", 4),
    ],
)
@pytest.mark.slow
def test_bounds_from_above_hold(policy: str, tree: str, capacity: int) -> None:
    result = exact(policy, tree, capacity)
    assert result.fraction is not None
    assert result.fraction < result.upper
    report = check_adaptive_bound(result)
    assert report.states == len(result.adaptive.potential)


def test_a_bound_from_above_that_is_tampered_with_is_refused() -> None:
    result = bounded()
    assert check_adaptive_bound(result).states == len(result.adaptive.potential)
    proof = result.adaptive
    lower = replace(proof, ratio=proof.ratio * Fraction(99, 100))
    with pytest.raises(CertificateError, match="more than"):
        check_adaptive_bound(replace(result, adaptive=lower, upper=lower.ratio))
    with pytest.raises(CertificateError, match="no bound"):
        check_adaptive_bound(replace(result, adaptive=lower))
    moved = list(proof.potential)
    moved[1] += 1
    with pytest.raises(CertificateError, match="more than"):
        check_adaptive_bound(replace(result, adaptive=replace(proof, potential=tuple(moved))))
    fewer = {c: getattr(proof, c)[:-1] for c in ("cached", "marked", "work", "potential")}
    with pytest.raises(CertificateError, match="has no potential"):
        check_adaptive_bound(replace(result, adaptive=replace(proof, **fewer)))


@pytest.mark.slow
def test_a_query_phase_on_three_chains_is_decided_but_for_rounding() -> None:
    result = exact("rlt:phase=query", "chains:n=3,length=2", 4)
    assert result.fraction == Fraction(5, 2)
    assert result.upper < Fraction(5, 2) + Fraction(1, 10_000)


# -- layered policies with other victims ----------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "capacity", "ratios"),
    [
        # uniform, stem, oldest, priority, cache
        ("star:leaves=4", 3, ("11/6", "11/6", "3", "11/6", "11/6")),
        (UNEVEN, 3, ("37/24", "3/2", "2", "37/24", "3/2")),
        ("broom:L=2,leaves=3", 3, ("3/2", "3/2", "2", "3/2", "3/2")),
    ],
)
def test_victims_of_layered_policies(tree: str, capacity: int, ratios: tuple) -> None:
    for victim, ratio in zip(VICTIMS, ratios, strict=True):
        result = exact(f"layered:victim={victim}", tree, capacity)
        assert (result.status, result.fraction) == ("exact", Fraction(ratio))
        if victim != "priority" or tree.startswith("broom"):  # all orders of many units take long
            check_exact_certificate(result)


@pytest.mark.slow
def test_proofs_of_priorities_hold() -> None:
    for tree, capacity in (("star:leaves=4", 3), (UNEVEN, 3), ("chains:n=2,length=2", 3)):
        check_exact_certificate(exact("layered:victim=priority", tree, capacity))


def test_a_layered_policy_with_the_oldest_victim_is_leaf_lru() -> None:
    for tree, capacity in pairs(4):
        layered = exact("layered:victim=oldest", tree, capacity)
        assert layered.fraction == exact("llru", tree, capacity).fraction


@pytest.mark.slow
def test_priorities_beat_stems_on_the_two_trees_where_stems_are_above_the_least_ratio() -> None:
    for tree, stems, priority in (
        ("parents:-1,0,-1,2,-1,4,-1", "91/48", "169/90"),
        ("parents:-1,0,-1,2,-1,-1,-1", "301/144", "25/12"),
    ):
        assert exact("lrlt:stem=true", tree, 5).fraction == Fraction(stems)
        assert exact("layered:victim=cache", tree, 5).fraction == Fraction(stems)
        assert exact("layered:victim=priority", tree, 5).fraction == Fraction(priority)


@pytest.mark.slow
def test_a_uniform_cache_has_the_least_ratio_on_all_forests_of_up_to_six_units() -> None:
    for tree, capacity in pairs(6):
        least = harmonic(effective_width(tree.as_tree(), capacity))
        assert exact("layered:victim=cache", tree, capacity).fraction == least


def test_a_victim_of_ones_own() -> None:
    def first(forest: Forest, cached: int, prefix: int) -> dict[int, int]:
        return {min(u for u in forest.leaves_of(cached) if prefix >> u & 1): 1}

    # deterministic and layered, so not above the effective width and not below it
    assert exact(Layered(first), "star:leaves=4", 3).fraction == 3
    with pytest.raises(InputError, match="victim"):
        Layered("youngest")
    with pytest.raises(InputError, match="at most 8"):
        exact("layered:victim=priority", "star:leaves=9", 5)
