"""The registry of claims, its runner, its page in the docs, and its counterexamples."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from kvtheory import cli
from proofs_check import CLAIMS, Claim, Counterexample, Mutant, Refuted, Undecided, failures, run
from proofs_check.judge import forests
from proofs_check.judge.games import minimax_regret, value_of_game
from proofs_check.judge.longest import most_gained
from proofs_check.judge.markov import average_reward
from proofs_check.mutation import MUTATIONS, mutated
from proofs_check.replays import FOLDER, load, replay, save
from proofs_check.runner import repeated
from proofs_check.show import as_markdown, as_table, detail

ROOT = Path(__file__).resolve().parents[1]
# a second or less each; all others run in `kvtheory check`
FAST = ("5", "7b", "8", "13b", "13c", "15", "17d")


# -- registry and docs -----------------------------------------------------------------------


def test_all_eighteen_claims_are_there():
    numbers = [int(claim.id.rstrip("bcd")) for claim in CLAIMS]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, 19))
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_no_claim_lacks_a_part(claim):
    assert callable(claim.check)
    assert claim.mutants
    assert len({mutant.name for mutant in claim.mutants}) == len(claim.mutants)
    for text in (claim.title, claim.statement, claim.latex, claim.source, claim.assumptions):
        assert text.strip()
    assert claim.method
    assert all(claim.scope)
    assert 0 < claim.seconds[0] <= claim.seconds[1]
    assert "proved" not in claim.statement + claim.title
    assert len(claim.title) <= 46


def test_the_page_in_the_docs_is_that_of_the_registry():
    page = (ROOT / "docs" / "claims.md").read_text()
    assert page == as_markdown(CLAIMS), "kvtheory check --markdown > docs/claims.md"
    assert (ROOT / "docs" / "figures" / "claim14.png").is_file()


def test_the_budget_of_the_quick_run_is_under_three_minutes():
    assert sum(claim.seconds[0] for claim in CLAIMS) < 180


# -- runner ----------------------------------------------------------------------------------


def toy(**changes) -> Claim:
    def check(subject, task):
        task.tell("looking")
        if subject < 0:
            raise Refuted("negative", Counterexample([[1]], 1, "negative"))
        if subject > 9:
            raise Undecided("large")
        return f"it is {subject}"

    made = Claim(
        id="1",
        title="toy",
        statement="The number is not negative.",
        latex="x \\ge 0",
        source="here",
        assumptions="none",
        method="exhaustive",
        scope=("one", "one"),
        seconds=(1, 1),
        subject=1,
        check=check,
        mutants=(Mutant("negative", -1),),
    )
    return replace(made, **changes)


def test_a_claim_that_holds():
    told = []
    (row,) = run([toy()], tell=told.append)
    assert (row.verdict, row.evidence, row.killed, row.survived) == (
        "holds",
        "it is 1",
        ("negative",),
        (),
    )
    assert row.ok
    assert not failures([row])
    assert "1: looking" in told


@pytest.mark.parametrize(("subject", "verdict"), [(-1, "refuted"), (10, "open")])
def test_a_claim_that_should_hold_and_does_not(subject, verdict):
    (row,) = run([toy(subject=subject)])
    assert row.verdict == verdict
    assert any("should be holds" in line for line in failures([row]))


def test_a_mutant_that_survives():
    (row,) = run([toy(mutants=(Mutant("harmless", 2),))])
    assert not row.ok
    assert failures([row]) == ["claim 1 lets a mutant pass: harmless"]
    assert row.as_dict()["survived"] == 1


def test_a_claim_that_is_refuted_as_stated():
    (row,) = run([toy(subject=-1, expected="refuted", mutants=(Mutant("positive", 1),))])
    assert row.ok
    assert row.counterexample == Counterexample([[1]], 1, "negative")
    assert "refuted by:" in detail(row)
    assert "refuted" in as_table([row])


def test_an_error_in_a_check_is_no_verdict():
    with pytest.raises(TypeError):
        run([toy(subject="one")])


def unlucky(subject, task):
    if task.seed % 3 == subject:
        raise Refuted("bad luck")


def test_what_is_drawn_is_repeated_with_many_seeds():
    seen = []
    claim = toy(drawn=unlucky, check=lambda subject, task: 1 / 0)
    failed = repeated(claim, 6, first=2, finished=lambda seed, verdict: seen.append(seed))
    assert failed == [4, 7]
    assert seen == [2, 3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="draws nothing"):
        repeated(toy(), 2)


def test_statistical_claims_say_what_they_draw():
    for claim in CLAIMS:
        assert (claim.drawn is not None) == ("statistical" in claim.method)


def test_command_with_many_seeds(capsys, monkeypatch):
    monkeypatch.setattr("proofs_check.registry.CLAIMS", (toy(drawn=unlucky), toy(id="2")))
    assert cli.main(["check", "--seeds", "4"]) == 1
    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if " toy" in line)
    assert row[:4] == ["1", "toy", "4", "1"]
    assert cli.main(["check", "--seeds", "4", "--id", "2"]) == 2
    assert "leave out --seeds" in capsys.readouterr().err


# -- claims ----------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.id in FAST], ids=lambda claim: claim.id)
def test_fast_claims_come_out_as_stated(claim):
    assert not failures(run([claim]))


@pytest.mark.slow
def test_all_claims_come_out_as_stated():
    assert not failures(run(CLAIMS))


def test_the_mutation_run_fits_the_sources():
    for mutation in MUTATIONS:
        assert mutated(mutation)
        assert set(mutation.claims) <= {claim.id for claim in CLAIMS}


# -- counterexamples -------------------------------------------------------------------------

REFUTED = [claim.id for claim in CLAIMS if claim.expected == "refuted"]


@pytest.mark.parametrize("claim", REFUTED)
def test_the_driver_replays_every_counterexample(claim):
    instance = load(claim)
    hits = replay(instance)
    expected = instance.parameters["replayed"]
    assert all(hits[policy] == expected[policy] for policy in expected)
    assert all(len(found) == instance.requests for found in hits.values())


def test_nothing_else_lies_with_the_counterexamples():
    assert sorted(p.name for p in FOLDER.iterdir()) == sorted(f"claim-{c}.jsonl" for c in REFUTED)


def test_a_check_finds_the_counterexample_that_is_stored(tmp_path):
    rows = run([claim for claim in CLAIMS if claim.id in ("7b", "13b")], mutants=False)
    save([(row.claim.id, row.counterexample) for row in rows], tmp_path)
    for row in rows:
        name = f"claim-{row.claim.id}.jsonl"
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


# -- judges ----------------------------------------------------------------------------------


def test_forests_up_to_isomorphism():
    assert [len(forests.small_forests(n)) for n in range(1, 7)] == [1, 2, 4, 9, 20, 48]
    assert len(list(forests.small_pairs(6))) == 191


def test_work_function_of_a_star():
    work = forests.WorkFunction((-1, -1, -1), 2)
    w, total = work.start, 0
    for q in (0, 1, 2, 0):
        increase, w = work.after(w, 1 << q)
        total += increase
    assert total == 3


def test_longest_paths_and_cycles_that_gain():
    def moves(state):
        return [(0, 1, state + 1)] if state < 3 else [(1, -3, 0)]

    assert most_gained(0, moves, allowed=3) == (3, None, 4)
    assert most_gained(0, moves, allowed=2)[1] == [0, 0, 0]
    assert most_gained(0, moves, allowed=None)[1] is None

    def gains(state):
        return [(state, 1, 1 - state)]

    assert sorted(most_gained(0, gains, allowed=None)[1]) == [0, 1]


def test_average_reward_of_two_states():
    third = Fraction(1, 3)

    def moves(state):
        return [(third, 3, 0), (2 * third, 0, 1)] if state == 0 else [(Fraction(1), 1, 0)]

    assert average_reward(0, moves) == Fraction(3, 5) * 1 + Fraction(2, 5)


def test_values_of_games():
    assert value_of_game([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]]) == Fraction(1, 2)
    assert [minimax_regret(2, T) for T in (1, 2, 3)] == [
        Fraction(1, 2),
        Fraction(1, 2),
        Fraction(3, 4),
    ]


# -- command ---------------------------------------------------------------------------------


def test_command_as_json(capsys):
    assert cli.main(["check", "--id", "13c", "15", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == ["13c", "15", "15b"]
    for key in ("verdict", "method", "scope", "mutants", "survived", "seconds"):
        assert key in rows[0]
    assert [row["verdict"] for row in rows] == ["refuted", "holds", "refuted"]


def test_command_as_table(capsys):
    assert cli.main(["check", "--id", "13c", "--list"]) == 0
    assert "refuted" in capsys.readouterr().out


def test_command_prints_the_page(capsys):
    assert cli.main(["check", "--markdown"]) == 0
    assert capsys.readouterr().out == as_markdown(CLAIMS)


def test_command_with_an_unknown_claim(capsys):
    assert cli.main(["check", "--id", "19"]) == 2
    assert "unknown claim" in capsys.readouterr().err


def test_command_fails_if_a_mutant_survives(capsys, monkeypatch):
    (claim,) = (c for c in CLAIMS if c.id == "13c")
    broken = replace(claim, mutants=(Mutant("harmless", claim.subject),))
    monkeypatch.setattr("proofs_check.registry.CLAIMS", (broken,))
    assert cli.main(["check"]) == 1
    assert "lets a mutant pass: harmless" in capsys.readouterr().err


def test_the_map_of_claim_14():
    from kvtheory.report.plot import blank
    from proofs_check.worse_map import ratios_up_to, worse_than_lru

    pairs = ratios_up_to(4)
    ax = worse_than_lru(pairs, blank(4.0, 4.0).subplots())
    assert sum(len(c.get_offsets()) for c in ax.collections) == len(set(pairs))
    assert np.isclose(ax.get_xlim(), ax.get_ylim()).all()
