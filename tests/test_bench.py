"""The benchmark: its arithmetic, and that every case runs on a small instance."""

import json

import pytest

from kvtheory import cli
from kvtheory.bench import CASES, Measurement, machine, run
from kvtheory.bench.cases import Setting
from kvtheory.bench.measure import rate, seconds, timed, times_faster
from kvtheory.errors import InputError
from kvtheory.instances import shared_prefix


def test_goals():
    assert Measurement("a", 2.0, "s", goal="<= 2").met
    assert not Measurement("a", 2.1, "s", goal="<= 2").met
    assert Measurement("a", 2e6, "queries/s", goal=">= 1e6").met
    assert Measurement("a", None, "s", goal="<= 2").met is None
    assert Measurement("a", 1.0, "s").met is None


def test_medians_and_spreads():
    time = seconds("a", [3.0, 1.0, 2.0])
    assert (time.value, time.low, time.high) == (2, 1, 3)
    speed = rate("a", 12, [3.0, 1.0, 2.0], "queries/s")
    assert (speed.value, speed.low, speed.high) == (6, 4, 12)
    # the slow one needs 2 s for a quarter of the work, so 8 s
    faster = times_faster("a", [2.0], [0.5, 0.25, 1.0], share=0.25)
    assert (faster.value, faster.low, faster.high) == (16, 8, 32)


def test_the_first_run_does_not_count():
    calls = []
    assert len(timed(lambda: calls.append(1), 3)) == 3
    assert len(calls) == 4


def test_machine():
    told = machine()
    assert told["processor"]
    assert told["jax"][0].isdigit()
    assert "kvtheory" in told


def test_cases_run():
    setting = Setting(repeats=1)
    small = shared_prefix(groups=4, prompts=8, lengths=(64, 128), block_size=16)
    vars(setting)["gsp"] = vars(setting)["gsp_tokens"] = small
    measured = list(run(("leaf_lru", "rlt", "by_key", "building", "optima"), setting))
    assert len(measured) > 8
    for m in measured:
        assert m.value is None or m.value > 0
        assert m.value is not None or "needs" in m.note


def test_an_unknown_case_is_named():
    with pytest.raises(InputError, match="did you mean rlt"):
        list(run(["rtl"]))
    assert "million" in CASES


@pytest.mark.slow
def test_command(capsys, monkeypatch):
    monkeypatch.setattr("kvtheory.bench.hardware.use_cores", lambda number: None)
    assert cli.main(["bench", "--only", "building", "--repeats", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machine"]["jax"]
    assert told["measurements"][0]["unit"] == "s"
    assert cli.main(["bench", "--repeats", "0"]) == cli.BAD_INPUT
