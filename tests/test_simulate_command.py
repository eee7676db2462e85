"""``kvtheory simulate`` and ``kvtheory routers``: the cross table, its formats, its errors."""

import csv
import io
import json
import os

import numpy as np
import pytest

from kvtheory import cli
from kvtheory.cluster import Cluster
from kvtheory.cross_table import CrossFailure, cross_table
from kvtheory.errors import InputError
from kvtheory.instances import shared_prefix
from kvtheory.report import cluster_plot
from kvtheory.routing import ROUTERS

SOURCE = "shared_prefix:groups=6,prompts=4,lengths=64/128,block_size=16"
SMALL = [SOURCE, "--capacity", "160tok", "--workers", "2"]
PAIRS = ["--router", "round_robin", "max_hit", "--eviction", "llru", "rlt"]
KEYS = {
    "router", "eviction", "workers", "seeds", "hit_rate_units", "makespan", "load", "share",
    "throughput", "latency_p50", "latency_p95", "latency_p99", "ttft_p50", "ttft_p95",
    "believed_hit_rate",
}  # fmt: skip
SCALARS = KEYS - {"router", "eviction", "workers", "seeds", "load", "share"}


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["simulate", *arguments])
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
    assert len(err.splitlines()) == 1
    return err


def rows_of(capsys, *arguments: str) -> list[dict]:
    return json.loads(ok(capsys, *arguments, "--json"))


@pytest.fixture(scope="module")
def table_rows():
    instance = shared_prefix(groups=6, prompts=4, lengths=(64, 128), block_size=16)
    cluster = Cluster(np.array([10, 10]), block_size=16, alpha_miss=np.float64(0.016))
    return cross_table(instance, cluster, ["round_robin", "max_hit"], rate=10.0, seeds=3)


# -- numbers -----------------------------------------------------------------------------


def test_json_has_the_promised_keys(capsys):
    rows = rows_of(capsys, *SMALL, *PAIRS, "--rate", "10", "--seeds", "3")
    assert [(row["router"], row["eviction"]) for row in rows] == [
        ("round_robin", "llru"), ("round_robin", "rlt"), ("max_hit", "llru"), ("max_hit", "rlt"),
    ]  # fmt: skip
    for row in rows:
        assert set(row) >= KEYS
        for name in SCALARS:
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
        assert (row["workers"], row["seeds"]) == (2, 3)
        assert row["random"] == "arrivals and policies"
        if row["router"] == "round_robin":
            assert row["share"] == pytest.approx([0.5, 0.5])
        assert sum(row["share"]) == pytest.approx(1)
        # service is 0.16 ms for each missed token and nothing else
        missed = 16 * row["units"] * (1 - row["hit_rate_units"])
        assert sum(row["load"]) == pytest.approx(0.16e-3 * missed)
        assert max(row["load"]) <= row["makespan"] + 1e-12
        assert 0 < row["latency_p50"] <= row["latency_p95"] <= row["latency_p99"]


def test_the_same_command_prints_the_same_bytes(capsys):
    def told(*more: str) -> str:
        rows = rows_of(capsys, *SMALL, *PAIRS, "--seeds", "2", *more)
        return json.dumps([{k: v for k, v in row.items() if k != "seconds"} for row in rows])

    assert told("--rate", "10") == told("--rate", "10")
    assert told("--rate", "10") != told("--rate", "10", "--seed", "5")


def test_arrivals_of_the_source_are_used_and_pairs_without_randomness_run_once(capsys):
    own = [f"{SOURCE},rate=10", *SMALL[1:], *PAIRS, "--seeds", "3"]
    rows = rows_of(capsys, *own)
    assert [row["seeds"] for row in rows] == [1, 3, 1, 3]
    assert [row["random"] for row in rows] == ["nothing", "policies"] * 2
    assert all(row["rate"] is None for row in rows)
    assert rows[0]["makespan_low"] == rows[0]["makespan"] == rows[0]["makespan_high"]
    # lane 0 of --rate draws the arrivals that the generator draws with the same seed
    drawn = rows_of(capsys, *SMALL, *PAIRS, "--rate", "10", "--seeds", "1")
    assert drawn[0]["latency_p99"] == rows[0]["latency_p99"]
    assert drawn[0]["latency_p99_low"] is None  # one draw has no interval
    replaced = rows_of(capsys, *own, "--rate", "1000")
    assert replaced[0]["latency_p99"] > rows[0]["latency_p99"]


