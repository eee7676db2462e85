"""The benchmark: its arithmetic, and that every case runs on a small instance."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from kvtheory import cli
from kvtheory.bench import CASES, Measurement, history, kvcache_simulator, machine, rivals, run
from kvtheory.bench.cases import Setting
from kvtheory.bench.measure import rate, seconds, timed, timed_apart, times_faster
from kvtheory.bench.page import page
from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.simulate import simulate, simulate_capacities


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


@pytest.mark.slow
def test_cases_run():
    setting = Setting(repeats=1)
    small = shared_prefix(groups=4, prompts=8, lengths=(64, 128), block_size=16)
    vars(setting)["gsp"] = vars(setting)["gsp_tokens"] = small
    measured = list(run(("leaf_lru", "rlt", "by_key", "building", "optima"), setting))
    assert len(measured) > 8
    for m in measured:
        assert m.value is None or m.value > 0
        assert m.value is not None or "needs" in m.note


def test_runs_apart_from_compiling():
    waits = iter([0.03, 0.001, 0.001, 0.001])
    times, compiling = timed_apart(lambda: time.sleep(next(waits)), 3)
    assert len(times) == 3
    assert 0.02 < compiling < 10
    assert timed_apart(lambda: None, 1)[1] >= 0


def test_unrolled_units():
    instance = Instance.from_tokens([[1, 2], [], [1, 3], [1, 2]])
    assert rivals.units_asked_for(instance).tolist() == [0, 1, 0, 2, 0, 1]
    flat = rivals.paging(instance)
    assert flat.requests == instance.units_requested
    assert flat.tree.units == instance.tree.units
    with rivals.unrolled(instance) as path:
        record = np.fromfile(path, rivals.RECORD)
    assert record["id"].tolist() == flat.query.tolist()
    assert record["next"].tolist() == [2, 5, 4, -1, -1, -1]
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LRU", "FIFO", "Belady"])
def test_libcachesim_hits_as_often_on_unrolled_units(name: str):
    pytest.importorskip("libcachesim")
    instance = shared_prefix(groups=8, prompts=8, lengths=(64, 256), block_size=16)
    flat = rivals.paging(instance)
    for capacity in (7, 40, 100):
        with rivals.unrolled(instance) as path:
            times, rate = rivals.libcachesim_seconds(path, name, capacity, 1)
        ours = simulate(flat, capacity, policy(rivals.POLICIES[name]))
        assert round(rate * flat.requests) == ours.total_hits[0]
        assert len(times) == 1


@pytest.mark.slow
def test_kvcache_simulator_hits_as_many_tokens():
    pytest.importorskip("kvcache_sim")
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    instance = shared_prefix(groups=8, prompts=8, lengths=(64, 250), block_size=16)
    warmup, capacities = 32, [16, 40, 100]
    _, theirs = kvcache_simulator.lru_seconds(instance, capacities, warmup, 1)
    runs = simulate_capacities(instance, capacities, policy("llru"))
    tokens = instance.tokens[warmup:]
    hits = [np.minimum(r.hits[0, warmup:].astype(int) * 16, tokens).sum() for r in runs]
    assert theirs == hits
    assert hits[-1] > hits[0] > 0


@pytest.mark.slow
def test_cases_against_rivals_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kvtheory.bench.width.LANES", (1, 4))
    monkeypatch.setattr("kvtheory.bench.width.COPIED", 1 << 16)
    monkeypatch.setattr("kvtheory.bench.step_cases.QUERIES", 1 << 8)
    setting = Setting(repeats=1)
    small = shared_prefix(groups=4, prompts=8, lengths=(64, 128), block_size=16)
    vars(setting)["gsp"] = vars(setting)["small"] = small
    measured = list(run(("curve", "rivals", "twins", "width", "steps"), setting))
    assert len(measured) == 5 + 8 + 6 + 5 + 16
    for m in measured:
        assert "NOT EQUAL" not in m.note
        assert m.value is None or m.unit == "ns" or m.value > 0
        assert m.value is not None or "needs" in m.note
    assert {m.name for m in measured} >= {"rlt, 4 lanes", "fifo, evicting a unit"}


def test_history(tmp_path: Path):
    file = tmp_path / "history.jsonl"
    runs = [
        ({"date": "2026-01-01", "jax": "0.12"}, [Measurement("a", 2.0, "s", 1.0, 3.0, "<= 3")]),
        ({"date": "2026-01-02", "jax": "0.13"}, [Measurement("b", None, "x", note="needs b")]),
    ]
    for told, measured in runs:
        history.append(file, told, measured)
    assert history.read(file) == runs
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(InputError, match="line 3: not a run of the benchmark"):
        history.read(file)


def test_page():
    measured = [Measurement("a|b", 1234.5, "x", 1.0, 2000.0, ">= 100", "on it", 0.5)]
    told = page({"processor": "abacus"}, [("rlt", measured), ("curve", [])])
    assert "| processor | abacus |" in told
    assert "| a∣b | 1,234 | x | 1 | 2,000 | >= 100 | yes | 0.500 | on it |" in told
    assert "## rlt\n\nRLT, exact in law." in told
    assert told.endswith("|\n")


def test_an_unknown_case_is_named():
    with pytest.raises(InputError, match="did you mean rlt"):
        list(run(["rtl"]))
    assert "million" in CASES


@pytest.mark.slow
def test_command(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("kvtheory.bench.hardware.use_cores", lambda number: None)
    files = ["--history", str(tmp_path / "h.jsonl"), "--markdown", str(tmp_path / "page.md")]
    assert cli.main(["bench", "--only", "building", "--repeats", "1", "--json", *files]) == 0
    told = json.loads(capsys.readouterr().out)
    ((machine_told, kept),) = history.read(tmp_path / "h.jsonl")
    assert machine_told == told["machine"]
    assert [m.as_dict() for m in kept] == told["measurements"]
    assert "## building" in (tmp_path / "page.md").read_text()
    assert told["machine"]["jax"]
    assert told["measurements"][0]["unit"] == "s"
    assert cli.main(["bench", "--repeats", "0"]) == cli.BAD_INPUT
    assert cli.main(["bench", "--only", "rtl"]) == cli.BAD_INPUT
    nowhere = str(tmp_path / "nowhere" / "file")
    for option in ("--history", "--markdown"):
        assert cli.main(["bench", option, nowhere]) == cli.BAD_INPUT
