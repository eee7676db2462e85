"""``kvtheory curve``: what it prints, writes and draws."""

import csv
import json
from pathlib import Path

import pytest

from kvtheory import cli
from kvtheory.curve import leaf_lru_curve, optimum_curve
from kvtheory.curve.points import curve, spread
from kvtheory.instances import shared_prefix, source
from kvtheory.report.curve_plot import hit_rate_curves

SOURCE = "shared_prefix:groups=4,prompts=4,lengths=64/128,block_size=16"


def test_table(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["curve", SOURCE, "--points", "4", "--optimum"]) == 0
    told = capsys.readouterr().out
    instance = source(SOURCE)
    lru, best = leaf_lru_curve(instance), optimum_curve(instance)
    rows = [line.split() for line in told.splitlines() if line[:9].strip().isdigit()]
    assert [int(row[0]) for row in rows] == spread(instance, 4)
    for capacity, _, hit_rate, optimal in rows:
        units = instance.units_requested
        assert hit_rate == f"{int(lru.at(int(capacity))) / units:.4f}"
        assert optimal == f"{int(best.at(int(capacity))) / units:.4f}"
    assert "no cache hits more than" in told
    assert "llru: by stack distances" in told


def test_json_csv_and_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    table, figure = tmp_path / "curve.csv", tmp_path / "curve.svg"
    options = ["--capacity", "50%", "8", "--optimum", "--json"]
    assert cli.main(["curve", SOURCE, *options, "--csv", str(table), "--plot", str(figure)]) == 0
    told = json.loads(capsys.readouterr().out)
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == ["llru", "llru", "optimum", "optimum"]
    half = -(-shared_prefix(4, 4, (64, 128), block_size=16).tree.units // 2)
    assert [point["capacity_units"] for point in told] == [8, half] * 2
    assert [str(point["hits"]) for point in told] == [row["hits"] for row in rows]
    assert told[2]["hit_rate_tokens"] is None
    drawn = figure.read_text()
    assert drawn.startswith("<?xml")


def test_curves_drawn():
    instance = source(SOURCE)
    points = curve(instance, ["llru"], 4, optimum=True)
    ax = hit_rate_curves(points)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert set(lines) == {"llru", "optimum", "ceiling (cache of any size)"}
    for name in ("llru", "optimum"):
        mine = [point for point in points if point.policy == name]
        assert list(lines[name].get_xdata()) == [point.capacity_units for point in mine]
        assert list(lines[name].get_ydata()) == [point.hit_rate_units for point in mine]
    ceiling = 1 - instance.tree.units / instance.units_requested
    assert set(lines["ceiling (cache of any size)"].get_ydata()) == {ceiling}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--capacity", "5"], "query 5 has 8 units and the cache only 5"),
        (["--points", "0"], "points = 0: must be at least 1"),
        (["--eviction", "lru"], "did you mean slru or llru"),
        (["--seed", "-1"], "seed = -1: must lie between"),
        (["--plot", "curve.gif"], "must end in one of"),
    ],
)
def test_bad_input(options: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["curve", SOURCE, *options]) == cli.BAD_INPUT
    assert told in capsys.readouterr().err