def test_speeds_and_costs_reach_the_cluster(capsys):
    base = [*SMALL, "--router", "round_robin", "--eviction", "llru", "--rate", "1", "--seeds", "2"]
    plain = rows_of(capsys, *base)[0]
    halved = rows_of(capsys, *base, "--speeds", "1,0.5")[0]
    assert halved["speed"] == [1, 0.5]
    assert halved["load"] == pytest.approx([plain["load"][0], 2 * plain["load"][1]])
    dear = rows_of(capsys, *base, "--alpha-miss", "0.32")[0]
    assert dear["load"] == pytest.approx([2 * x for x in plain["load"]])
    flat = rows_of(capsys, *base, "--alpha-cached", "0.16")[0]
    assert sum(flat["load"]) == pytest.approx(0.16e-3 * 16 * flat["units"])


def test_views(capsys):
    base = [*SMALL, "--router", "max_hit", "--eviction", "rlt", "--rate", "20", "--seeds", "2"]
    oracle = rows_of(capsys, *base, "--view", "oracle")[0]
    assert oracle["believed_hit_rate"] == oracle["hit_rate_units"]
    wide = rows_of(capsys, *base, "--view-capacity", "100000tok")[0]
    assert wide["believed_hit_rate"] > wide["hit_rate_units"]
    stale = rows_of(capsys, *base, "--view", "stale", "--refresh", "1")[0]
    assert stale["view"] == "stale"


def test_the_python_function_gives_the_same(capsys, table_rows):
    rows = rows_of(capsys, *SMALL, *PAIRS, "--rate", "10", "--seeds", "3", "--alpha-miss", "1")
    for row, printed in zip(table_rows, rows, strict=True):
        told = row.as_dict()
        assert list(told) == list(printed)
        for name in SCALARS:
            assert told[name] == pytest.approx(printed[name], rel=1e-12)


def test_curves_agree_with_the_table(table_rows):
    for row in table_rows:
        assert row.latency_quantiles[100] == pytest.approx(row.latency_p50.mean)
        assert (np.diff(row.latency_quantiles) >= 0).all()
        assert row.in_system[-1] == 0
        assert row.in_system.max() > 0


# -- output ------------------------------------------------------------------------------


def test_table(capsys):
    out = ok(capsys, *SMALL, *PAIRS, "--rate", "10", "--seeds", "3", "--speeds", "1,2")
    head, cluster, _, *lines = out.splitlines()
    assert "24 requests" in head
    assert "10 queries/s (Poisson)" in head
    assert "2 workers of 10 units, speeds 1, 2" in cluster
    assert "seeds: arrivals and policies" in cluster
    assert sum("±" in line for line in lines) == 4
    assert {"round_robin", "max_hit"} <= {line.split()[0] for line in lines}


def test_csv(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    arguments = [*SMALL, *PAIRS, "--rate", "10", "--seeds", "2", "--csv"]
    assert "round_robin" in ok(capsys, *arguments, str(path))
    written = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["eviction"] for row in written] == ["llru", "rlt"] * 2
    assert float(written[0]["load_0"]) + float(written[0]["load_1"]) > 0
    assert not any("[" in value for row in written for value in row.values())
    alone = ok(capsys, *arguments).splitlines()
    assert alone[0].startswith("source,router,eviction")
    assert len(alone) == 5


def test_plot(capsys, tmp_path, table_rows):
    path = tmp_path / "table.svg"
    ok(capsys, *SMALL, *PAIRS, "--rate", "10", "--seeds", "2", "--plot", str(path))
    assert path.read_text().startswith("<?xml")
    assert os.listdir(tmp_path) == ["table.svg"]
    figure = cluster_plot.latency_and_load(table_rows)
    assert [len(ax.lines) for ax in figure.axes] == [4, 4]
    assert len({(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}) == 4
    named = {text.get_text() for text in figure.legends[0].get_texts()}
    assert "max_hit, rlt" in named
    assert "latency" in cluster_plot.latencies(table_rows).get_xlabel()
    assert cluster_plot.in_system([]).get_title() == ""


# -- what it refuses ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "10", "--router", "lbgx"], ["unknown router", "lbgx", "lbgr"]),
        (["--rate", "10", "--eviction", "llur"], ["unknown eviction policy", "llru"]),
        (["--rate", "10", "--router", "lbgr:targt=service"], ["targt", "target"]),
        ([], ["no arrival times", "--rate"]),
        (["--rate", "0"], ["rate", "positive"]),
        (["--rate", "10", "--speeds", "1,1,1"], ["speeds", "1,1,1", "2 workers"]),
        (["--rate", "10", "--speeds", "1,0"], ["speeds", "positive"]),
        (["--rate", "10", "--speeds", "1,fast"], ["speeds", "1,fast"]),
        (["--rate", "10", "--believed-speeds", "1"], ["believed_speeds"]),
        (["--rate", "10", "--workers", "0"], ["workers", "at least 1"]),
        (["--rate", "10", "--alpha-miss", "-1"], ["alpha_miss", "negative"]),
        (["--rate", "10", "--capacity", "3"], ["query", "units", "oversize"]),
        (["--rate", "10", "--view", "stale"], ["refresh", "seconds"]),
        (["--rate", "10", "--view", "oracle", "--view-capacity", "9"], ["view_capacity"]),
        (["--rate", "10", "--seeds", "0"], ["seeds", "at least 1"]),
        (["--rate", "10", "--seed", "-1"], ["seed", "0 and 2^32"]),
        (["--rate", "10", "--confidence", "95"], ["confidence"]),
        (["--rate", "10", "--plot", "table.jpg"], ["plot", ".png"]),
    ],
)
def test_bad_input_is_named(capsys, arguments, words):
    message = refused(capsys, *SMALL, *arguments)
    for word in words:
        assert word in message


