"""Ctrl-C and SIGTERM in real processes: a quiet end, and files that are whole or not there."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kvtheory import cli

QUIET = "kvtheory: interrupted\n"


def interrupted(
    arguments: list[str],
    when: Callable[[], object],
    number: int = signal.SIGINT,
    python: Sequence[str] = ("-m", "kvtheory"),
) -> tuple[int, str]:
    """Exit code and standard error of a command that is sent a signal once something holds."""
    program = subprocess.Popen(
        [sys.executable, *python, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(30_000):
            if when() or program.poll() is not None:
                break
            time.sleep(0.002)
        program.send_signal(number)
        _, told = program.communicate(timeout=60)
    finally:
        program.kill()
    return program.returncode, told


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, cli.INTERRUPTED), (signal.SIGTERM, cli.TERMINATED)],
)
def test_what_was_there_stays_while_a_trace_is_written(tmp_path, number, code):
    path = tmp_path / "large.jsonl"
    path.write_text("old")
    source = "zipf:documents=20000,requests=300000"
    ended = interrupted(
        ["trace", "convert", source, str(path), "--force"],
        lambda: bool(list(tmp_path.glob(".*.part"))),
        number,
    )
    assert ended == (code, QUIET)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["large.jsonl"]


@pytest.mark.slow
def test_a_search_can_be_gone_on_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    search = ["adversary", "search", "--capacity", "2", "--checkpoint", "state.npz"]
    ended = interrupted(
        [*search, "-o", "hard.jsonl", "--generations", "100000"], Path("state.npz").exists
    )
    assert ended == (cli.INTERRUPTED, QUIET)
    assert os.listdir(tmp_path) == ["state.npz"]
    with np.load("state.npz") as state:
        assert {"meta", "best", "nodes"} <= set(state)


@pytest.mark.slow
def test_a_survey_keeps_the_rows_that_are_finished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    ended = interrupted(
        ["survey", "--units", "7", "--no-program", "--csv", "rows.csv", "--out", "rows.parquet"],
        lambda: time.monotonic() - began > 15,
    )
    assert ended == (cli.INTERRUPTED, QUIET)
    assert sorted(os.listdir(tmp_path)) == ["rows.csv", "rows.parquet"]
    from pyarrow import parquet

    lines = Path("rows.csv").read_text().splitlines()
    assert parquet.read_table("rows.parquet").num_rows == len(lines) - 1 > 0
    assert len({line.count(",") for line in lines}) == 1 or '"' in lines[1]


def test_none_is_lost_in_a_finaliser():
    """Python drops what is raised there, and jax has a callback of the garbage collector."""
    script = (
        "import os, signal, sys, time; from kvtheory import cli, instances\n"
        "class Dying:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT); sum(range(10**6))\n"
        "def source(*a, **k): Dying(); time.sleep(30)\n"
        "instances.source = source; sys.exit(cli.main(['trace', 'info', 'zipf']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, QUIET)


def test_after_the_work_it_is_too_late():
    """The interpreter on its way out is left in peace."""
    script = (
        "import atexit, os, signal, sys; from kvtheory import cli\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.exit(cli.main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (cli.OK, "")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
def test_at_any_time(tmp_path, monkeypatch, seconds):
    """Also while jax is imported or compiles; before that the interpreter has to start."""
    monkeypatch.chdir(tmp_path)
    script = (
        "import sys; from kvtheory import cli; open('ready', 'w').close();"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    source = "zipf:documents=3000,requests=60000,levels=2,branching=8"
    arguments = ["ratio", source, "--eviction", "rlt", "--seeds", "4096", "--csv", "rows.csv"]
    ready = Path("ready").exists

    def later() -> bool:
        time.sleep(seconds if ready() else 0)
        return ready()

    assert interrupted(arguments, later, python=["-c", script]) == (cli.INTERRUPTED, QUIET)
    assert os.listdir(tmp_path) == ["ready"]
