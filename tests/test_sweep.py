"""Sweeps: grids and plans, results that are kept, resumed and told apart, failures."""

import errno
import json
from collections.abc import Generator, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow
import pytest

import kvtheory.instances
from kvtheory import programs
from kvtheory.cluster import Cluster
from kvtheory.cross_table import cross_table
from kvtheory.errors import InputError
from kvtheory.offline.optimum import optimum
from kvtheory.ratio import compare
from kvtheory.sweep import (
    CacheCell,
    ClusterCell,
    Report,
    grid,
    load,
    plan,
    read_grid,
    run,
    summary,
)
from kvtheory.sweep import cache_rows as cache_rows_module
from kvtheory.sweep import folder as folder_module
from kvtheory.sweep import pools as pools_module
from kvtheory.sweep import runner as runner_module
from kvtheory.sweep import work as work_module
from kvtheory.sweep.processes import shared_programs
from kvtheory.sweep.work import Done, Failed, Work, attempt

SOURCE = "zipf:documents=30,requests=200,levels=2,branching=2"
CACHES = grid(
    source=SOURCE, capacity=["10%", "20%"], eviction=["llru", "rlt"], seeds=2, seed=[0, 7]
)
CLUSTERS = grid(
    source=SOURCE, capacity="30%", eviction="llru", router="round_robin", workers=2, rate=5, seeds=3
)


