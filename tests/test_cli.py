"""The command line: what it prints, what it refuses and how, what it leaves behind."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvtheory import cli
from kvtheory.commands.output import Progress

STAR = "cyclic_broom:capacity=3,rounds=20"
KEYS = [
    "source", "policy", "admission", "oversize", "capacity_units", "requests", "units", "hits",
    "misses", "hit_rate_units", "hit_rate_tokens", "hit_rate_requests", "seeds", "ratio",
    "ratio_low", "ratio_high", "optimum_low", "optimum_high", "method", "seconds",
]  # fmt: skip


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    told = capsys.readouterr()
    return code, told.out, told.err


def ok(capsys, *arguments: str) -> str:
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out


def refused(capsys, *arguments: str) -> str:
    code, out, err = run(capsys, *arguments)
    assert code == cli.BAD_INPUT
    assert out == ""
    assert err.startswith("kvtheory: error: ")
    assert len(err.splitlines()) <= 2
    return err


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


# -- ratio -------------------------------------------------------------------------------


def test_table(capsys):
    out = ok(capsys, "ratio", STAR, "--eviction", "llru", "rlt", "--capacity", "3", "--seeds", "8")
    lines = out.splitlines()
    assert "80 requests, 80 units asked for, 4 distinct" in lines[0]
    assert "forced admission" in lines[1]
    rows = {line.split()[1]: line.split() for line in lines[-3:]}
    # every query of leaf LRU misses; the optimum misses the first 3 and then one in 3
    assert rows["llru"][5:7] == ["80", f"{80 / 29:.4f}"]
    assert rows["optimum"][3] == "29"
    assert "[" in " ".join(rows["rlt"])


def test_json_has_the_promised_keys(capsys):
    arguments = ["ratio", STAR, "--eviction", "llru", "rlt", "--capacity", "3", "75%", "2"]
    rows = json.loads(ok(capsys, *arguments, "--seeds", "4", "--json"))
    assert [(row["policy"], row["capacity_units"]) for row in rows] == [
        ("llru", 3), ("rlt", 3), ("llru", 2), ("rlt", 2),
    ]  # fmt: skip
    for row in rows:
        assert list(row)[: len(KEYS)] == KEYS
        assert row["hits"] + row["misses"] == pytest.approx(row["units"])
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["ratio"] == pytest.approx(row["misses"] / row["optimum_high"])
        assert row["optimum_low"] <= row["misses"]
    first, second = rows[:2]
    assert (first["seeds"], second["seeds"]) == (1, 4)
    assert isinstance(first["hits"], int)
    assert isinstance(first["misses"], int)
    assert first["bound"] == 3


def test_the_same_command_prints_the_same(capsys):
    arguments = ["ratio", STAR, "--eviction", "rlt", "llru", "--capacity", "3", "--json"]

    def told(*more: str) -> list[dict]:
        rows = json.loads(ok(capsys, *arguments, *more))
        return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]

    assert json.dumps(told()) == json.dumps(told())
    assert told("--seed", "1")[0]["misses"] != told("--seed", "2")[0]["misses"]


def test_options_reach_the_job(capsys):
    def row(*more: str) -> dict:
        return json.loads(ok(capsys, "ratio", STAR, "--eviction", "llru", "--json", *more))[0]

    asymptotic = row("--capacity", "3", "--kind", "asymptotic")
    assert asymptotic["kind"] == "asymptotic"
    assert asymptotic["ratio"] == pytest.approx(3, rel=0.1)
    bypass = row("--capacity", "3", "--admission", "bypass")
    assert bypass["admission"] == "bypass"
    assert bypass["bound"] is None
    program = row("--capacity", "3", "--optimum", "lp")
    assert program["method"] == "interval_lp"
    assert program["optimum_low"] == pytest.approx(row("--capacity", "3")["optimum_low"])


def test_queries_longer_than_the_cache(capsys):
    source = "cyclic_broom:capacity=5,length=3,rounds=5"
    message = refused(capsys, "ratio", source, "--capacity", "2")
    assert "query 0 has 3 units" in message
    assert "truncate" in message
    for mode in ("truncate", "skip"):
        out = ok(capsys, "ratio", source, "--capacity", "2", "--oversize", mode, "--json")
        assert json.loads(out)[0]["oversize"] == mode


def test_csv_to_a_file_and_to_standard_output(capsys, tmp_path):
    arguments = ["ratio", STAR, "--eviction", "llru", "--capacity", "3"]
    path = tmp_path / "rows.csv"
    assert "llru" in ok(capsys, *arguments, "--csv", str(path))
    row = next(csv.DictReader(io.StringIO(path.read_text())))
    assert row["policy"] == "llru"
    assert row["misses"] == "80"
    alone = ok(capsys, *arguments, "--csv")
    assert alone.splitlines()[0].split(",")[: len(KEYS)] == KEYS
    assert len(alone.splitlines()) == 2


def test_plot(capsys, tmp_path):
    path = tmp_path / "ratio.svg"
    ok(capsys, "ratio", STAR, "--eviction", "llru", "rlt", "--capacity", "3", "--plot", str(path))
    assert path.read_text().startswith("<?xml")
    assert os.listdir(tmp_path) == ["ratio.svg"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--eviction", "llur"], ["unknown", "llur", "llru"]),
        (["--eviction", "rlt:phase=never"], ["phase", "never"]),
        (["--capacity", "0"], ["capacity", "0", "positive"]),
        (["--capacity=-4"], ["capacity", "-4", "positive"]),
        (["--capacity", "0%"], ["capacity", "0%"]),
        (["--capacity", "many"], ["capacity", "many", "5%"]),
        (["--capacity"], ["capacit"]),
        (["--seeds", "0"], ["seeds", "0"]),
        (["--seeds", "x"], ["--seeds = 'x'", "whole number", "--help"]),
        (["--seeds"], ["--seeds needs a value: N"]),
        (["--time-limit", "0"], ["time_limit", "positive"]),
        (["--confidence", "1"], ["confidence", "1"]),
        (["--optimum", "best"], ["--optimum = 'best'", "belady or lp"]),
        (["--json=yes"], ["--json takes no value", "yes"]),
        (["--json", "yes"], ["'yes' is one argument too many"]),
        (["--plot"], ["--plot needs a value: FILE"]),
        (["--plot", ""], ["plot", "needs the name of a file"]),
        (["--plot", "no/such.svg"], ["no/such.svg", "folder", "does not exist"]),
        (["--csv", "."], ["is a folder"]),
        (["--plot", "ratio.jpg"], ["plot", ".png"]),
        (["--sedes", "3"], ["--sedes", "did you mean --seed"]),
    ],
)
def test_bad_options_are_named(capsys, arguments, words):
    capacity = [] if any("--capacity" in a for a in arguments) else ["--capacity", "3"]
    message = refused(capsys, "ratio", STAR, *arguments, *capacity)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("zpif", ["unknown generator", "zipf"]),
        ("zipf:document=3", ["document", "documents"]),
        ("no/such/file.jsonl", ["no/such/file.jsonl", "neither a file nor a generator"]),
    ],
)
def test_bad_sources_are_named(capsys, source, words):
    message = refused(capsys, "ratio", source)
    for word in words:
        assert word in message


def test_a_malformed_line_is_named(capsys, tmp_path):
    path = tmp_path / "broken.jsonl"
    line = '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}'
    path.write_text(f"{line}\n{line[:-4]}\n")
    assert "line 2" in refused(capsys, "ratio", str(path))


def test_an_empty_trace(capsys, tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert "empty" in refused(capsys, "ratio", str(path))


def test_what_is_finished_is_kept_when_a_policy_fails(capsys, monkeypatch):
    from kvtheory.ratio import comparison

    whole = comparison.simulate

    def broken(instance, capacity, policy, **options):
        if policy.name == "rlt":
            raise RuntimeError("no luck")
        return whole(instance, capacity, policy, **options)

    monkeypatch.setattr(comparison, "simulate", broken)
    code, out, err = run(
        capsys, "ratio", STAR, "--eviction", "rlt", "llru", "--capacity", "3", "--json"
    )
    assert code == cli.FAILED
    assert [row["policy"] for row in json.loads(out)] == ["llru"]
    assert err == "kvtheory: failed: rlt at 3 units: RuntimeError: no luck\n"


def test_policies_run_even_where_the_optimum_fails(capsys, monkeypatch):
    from kvtheory.ratio import comparison

    def broken(*_, **__):
        raise RuntimeError("no solver")

    monkeypatch.setattr(comparison, "optimum", broken)
    code, out, err = run(capsys, "ratio", STAR, "--eviction", "llru", "--capacity", "3", "--json")
    assert code == cli.FAILED
    row = json.loads(out)[0]
    assert (row["misses"], row["ratio"], row["optimum_low"]) == (80, None, None)
    assert "optimum" in row["note"]
    assert "no solver" in err


def test_an_interrupt_keeps_what_is_finished(capsys, monkeypatch, tmp_path):
    from kvtheory.ratio import comparison

    whole = comparison.simulate

    def interrupted(instance, capacity, policy, **options):
        if policy.name == "rlt":
            raise KeyboardInterrupt
        return whole(instance, capacity, policy, **options)

    monkeypatch.setattr(comparison, "simulate", interrupted)
    path = tmp_path / "rows.csv"
    code, out, err = run(
        capsys, "ratio", STAR, "--eviction", "llru", "rlt", "--capacity", "3", "--csv", str(path)
    )
    assert code == cli.INTERRUPTED
    assert "llru" in out
    assert err == "kvtheory: interrupted\n"
    assert len(path.read_text().splitlines()) == 2
    assert os.listdir(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_quietly(tmp_path, number, code):
    script = (
        "import os, sys; from kvtheory import cli, instances\n"
        f"instances.source = lambda *a, **k: os.kill(os.getpid(), {int(number)})\n"
        "sys.exit(cli.main(['trace', 'info', 'zipf']))"
    )
    told = subprocess.run(python("-c", script), capture_output=True, text=True)
    assert told.returncode == code
    assert told.stderr == "kvtheory: interrupted\n"


# -- other commands ----------------------------------------------------------------------


def test_policies(capsys):
    rows = json.loads(ok(capsys, "policies", "--json"))
    named = {row["policy"]: row for row in rows}
    assert {"llru", "rlt", "fifo", "lfu", "belady"} <= set(named)
    assert named["rlt"]["randomised"]
    assert not named["belady"]["online"]
    for row in rows:
        assert row["guarantee"]
        assert row["source"]
    text = ok(capsys, "policies")
    assert all(row["policy"] in text for row in rows)


def test_generators(capsys):
    rows = json.loads(ok(capsys, "generators", "--json"))
    assert "shared_prefix" in {row["generator"] for row in rows}
    for row in rows:  # what is listed can be run as it is printed
        assert row["about"]
    lines = ok(capsys, "generators").splitlines()[::2]
    small = next(line for line in lines if line.startswith("yao_uniform"))
    assert "requests" in ok(capsys, "trace", "info", small)


def test_trace_info_and_convert(capsys, tmp_path):
    path = tmp_path / "star.jsonl.gz"
    ok(capsys, "trace", "convert", STAR, str(path))
    info = json.loads(ok(capsys, "trace", "info", str(path), "--json"))
    assert info["requests"] == 80
    assert "requests" in ok(capsys, "trace", "info", str(path))
    before = path.read_bytes()
    assert "--force" in refused(capsys, "trace", "convert", STAR, str(path))
    ok(capsys, "trace", "convert", STAR, str(path), "--force")
    assert path.read_bytes() == before
    again = json.loads(ok(capsys, "ratio", str(path), "--capacity", "3", "--json"))
    assert again[0]["misses"] == 80


def test_a_file_may_be_read_as_told(capsys, tmp_path):
    path = tmp_path / "requests.txt"
    path.write_text("1\n2\n1\n3\n")
    arguments = ["trace", "info", str(path), "--format", "requests", "--json"]
    assert json.loads(ok(capsys, *arguments))["requests"] == 4
    assert json.loads(ok(capsys, *arguments, "--block-size", "16"))["block_size"] == 16
    assert "format" in refused(capsys, "trace", "info", str(path), "--format", "reqests")


def test_unknown_commands(capsys):
    assert "did you mean ratio" in refused(capsys, "ratoi")
    assert "trace info" in refused(capsys, "trace", "inf")
    assert "missing: SOURCE" in refused(capsys, "ratio")
    assert "--help lists them" in refused(capsys, "--nosuch")


def test_without_a_command_the_help_is_shown(capsys):
    code, out, _ = run(capsys)
    assert code == cli.BAD_INPUT
    assert out == ok(capsys, "--help") == ok(capsys, "help")
    for command in cli.COMMANDS:
        assert command in out
    assert ok(capsys, "--version").startswith("kvtheory ")


def test_debug_shows_where_an_error_comes_from():
    with pytest.raises(ValueError, match="zpif"):
        cli.main(["ratio", "zpif", "--debug"])


def test_unexpected_errors_have_no_traceback(capsys, monkeypatch):
    from kvtheory import instances

    def broken(*_, **__):
        raise RuntimeError("a\nb")

    monkeypatch.setattr(instances, "source", broken)
    code, _, err = run(capsys, "trace", "info", STAR)
    assert code == cli.FAILED
    assert err.startswith("kvtheory: error: RuntimeError: a b\n")
    assert "--debug" in err
    assert "Traceback" not in err


def test_a_reader_that_leaves_early_is_no_error():
    program = subprocess.Popen(
        python("-m", "kvtheory", "generators", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    with program.stderr:
        assert program.stderr.read() == b""
    assert program.wait() == cli.BROKEN_PIPE


def test_a_terminal_without_unicode_gets_no_traceback():
    env = dict(os.environ, PYTHONIOENCODING="ascii")
    told = subprocess.run(python("-m", "kvtheory", "policies"), env=env, capture_output=True)
    assert told.returncode == 0, told.stderr


# -- progress ----------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_after_a_second(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(2) as progress:
        progress("quick", 0.5)
    assert "quick" not in terminal.getvalue()
    with Progress(2) as progress:
        progress("long work", 0.5)
        time.sleep(1.3)
    assert "long work" in terminal.getvalue()


def test_no_progress_into_a_file(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with Progress(2) as progress:
        progress("long work", 0.5)
        time.sleep(1.1)
    assert file.getvalue() == ""


def test_module_can_be_run(tmp_path):
    told = subprocess.run(
        python("-m", "kvtheory", "--version"), cwd=tmp_path, capture_output=True, text=True
    )
    assert told.stdout.startswith("kvtheory ")
    assert Path(sys.executable).with_name("kvtheory").exists()