def test_a_pair_that_fails_leaves_the_others(capsys, monkeypatch):
    from kvtheory import cross_table as module

    whole = module.simulate_cluster

    def broken(instance, cluster, router, eviction, **options):
        if eviction.name == "rlt":
            raise RuntimeError("no luck")
        return whole(instance, cluster, router, eviction, **options)

    monkeypatch.setattr(module, "simulate_cluster", broken)
    arguments = [*SMALL, "--router", "max_hit", "--eviction", "rlt", "llru", "--rate", "10"]
    code, out, err = run(capsys, *arguments, "--seeds", "2", "--json")
    assert code == cli.FAILED
    assert [row["eviction"] for row in json.loads(out)] == ["llru"]
    assert err == "kvtheory: failed: max_hit with rlt: RuntimeError: no luck\n"


def test_without_a_list_for_failures_they_are_raised(table_rows):
    instance = shared_prefix(groups=6, prompts=4, lengths=(64, 128), block_size=16)
    cluster = Cluster(np.array([3, 3]), block_size=16)
    with pytest.raises(InputError, match="oversize"):
        cross_table(instance, cluster, ["max_hit"], ["llru"], rate=1.0)
    failures: list[CrossFailure] = []
    assert not cross_table(instance, cluster, ["max_hit"], ["llru"], rate=1.0, failures=failures)
    assert str(failures[0]).startswith("max_hit with llru: query")
    with pytest.raises(InputError, match="rate="):
        cross_table(instance, cluster, ["max_hit"], ["llru"])
    with pytest.raises(InputError, match="routers"):
        cross_table(instance, cluster, [], ["llru"], rate=1.0)


def test_progress_adds_up(table_rows):
    instance = shared_prefix(groups=6, prompts=4, lengths=(64, 128), block_size=16, rate=10)
    cluster = Cluster(np.array([10, 10]), block_size=16)
    told: list[float] = []
    cross_table(
        instance, cluster, ["max_hit"], ["llru", "rlt"], seeds=3,
        progress=lambda what, done: told.append(done),
    )  # fmt: skip
    assert sum(told) == pytest.approx(2)
    assert min(told) >= 0


# -- routers -----------------------------------------------------------------------------


def test_routers(capsys):
    assert cli.main(["routers", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["router"] for row in rows] == sorted(ROUTERS)
    for row in rows:
        assert row["guarantee"]
        assert row["source"]
    assert cli.main(["routers"]) == 0
    text = capsys.readouterr().out
    assert all(row["router"] in text for row in rows)
    assert "lbgr:" in text


def test_the_makespan_beside_its_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["simulate", "shared_prefix:groups=6,prompts=4,lengths=64/128,block_size=16"]
    given += ["--workers", "2", "--capacity", "20", "--router", "round_robin", "max_hit"]
    given += ["--eviction", "llru", "--rate", "5", "--seeds", "2", "--optimum"]
    assert cli.main([*given, "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        assert 0 < row["optimum_low"] <= row["optimum_high"] <= row["makespan"] * (1 + 1e-9)
        assert row["ratio_low"] == pytest.approx(row["makespan_low"] / row["optimum_high"])
        assert row["ratio_high"] == pytest.approx(row["makespan_high"] / row["optimum_low"])
    assert cli.main(given) == 0
    assert "known ahead" in capsys.readouterr().out
    assert cli.main([*given, "--speed-changes", "1:0:0.5"]) == 2
    assert "speeds that change" in capsys.readouterr().err
