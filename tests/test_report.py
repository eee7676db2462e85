"""Text tables, figures and files that are whole or not there."""

import math
import os
from dataclasses import replace

import pytest

from kvtheory.atomic import atomic
from kvtheory.errors import InputError
from kvtheory.ratio import Comparison
from kvtheory.report import plot
from kvtheory.report.table import Column, count, decimal, duration, interval, table

ROW = Comparison(
    source="star:leaves=3",
    policy="rlt",
    admission="forced",
    oversize="error",
    capacity_units=2,
    requests=100,
    units=100,
    hits=40.5,
    misses=59.5,
    hit_rate_units=0.405,
    hit_rate_tokens=0.405,
    hit_rate_requests=0.405,
    seeds=8,
    ratio=1.19,
    ratio_low=1.1,
    ratio_high=1.3,
    optimum_low=50,
    optimum_high=50,
    method="belady",
    seconds=0.1,
    units_distinct=3,
    warmup=0,
    kind="strict",
    confidence=0.95,
    interval="bootstrap",
    bound=1.5,
    note="",
    compile_seconds=0.2,
    optimum_seconds=0.01,
)
ROWS = [ROW, replace(ROW, policy="llru", ratio=1.4, ratio_low=1.4, ratio_high=1.4, misses=70)]
SEVERAL = [*ROWS, *(replace(row, capacity_units=30, hit_rate_units=0.9) for row in ROWS)]
ODD = replace(ROW, policy="mru", ratio=math.inf, ratio_low=math.nan, ratio_high=math.inf)


def test_numbers():
    assert [count(x) for x in (1234567, 12.5, 0, math.nan, None, math.inf)] == [
        "1,234,567", "12.5", "0", "–", "–", "∞",
    ]  # fmt: skip
    assert [decimal(x, 2) for x in (1.005, math.nan, None, math.inf, -math.inf)] == [
        "1.00", "–", "–", "∞", "-∞",
    ]  # fmt: skip
    assert interval(1, 2, 1) == "[1.0, 2.0]"
    assert interval(1.5, 1.5) == ""
    assert interval(math.nan, 1) == "–"
    assert duration(math.nan) == "–"
    assert duration(0) == "0"


def test_columns_are_aligned():
    text = table(
        [Column("name", right=False), Column("misses", "units")],
        [["a", "1"], ["long one", "1,000"]],
    )
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].strip() == "units"
    assert lines[-1] == "long one   1,000"


def test_a_row_with_a_cell_too_few_is_refused():
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        table([Column("a"), Column("b")], [["1"]])


@pytest.mark.parametrize("draw", [plot.ratios, plot.hit_rates])
def test_figures_show_every_policy(draw):
    ax = draw(ROWS)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["rlt", "llru"]
    ax = draw(SEVERAL)
    assert ax.get_xscale() == "log"
    named = {text.get_text() for text in ax.get_legend().get_texts()}
    assert {"rlt", "llru"} <= named


def test_ratios_without_a_number_are_left_out():
    ax = plot.ratios([ODD, *ROWS])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["rlt", "llru"]


def test_figures_can_share_axes():
    figure = plot.comparison(ROWS)
    left, right = figure.axes
    assert plot.ratios(ROWS, left) is left
    assert "hit rate" in right.get_ylabel()


@pytest.mark.parametrize("suffix", plot.FORMATS)
def test_a_saved_figure_is_the_same_twice(tmp_path, suffix):
    a, b = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    plot.save(plot.comparison(ROWS), a)
    plot.save(plot.comparison(ROWS), b)
    assert a.read_bytes() == b.read_bytes()
    assert len(a.read_bytes()) > 1000


def test_only_known_formats_are_drawn():
    with pytest.raises(InputError, match=r"\.png, \.pdf, \.svg"):
        plot.check_path("ratio.jpg")


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def write_half() -> None:
        with atomic(path) as file:
            file.write("half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["table.csv"]
    with atomic(path) as file:
        file.write("new")
    assert path.read_text() == "new"


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(InputError, match="does not exist"), atomic(tmp_path / "no" / "x.csv"):
        pass
    with pytest.raises(InputError, match="is a folder"), atomic(tmp_path):
        pass
