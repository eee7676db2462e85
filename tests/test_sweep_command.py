"""``kvtheory sweep``."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kvtheory import cli
from kvtheory.sweep import cache_rows as cache_rows_module
from kvtheory.sweep import load

SOURCE = "zipf:documents=30,requests=200,levels=2,branching=2"
GRID = f'[grid]\nsource = "{SOURCE}"\ncapacity = ["10%", "20%"]\neviction = ["llru", "mru"]\n'


@pytest.fixture
def grid(tmp_path: Path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["sweep", *arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (cli.BAD_INPUT, "")
    assert len(err.splitlines()) <= 2
    return err


def test_a_sweep_and_what_it_says(capsys, tmp_path: Path, grid: str) -> None:
    out = str(tmp_path / "out")
    code, told, err = run(capsys, grid, "--out", out)
    assert (code, err) == (0, "")
    head, where, _, *lines = told.splitlines()
    assert head.startswith("4 cells: 0 finished before, 4 now in ")
    assert out in where
    rows = [line.split() for line in lines[3:]]
    table = load(out).to_pylist()
    assert [row[2] for row in rows] == ["llru", "mru"] * 2
    assert [row[4] for row in rows] == [f"{row['misses']:,}" for row in table]

    assert "4 of 4 cells are finished there" in refused(capsys, grid, "--out", out)
    code, told, _ = run(capsys, grid, "--out", out, "--resume", "--csv")
    assert code == 0
    written = list(csv.DictReader(io.StringIO(told)))
    assert [int(row["misses"]) for row in written] == [row["misses"] for row in table]
    assert "4 cells, 0 of them to do" in run(capsys, grid, "--out", out, "--dry-run")[1]


def test_a_dry_run_writes_nothing(capsys, tmp_path: Path, grid: str) -> None:
    code, told, err = run(capsys, grid, "--dry-run", "--jobs", "2", "--out", str(tmp_path / "out"))
    assert (code, err) == (0, "")
    assert "4 cells, 4 of them to do; 4 lanes, 2 optima, 2 programs" in told
    assert "200 requests" in told
    assert "s with 2 processes" in told
    assert "MiB a process" in told
    assert "an estimate from short samples of 2 of 2" in told
    assert list(tmp_path.iterdir()) == [Path(grid)]


def test_failures_are_told_and_the_rest_is_kept(
    capsys, tmp_path: Path, grid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cache_rows_module.cache_rows

    def broken(cell: Any, *rest: Any) -> Any:
        if cell.eviction == "mru":
            raise RuntimeError("no luck")
        return whole(cell, *rest)

    monkeypatch.setattr(cache_rows_module, "cache_rows", broken)
    out = tmp_path / "out"
    code, told, err = run(capsys, grid, "--out", str(out))
    assert code == cli.FAILED
    assert told.startswith("4 cells: 0 finished before, 2 now")
    assert err.splitlines() == [
        f"kvtheory: failed: mru at 10% on {SOURCE}: RuntimeError: no luck",
        f"kvtheory: failed: mru at 20% on {SOURCE}: RuntimeError: no luck",
        f"kvtheory: their tracebacks are in {out / 'failures'}",
        f"kvtheory: 2 of 4 cells are kept in {out}; go on with --resume",
    ]
    monkeypatch.undo()
    code, told, err = run(capsys, grid, "--out", str(out), "--resume")
    assert (code, err) == (0, "")
    assert told.startswith("4 cells: 2 finished before, 2 now")


def test_an_interrupt_says_how_to_go_on(
    capsys, tmp_path: Path, grid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cache_rows_module.cache_rows

    def stopped(cell: Any, *rest: Any) -> Any:
        if (cell.eviction, cell.capacity) == ("mru", "20%"):
            raise KeyboardInterrupt
        return whole(cell, *rest)

    monkeypatch.setattr(cache_rows_module, "cache_rows", stopped)
    out = tmp_path / "out"
    code, told, err = run(capsys, grid, "--out", str(out))
    assert code == cli.INTERRUPTED
    kept = len(list((out / "cells").iterdir()))
    assert f"{kept} of 4 cells are kept in {out}; go on with --resume" in err
    assert f"{kept} now" in told
    (manifest,) = (out / "runs").iterdir()
    assert json.loads(manifest.read_text())["status"] == "stopped"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "--out"),
        (["--out", "OUT", "--jobs", "0"], "jobs"),
        (["--out", "OUT/grid.toml"], "cannot be written"),
    ],
)
def test_bad_options(capsys, tmp_path: Path, grid: str, more: list[str], words: str) -> None:
    assert words in refused(capsys, grid, *(m.replace("OUT", str(tmp_path)) for m in more))


def test_bad_grids(capsys, tmp_path: Path, grid: str) -> None:
    out = tmp_path / "out"
    for text, words in {
        GRID.replace('"mru"', '"mrru"'): "unknown eviction policy 'mrru': did you mean mru",
        GRID.replace('"10%"', '"1"'): "llru at 1 on",
        GRID.replace("capacity", "capacty"): "capacity",
        "[grid": "no TOML",
    }.items():
        Path(grid).write_text(text)
        assert words in refused(capsys, grid, "--out", str(out))
    assert not out.exists()
    assert "is no file" in refused(capsys, str(tmp_path / "none.toml"), "--out", str(out))
