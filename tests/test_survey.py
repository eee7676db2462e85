"""The survey of small trees, and the commands exact and survey."""

import builtins
import csv
import io
import json
from pathlib import Path

import pytest

from kvtheory import cli
from kvtheory.errors import InputError
from kvtheory.ratio import survey
from kvtheory.ratio.survey import SurveyRow, count_pairs, write_parquet
from kvtheory.report.survey_plot import LABELS, ratios_by_width


@pytest.fixture(scope="module")
def rows() -> list[SurveyRow]:
    return survey(4)


def ok(capsys, *arguments: str) -> str:
    code = cli.main(arguments)
    told = capsys.readouterr()
    assert code == 0, told.err
    return told.out


def refused(capsys, *arguments: str) -> str:
    code = cli.main(arguments)
    told = capsys.readouterr()
    assert (code, told.out) == (cli.BAD_INPUT, "")
    assert len(told.err.splitlines()) <= 2
    return told.err


def test_rows(rows) -> None:
    assert len(rows) == count_pairs(4) == 19
    for row in rows:
        assert row.llru == row.width
        assert row.harmonic - 1e-9 <= row.stems <= row.lrlt + 1e-9
        assert row.stems == pytest.approx(row.harmonic)
        assert row.best_randomised is not None
        assert row.best_randomised <= row.harmonic + 1e-9
        assert row.undecided == ""
    (three,) = [row for row in rows if row.parents == "-1,-1,-1" and row.capacity == 2]
    assert (three.llru_exactly, three.rlt_exactly) == ("2", "3/2")
    assert three.best_randomised == pytest.approx(1.5)


def test_progress_and_limits() -> None:
    told: list[tuple[str, float]] = []
    kept: list[SurveyRow] = []
    rows = survey(
        4, least=4, max_states=2, program=False, finished=kept.append,
        progress=lambda what, done: told.append((what, done)),
    )  # fmt: skip
    assert kept == rows
    assert sum(done for _, done in told) == len(rows) == count_pairs(4, 4)
    assert any("rlt" in row.undecided for row in rows)
    assert all(row.best_randomised is None for row in rows)
    with pytest.raises(InputError, match="units"):
        survey(9)


def test_parquet(rows, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "survey.parquet"
    write_parquet(rows, path)
    assert parquet.read_table(path).to_pylist() == [row.as_dict() for row in rows]
    write_parquet(survey(1), path)  # no rows, the same columns
    assert parquet.read_table(path).column_names == list(rows[0].as_dict())


def test_parquet_without_pyarrow(rows, tmp_path: Path, monkeypatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'kvtheory\[survey\]'"):
        write_parquet(rows, tmp_path / "survey.parquet")


def test_figure(rows) -> None:
    pytest.importorskip("matplotlib")
    ax = ratios_by_width(rows)
    labels = ax.get_legend_handles_labels()[1]
    assert set(LABELS.values()) <= set(labels)
    shown = [float(y) for marks in ax.collections for _, y in marks.get_offsets()]
    assert max(shown) == max(row.llru for row in rows)
    assert ax.get_xlabel() == "effective width $k$"


@pytest.mark.slow
def test_survey_command(capsys, tmp_path: Path) -> None:
    out, plot, text = (tmp_path / name for name in ("s.parquet", "s.svg", "s.csv"))
    pytest.importorskip("pyarrow")
    told = ok(
        capsys, "survey", "--units", "3", "--out", str(out), "--plot", str(plot), "--csv", str(text)
    )  # fmt: skip
    assert "5 pairs" in told
    assert len(list(csv.DictReader(io.StringIO(text.read_text())))) == 5
    assert out.stat().st_size > 0
    assert plot.read_text().startswith("<?xml")
    listed = json.loads(ok(capsys, "survey", "--units", "3", "--json"))
    assert listed[0]["parents"] == "-1,-1"
    told = ok(capsys, "survey", "--units", "5", "--least", "5", "--no-program")
    assert "37/24" in told


def test_exact_command(capsys) -> None:
    arguments = ["exact", "--tree", "broom:L=2,leaves=4", "--capacity", "4", "--queries", "leaves"]
    told = ok(capsys, *arguments, "--eviction", "rlt", "llru", "mru", "--check")
    assert "11/6" in told
    assert "proofs checked" in told
    assert "∞" in told
    rlt, llru = json.loads(ok(capsys, *arguments, "--eviction", "rlt", "llru", "--json"))
    assert list(rlt)[:9] == [
        "policy", "tree", "capacity", "queries", "ratio", "fraction", "states", "cycle", "seconds",
    ]  # fmt: skip
    assert (rlt["fraction"], llru["fraction"]) == ("11/6", "3")
    assert rlt["queries"] == [1, 2, 3, 4]
    named = ["--queries", "1", "2", "--eviction", "llru", "--json"]
    (row,) = json.loads(ok(capsys, *arguments[:5], *named))
    assert row["queries"] == [1, 2]


def test_a_stopped_search_says_what_it_needs(capsys) -> None:
    arguments = ["exact", "--tree", "chains:n=4,length=2", "--capacity", "4", "--eviction", "rlt"]
    code = cli.main([*arguments, "--max-states", "20"])
    told = capsys.readouterr()
    assert code == 0
    assert ">= " in told.out
    assert "at most 219,750,000 states" in told.err
    assert "--max-states" in told.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--tree", "bush:n=3", "--capacity", "2"], "bush"),
        (["--tree", "star:leaves=3", "--capacity", "2", "--queries", "some"], "queries"),
        (["--tree", "star:leaves=3", "--capacity", "2", "--eviction", "llur"], "llur"),
        (["--tree", "star:leaves=3", "--capacity", "0"], "capacity"),
        (["--tree", "star:leaves=3"], "--capacity"),
        (["--capacity", "3"], "--tree"),
    ],
)
def test_mistakes_on_the_command_line(capsys, arguments: list[str], word: str) -> None:
    assert word in refused(capsys, "exact", *arguments)


def test_survey_mistakes(capsys) -> None:
    assert "units" in refused(capsys, "survey", "--units", "9")
    assert ".parquet" in refused(capsys, "survey", "--out", "rows.csv")
    assert ".png" in refused(capsys, "survey", "--plot", "figure.jpg")
