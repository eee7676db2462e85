"""Sweeps in many processes: equal tables whatever the executor, and whoever is killed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from kvtheory import programs
from kvtheory.sweep import Report, grid, load, plan, run, share_programs

pytestmark = pytest.mark.slow
SOURCE = "zipf:documents=300,requests=20000,levels=2,branching=4"
AXES = {"capacity": ["10%", "20%"], "eviction": ["llru", "rlt"], "seeds": 8}
SEEDS = list(range(8))
CELLS = grid(source=SOURCE, **AXES, seed=SEEDS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "_programs", {})  # what other tests have compiled is not kept
        assert run(CELLS, out).done == len(CELLS)
    return out


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    told = [f"{name} = {value!r}" for name, value in {**AXES, "seed": SEEDS}.items()]
    path.write_text("\n".join(["[grid]", f'source = "{SOURCE}"', *told]) + "\n")
    return path


def start(toml: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "kvtheory", "sweep", str(toml), "--out", str(out), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def kept(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("cells/*.parquet")}


def wait_until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    ending = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ending
        time.sleep(0.01)


def in_session(session: int) -> list[int]:
    told = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in told.stdout.split()]


def same(a: Path, b: Path) -> None:
    assert load(a) == load(b)
    assert kept(a).keys() == kept(b).keys()
    for name in kept(a):
        assert (a / "cells" / name).read_bytes() == (b / "cells" / name).read_bytes()


def test_processes_give_the_same_and_share_what_they_compile(whole: Path, tmp_path: Path) -> None:
    report = run(CELLS, tmp_path, executor="loky", jobs=2)
    assert (report.done, report.failures) == (len(CELLS), [])
    same(whole, tmp_path)
    kept_programs = compiled(tmp_path)
    assert kept_programs.keys() == compiled(whole).keys()
    assert len(kept_programs) == plan(CELLS).programs + 2  # the replays of two optima
    more = grid(source=SOURCE, **AXES, seed=100)
    assert run(more, tmp_path, executor="loky", jobs=2, resume=True).done == 2
    assert compiled(tmp_path) == kept_programs  # loaded, not compiled


def compiled(out: Path) -> dict[str, int]:
    """Programs of the driver that are kept, and when they were."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("compiled/jit__lanes-*")}


def test_a_sweep_that_is_killed_leaves_no_process_and_goes_on(
    whole: Path, toml: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for moment in (1, 5, 9):
        process = start(toml, out, "--jobs", "2", "--resume")
        wait_until(lambda moment=moment: len(kept(out)) >= moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_until(lambda process=process: not in_session(process.pid))
    before = kept(out)
    assert len(before) >= 9
    process = start(toml, out, "--jobs", "2", "--resume")
    told, complaint = process.communicate()
    assert process.returncode == 0, complaint
    assert f"{len(before)} finished before, {len(CELLS) - len(before)} now" in told
    assert before.items() <= kept(out).items()  # nothing was computed again
    same(whole, out)


def test_an_interrupt_ends_all_processes_and_keeps_what_is_finished(
    toml: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start(toml, out, "--jobs", "2")
    wait_until(lambda: len(kept(out)) >= 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, complaint = process.communicate()
    assert process.returncode == 130
    assert f"{len(kept(out))} of {len(CELLS)} cells are kept in {out}" in complaint
    assert "Traceback" not in complaint
    wait_until(lambda: not in_session(process.pid))


def test_two_runs_into_one_folder(whole: Path, toml: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    both = [start(toml, out, "--resume") for _ in range(2)]
    for process in both:
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint
    same(whole, out)
    assert len(list(out.glob("runs/*.json"))) == 2
    assert not list(out.glob("**/.*.part"))


def test_a_process_that_dies_is_replaced(whole: Path, tmp_path: Path) -> None:
    killed: list[int] = []
    reports: list[Report] = []

    def kill(what: str, done: float) -> None:
        if reports[0].done == 3 and not killed:
            killed.extend(_workers())
            os.kill(killed[0], signal.SIGKILL)

    report = run(CELLS, tmp_path, executor="loky", jobs=2, report=reports.append, progress=kill)
    assert len(killed) == 2
    assert (report.done, report.failures) == (len(CELLS), [])
    same(whole, tmp_path)


def _workers() -> list[int]:
    told = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(maxsplit=1) for line in told.stdout.splitlines()]
    return [int(pid) for pid, command in lines if "popen_loky" in command]


def test_spawned_processes_of_the_standard_library(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    with ProcessPoolExecutor(
        2,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=share_programs,
        initargs=(tmp_path / "programs",),
    ) as executor:
        assert run(CELLS, tmp_path / "out", executor=executor).done == len(CELLS)
    same(whole, tmp_path / "out")
    assert list((tmp_path / "programs").iterdir())


@pytest.mark.filterwarnings("ignore")  # what dask's own modules and event loops warn of
def test_a_dask_cluster_that_loses_a_worker(whole: Path, tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    killed: list[int] = []
    told = 0.0
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def kill(what: str, done: float) -> None:
            nonlocal told
            told += done
            if told >= 4 and not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)

        report = run(CELLS, tmp_path, executor=cluster.scheduler_address, progress=kill)
    assert killed
    assert (report.done, report.failures) == (len(CELLS), [])
    same(whole, tmp_path)