@pytest.fixture(scope="module")
def swept(
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[tuple[Path, Report, int]]:
    """A folder with all cells, the report, and the programs that were compiled for them."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "_programs", {})  # what other tests have compiled does not count
        for capacity in ("10%", "20%"):  # its replay is compiled, too
            optimum(kvtheory.instances.source(SOURCE), capacity)
        before = programs.compilations()
        report = run([*CACHES, *CLUSTERS], out)
        yield out, report, programs.compilations() - before


def names(out: Path, part: str = "cells") -> set[str]:
    return {path.stem for path in (out / part).iterdir()}


# -- grids and plans ---------------------------------------------------------------------


def test_a_grid_is_all_combinations_and_equal_work_is_one_cell() -> None:
    # L-LRU draws nothing: two seeds of it are one cell with one lane
    assert [(c.capacity, c.eviction, c.seed, c.seeds) for c in CACHES] == [
        ("10%", "llru", 0, 1),
        ("10%", "rlt", 0, 2),
        ("10%", "rlt", 7, 2),
        ("20%", "llru", 0, 1),
        ("20%", "rlt", 0, 2),
        ("20%", "rlt", 7, 2),
    ]
    assert isinstance(CLUSTERS[0], ClusterCell)
    assert CLUSTERS[0].seeds == 3  # its arrivals are drawn
    assert CacheCell(source="x", capacity=8, eviction=" rlt:phase=token ").eviction == "rlt"  # type: ignore[arg-type]


def test_a_grid_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(
        f'[[grid]]\nsource = "{SOURCE}"\ncapacity = ["10%", "20%"]\neviction = ["llru", "rlt"]\n'
        f'seeds = 2\nseed = [0, 7]\n[[grid]]\nsource = "{SOURCE}"\ncapacity = "30%"\n'
        'eviction = "llru"\nrouter = "round_robin"\nworkers = 2\nrate = 5\nseeds = 3\n'
    )
    assert read_grid(path) == [*CACHES, *CLUSTERS]
    for text, words in {
        "grid = 3": "[grid]",
        "[grid": "no TOML",
        '[grid]\nsource = "zipf"': "missing in the grid: capacity, eviction",
        "[cells]\n": "[grid]",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError) as error:
            read_grid(path)
        assert words in str(error.value)
        assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"eviction": "llur"}, "did you mean llru"),
        ({"eviction": ["llru", "rlt:phse=query"]}, "phase"),
        ({"router": "lbgx"}, "lbgr"),
        ({"capacity": "5 percent"}, "capacity"),
        ({"capacity": []}, "at least one value"),
        ({"capacity": True}, "must be text"),
        ({"seeds": 0}, "at least 1"),
        ({"seeds": "4"}, "a whole number"),
        ({"seed": -1}, "2^32"),
        ({"oversize": "cut"}, "truncate"),
        ({"admission": "free"}, "bypass"),
        ({"rate": 3}, "name a router"),
        ({"capacities": 3}, "capacity"),
        ({"router": "lbgr", "kind": "strict"}, "single caches"),
        ({"router": "lbgr", "rate": 0}, "positive"),
        ({"router": "lbgr", "workers": 0}, "at least 1"),
        ({"router": "lbgr", "speeds": "1,2"}, "each of 4 workers"),
        ({"router": "lbgr", "alpha_miss": -1}, "not negative"),
        ({"router": "lbgr", "view": "stale"}, "refresh"),
        ({"router": "lbgr", "refresh": 1}, "stale"),
        ({"router": "lbgr", "view": "oracle", "view_capacity": 9}, "routed"),
        # lane 1 of seed 0 would draw the arrivals of lane 0 of seed 1
        ({"router": "lbgr", "rate": 2, "seed": [0, 1], "seeds": 4}, "multiples of 4"),
    ],
)
def test_bad_grids_are_refused_with_the_name_of_what_is_wrong(given: Any, words: str) -> None:
    with pytest.raises(InputError) as error:
        grid(**{"source": SOURCE, "capacity": "10%", "eviction": "llru", **given})
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"source": "zipff:documents=3"}, "did you mean zipf"),
        ({"source": "no/such/file"}, "neither a file nor a generator"),
        ({"source": "zipf:documents=0"}, "documents"),
        ({"capacity": 1}, "query"),
        ({"router": "lbgr"}, "give the grid a rate"),
        ({"router": "lbgr", "rate": 1, "view_capacity": 1}, "longest query"),
    ],
)
def test_what_the_requests_decide_is_checked_before_anything_runs(given: Any, words: str) -> None:
    cells = grid(**{"source": SOURCE, "capacity": "10%", "eviction": "llru", **given})
    with pytest.raises(InputError) as error:
        plan(cells)
    assert words in str(error.value)


def test_the_plan_counts_programs_and_shares_optima(swept: tuple[Path, Report, int]) -> None:
    planned = plan([*CACHES, *CLUSTERS])
    assert len(planned.cells) == 7
    assert planned.lanes == 2 * (1 + 2 + 2) + 3
    assert len(planned.optima) == 2 == len(names(swept[0], "optima"))
    assert planned.programs == 3 == swept[2]
    kept = list(swept[0].glob("compiled/jit__lanes-*"))
    assert len(kept) == 3  # and where they were asked for, whatever was compiled before
    order = planned.order()
    assert len({p.group for p in order[:3]}) == 3  # one of each first
    assert sorted(p.name for p in order) == sorted(p.name for p in planned.cells)


def test_a_name_is_that_of_parameters_and_requests(tmp_path: Path) -> None:
    trace = tmp_path / "a.tokens"
    trace.write_text("1 2\n1 3\n1 2\n")
    cells = grid(source=str(trace), capacity=2, eviction=["llru", "fifo"], admission="forced")
    one, two = (p.name for p in plan(cells).cells)
    assert one != two
    assert [p.name for p in plan(cells).cells] == [one, two]
    assert plan([replace(cells[0], admission="bypass")]).cells[0].name not in (one, two)
    trace.write_text("1 2\n1 3\n1 3\n")
    assert plan(cells).cells[0].name != one


# -- results ------------------------------------------------------------------------------


def test_rows_of_caches_are_those_of_compare(swept: tuple[Path, Report, int]) -> None:
    rows = load(swept[0], "cache").to_pylist()
    assert [(r["capacity"], r["eviction"], r["seed"], r["lane"]) for r in rows] == [
        (c.capacity, c.eviction, c.seed, lane) for c in CACHES for lane in range(c.seeds)
    ]
    instance = kvtheory.instances.source(SOURCE)
    for seed in (0, 7):
        compared = compare(
            instance, ["llru", "rlt"], ["10%", "20%"], seeds=2, key=jax.random.key(seed)
        )
        for row in compared:
            lanes = [
                r
                for r in rows
                if (r["capacity_units"], r["eviction"]) == (row.capacity_units, row.policy)
                and r["seed"] == (seed if row.policy == "rlt" else 0)
            ]
            assert len(lanes) == row.seeds
            assert np.mean([r["misses"] for r in lanes]) == row.misses
            assert np.mean([r["ratio"] for r in lanes]) == pytest.approx(row.ratio, rel=1e-14)
            for name in ("hit_rate_units", "hit_rate_tokens", "hit_rate_requests"):
                assert np.mean([r[name] for r in lanes]) == pytest.approx(getattr(row, name))
            assert {r["optimum_high"] for r in lanes} == {row.optimum_high}


def test_rows_of_clusters_are_those_of_the_cross_table(swept: tuple[Path, Report, int]) -> None:
    table = load(swept[0], "cluster")
    instance = kvtheory.instances.source(SOURCE)
    capacity = table.column("capacity_units")[0].as_py()
    cluster = Cluster(np.full(2, capacity), alpha_miss=0.16e-3)
    (row,) = cross_table(instance, cluster, ["round_robin"], ["llru"], rate=5, seeds=3)
    (told,) = summary(table)
    assert told["lanes"] == 3
    for name in ("hit_rate_units", "makespan", "latency_p95", "ttft_p50", "throughput", "jain"):
        mean, low, high = (told[f"{name}{end}"] for end in ("", "_low", "_high"))
        estimate = getattr(row, name)
        assert (mean, low, high) == pytest.approx((estimate.mean, estimate.low, estimate.high))


def test_the_summary_pools_seeds_and_has_the_intervals_of_ratios(
    swept: tuple[Path, Report, int],
) -> None:
    rows = summary(load(swept[0], "cache"))
    assert [(r["capacity"], r["eviction"], r["lanes"]) for r in rows] == [
        ("10%", "llru", 1),
        ("10%", "rlt", 4),
        ("20%", "llru", 1),
        ("20%", "rlt", 4),
    ]
    assert rows[0]["ratio_low"] == rows[0]["ratio"] == rows[0]["ratio_high"]
    assert rows[1]["ratio_low"] < rows[1]["ratio"] < rows[1]["ratio_high"]


def test_lanes_with_the_same_draws_count_once(swept: tuple[Path, Report, int]) -> None:
    table = load(swept[0], "cache")
    twice = pyarrow.concat_tables([table, table])
    assert summary(twice) == summary(table)
    clusters = load(swept[0], "cluster")
    moved = clusters.set_column(  # seed 1 shares two of its three arrivals with seed 0
        clusters.column_names.index("seed"), "seed", pyarrow.array([1, 1, 1])
    )
    (row,) = summary(pyarrow.concat_tables([clusters, moved]))
    assert row["lanes"] == 4


def test_seconds_are_kept_apart(swept: tuple[Path, Report, int]) -> None:
    plain, timed = load(swept[0], "cache"), load(swept[0], "cache", timings=True)
    assert not [name for name in plain.column_names if "seconds" in name]
    assert timed.column_names == [*plain.column_names, "seconds", "compile_seconds"]
    assert min(timed.column("seconds").to_pylist()) > 0


def test_the_manifest(swept: tuple[Path, Report, int]) -> None:
    out, report, _ = swept
    told = json.loads((out / "runs" / f"{report.run}.json").read_text())
    assert told["status"] == "finished"
    assert set(told["cells"]) == names(out)
    assert told["seeds"] == [0, 7]
    assert told["versions"]["jax"] == jax.__version__
    (source,) = told["sources"]
    assert (source["text"], source["requests"], len(source["digest"])) == (SOURCE, 200, 64)
    caches = [cell for cell in told["cells"].values() if cell.pop("table") == "cache"]
    assert [CacheCell(**cell) for cell in caches] == CACHES


def test_asymptotic_ratios_are_those_of_compare(tmp_path: Path) -> None:
    cells = grid(
        source=SOURCE, capacity="20%", eviction=["llru", "rlt"], seeds=2, kind="asymptotic"
    )
    run(cells, tmp_path)
    rows = summary(load(tmp_path))
    instance = kvtheory.instances.source(SOURCE)
    compared = compare(instance, ["llru", "rlt"], "20%", seeds=2, kind="asymptotic",
                       interval="normal")  # fmt: skip
    for row, told in zip(compared, rows, strict=True):
        wanted = (row.ratio, row.ratio_low, row.ratio_high)
        assert (told["ratio"], told["ratio_low"], told["ratio_high"]) == pytest.approx(wanted)


# -- going on -----------------------------------------------------------------------------


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is computed, as it happens."""
    seen: list[str] = []

    def counted(work: Work) -> Done | Failed:
        seen.append(work.name)
        return attempt(work)

    monkeypatch.setattr(pools_module, "attempt", counted)
    return seen


def test_a_run_that_is_stopped_goes_on_and_comes_to_the_same(
    tmp_path: Path, swept: tuple[Path, Report, int], computed: list[str]
) -> None:
    reports: list[Report] = []
    finished = 0.0

    def stop(what: str, done: float) -> None:
        nonlocal finished
        finished += done > 0
        if finished == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(CACHES, tmp_path, report=reports.append, progress=stop)
    kept = names(tmp_path)
    assert len(kept) == 3 == reports[0].done
    assert reports[0].left == 3
    (manifest,) = (tmp_path / "runs").glob("*.json")
    assert json.loads(manifest.read_text())["status"] == "stopped"

    with pytest.raises(InputError, match=r"3 of 6 cells are finished there.*resume"):
        run(CACHES, tmp_path)
    del computed[:]
    report = run(CACHES, tmp_path, resume=True)
    assert (report.before, report.done, report.left) == (3, 3, 0)
    cells = {p.name for p in plan(CACHES).cells}
    assert {name for name in computed if name in cells} == cells - kept
    del computed[:]
    assert run(CACHES, tmp_path, resume=True).before == 6
    assert not computed

    assert load(tmp_path) == load(swept[0], "cache")
    for name in names(tmp_path):
        paths = [out / "cells" / f"{name}.parquet" for out in (tmp_path, swept[0])]
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_programs_are_kept_for_a_sweep_and_nowhere_else(tmp_path: Path) -> None:
    cells = grid(source=SOURCE, capacity="20%", eviction="llru")
    run(cells, tmp_path / "one")  # the process has compiled before, for another folder
    before = jax.config.jax_compilation_cache_dir
    with shared_programs(tmp_path):
        jax.jit(lambda x: x * 3 + 1)(2.0)
    there = {path.name for path in tmp_path.glob("*-cache")}
    assert any("lambda" in name for name in there)
    jax.jit(lambda x: x * 5 + 2)(2.0)
    assert {path.name for path in tmp_path.glob("*-cache")} == there
    assert jax.config.jax_compilation_cache_dir == before


def test_progress_adds_up_to_the_cells(tmp_path: Path) -> None:
    told: list[float] = []
    run(CACHES, tmp_path, progress=lambda what, done: told.append(done))
    assert sum(told) == pytest.approx(len(CACHES))
    assert min(told) >= 0


def test_grids_add_up_in_a_folder_and_a_changed_trace_takes_the_place_of_the_old(
    tmp_path: Path, computed: list[str]
) -> None:
    trace, out = tmp_path / "a.tokens", tmp_path / "out"
    trace.write_text("1 2\n1 3\n1 2\n")
    first = grid(source=str(trace), capacity=2, eviction="llru")
    more = grid(source=str(trace), capacity=3, eviction="llru")
    assert run(first, out).done == 1
    assert run(more, out).done == 1  # another grid needs no resume
    assert load(out).column("capacity").to_pylist() == ["2", "3"]
    del computed[:]
    trace.write_text("1 2\n1 2\n1 2\n")
    report = run(first, out, resume=True)
    assert (report.before, report.done, report.outdated) == (0, 1, 1)
    assert load(out).column("misses").to_pylist() == [2, 3]
    runs = sorted(names(out, "runs"))
    assert load(out, run=runs[0]).column("misses").to_pylist() == [4]
    with pytest.raises(InputError, match="unknown run"):
        load(out, run="yesterday")


def test_a_trace_that_changes_under_way_is_noticed(tmp_path: Path) -> None:
    trace = tmp_path / "a.tokens"
    trace.write_text("1 2\n1 3\n1 2\n")
    planned = plan(grid(source=str(trace), capacity=2, eviction="llru"))
    trace.write_text("1 2\n1 2\n1 2\n")
    report = run(planned, tmp_path / "out")
    assert "has changed" in report.failures[0].error
    assert not names(tmp_path / "out")


# -- what goes wrong ----------------------------------------------------------------------


def test_a_cell_that_raises_is_kept_apart_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cache_rows_module.cache_rows

    def broken(cell: CacheCell, *rest: Any) -> Any:
        if (cell.capacity, cell.seed) == ("20%", 7):
            raise RuntimeError("no luck")
        return whole(cell, *rest)

    monkeypatch.setattr(cache_rows_module, "cache_rows", broken)
    report = run(CACHES, tmp_path)
    assert [str(f) for f in report.failures] == [
        f"rlt at 20% on {SOURCE}, seed 7: RuntimeError: no luck"
    ]
    assert (report.done, len(names(tmp_path))) == (5, 5)
    (path,) = (tmp_path / "failures").iterdir()
    told = json.loads(path.read_text())
    assert "raise RuntimeError" in told["trace"]
    assert (told["capacity"], told["seed"]) == ("20%", 7)
    assert load(tmp_path).num_rows == 8
    monkeypatch.undo()
    assert run(CACHES, tmp_path, resume=True).done == 1
    assert not list((tmp_path / "failures").iterdir())


def test_an_optimum_that_fails_fails_its_cells_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = work_module.optimum

    def broken(instance: Any, capacity: int, **options: Any) -> Any:
        if capacity > 8:
            raise RuntimeError("no luck")
        return whole(instance, capacity, **options)

    monkeypatch.setattr(work_module, "optimum", broken)
    report = run(CACHES, tmp_path)
    assert (report.done, len(report.failures), report.left) == (3, 3, 0)
    assert all("optimum of" in failure.error for failure in report.failures)


def test_a_full_disk_stops_the_run_and_keeps_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = folder_module.atomic

    def full(path: Path, mode: str) -> Any:
        if len(list((tmp_path / "cells").glob("*.parquet"))) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(path, mode)

    monkeypatch.setattr(folder_module, "atomic", full)
    with pytest.raises(OSError, match="No space left") as error:
        run(CACHES, tmp_path)
    assert str(tmp_path) in error.value.filename
    monkeypatch.undo()
    assert len(names(tmp_path)) == 2
    assert run(CACHES, tmp_path, resume=True).before == 2


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        run(CACHES, tmp_path / "file" / "out")
    with pytest.raises(InputError, match="no folder of a sweep"):
        load(tmp_path)


def test_executors_that_there_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="inline"):
        run(CACHES, tmp_path, executor="threads")
    with pytest.raises(InputError, match="jobs"):
        run(CACHES, tmp_path, executor="loky", jobs=0)
    monkeypatch.setattr(pools_module, "REACH", 0.2)
    with pytest.raises(InputError, match=r"tcp://127\.0\.0\.1:9: cannot be reached"):
        run(CACHES, tmp_path, executor="tcp://127.0.0.1:9")


