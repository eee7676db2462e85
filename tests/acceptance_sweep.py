"""The promises of sweeps at scale, measured: no test, as it takes an hour of a quiet machine.

``python tests/acceptance_sweep.py --cells 1000 --out FOLDER``: one process and two, three kills
and resumes, and a dask cluster that loses a worker; the tables must be equal byte for byte.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from kvtheory.sweep import load, run

GRID = """[grid]
source = "zipf:documents=2000,requests=100000,levels=2,branching=8"
capacity = ["5%", "10%", "20%", "40%"]
eviction = ["rlt", "random_leaf"]
seeds = {lanes}
seed = {seeds}
"""


def command(grid: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "kvtheory", "sweep", str(grid), "--out", str(out), *more]


def timed(*arguments: str) -> tuple[float, float]:
    """Wall seconds, and those of the processors, of a command that must succeed."""
    before, begin = os.times(), time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return time.perf_counter() - begin, used


def workers_of(pid: int) -> list[int]:
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(line) for line in told.stdout.split()]


def killed(grid: Path, out: Path, cells: int, kills: int) -> None:
    """Kill a sweep at random moments, go on each time, and let the last one finish."""

    def kept() -> int:
        return len(list(out.glob("cells/*.parquet")))

    for moment in sorted(random.randint(1, cells - 1) for _ in range(kills)):
        process = subprocess.Popen(
            command(grid, out, "--jobs", "2", "--resume"), stdout=subprocess.DEVNULL
        )
        while kept() < moment and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 2.0))
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(f"killed with {kept()} cells kept")
        ending = time.monotonic() + 60
        while left := [pid for pid in workers if Path(f"/proc/{pid}").exists()]:
            assert time.monotonic() < ending, f"processes {left} outlive their parent"
            time.sleep(0.1)
    before = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.parquet")}
    subprocess.run(command(grid, out, "--jobs", "2", "--resume"), check=True)
    assert all(path.stat().st_mtime_ns == at for path, at in before.items()), "recomputed"


def lost_worker(cells: list, out: Path, after: float) -> None:
    """The same cells on a dask cluster of two, one of them killed midway."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def kill(done: float) -> None:
            nonlocal after, told
            told += done
            if told >= after:
                after = float("inf")
                pid = next(iter(client.run(os.getpid).values()))
                os.kill(pid, signal.SIGKILL)
                print(f"killed dask worker {pid} after {told:.1f} cells")

        told = 0.0
        report = run(
            cells, out, executor=cluster.scheduler_address, progress=lambda what, done: kill(done)
        )
    assert report.done == len(cells), report


def same(a: Path, b: Path) -> None:
    assert load(a).equals(load(b))
    files = [sorted(folder.glob("cells/*.parquet")) for folder in (a, b)]
    assert [f.name for f in files[0]] == [f.name for f in files[1]]
    assert all(x.read_bytes() == y.read_bytes() for x, y in zip(*files, strict=True))
    print(f"{b.name}: {load(b).num_rows} rows in {len(files[1])} files, equal byte for byte")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000, help="a multiple of 8")
    parser.add_argument("--lanes", type=int, default=32, help="32: some 1.3 s a cell")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    given = parser.parse_args()
    random.seed(given.seed)
    given.out.mkdir(parents=True)
    toml = given.out / "grid.toml"
    seeds = list(range(given.cells // 8))
    toml.write_text(GRID.format(lanes=given.lanes, seeds=seeds))
    print(f"{8 * len(seeds)} cells, random moments from seed {given.seed}")
    one, cpu_one = timed(*command(toml, given.out / "one"))
    print(f"one process: {one:.1f} s, {cpu_one:.1f} s of processor")
    two, cpu_two = timed(*command(toml, given.out / "two", "--jobs", "2"))
    print(f"two processes: {two:.1f} s, {cpu_two:.1f} s of processor: {one / two:.2f} times faster")
    same(given.out / "one", given.out / "two")
    killed(toml, given.out / "killed", 8 * len(seeds), given.kills)
    same(given.out / "one", given.out / "killed")
    from kvtheory.sweep import read_grid

    cells = read_grid(toml)
    lost_worker(cells, given.out / "dask", len(cells) / 2)
    same(given.out / "one", given.out / "dask")


if __name__ == "__main__":
    main()