def test_any_executor_will_do(tmp_path: Path, swept: tuple[Path, Report, int]) -> None:
    with ThreadPoolExecutor(2) as executor:
        assert run(CACHES, tmp_path, executor=executor).done == 6
    assert load(tmp_path) == load(swept[0], "cache")


class Deadly:
    """A pool of two whose processes all die while it works on the cells of some names."""

    workers = 2

    def __init__(self, deadly: Sequence[str]) -> None:
        self.deadly, self.dead, self.alone = deadly, False, []
        self.flight: list[tuple[Work, Future[Done | Failed]]] = []

    def submit(self, work: Work) -> "Future[Done | Failed]":
        if self.dead:
            raise BrokenExecutor("dead")
        future: Future[Done | Failed] = Future()
        self.flight.append((work, future))
        self.dead = work.name in self.deadly
        if self.dead:
            for _, f in self.flight:
                f.set_exception(BrokenExecutor("dead"))
        elif len(self.flight) == 2 or work.known is None or self.alone:
            for w, f in self.flight:
                f.set_result(attempt(w))
        if self.dead or self.flight[0][1].done():
            del self.flight[:]
        return future

    def renew(self) -> bool:
        self.dead = False
        self.alone.append(True)
        return True


def test_a_cell_that_kills_its_process_is_found_and_no_other_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(CACHES)
    culprit = planned.cells[2].name
    pool = Deadly([culprit])
    monkeypatch.setattr(runner_module, "pool", lambda *given: nullcontext(pool))
    report = run(planned, tmp_path)
    assert [failure.name for failure in report.failures] == [culprit]
    assert "its process died each time" in report.failures[0].error
    assert report.done == 5
    assert len(pool.alone) == 3  # once with others, twice alone
