"""``kvtheory survey``: exact ratios on every small tree."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from kvtheory.commands.output import Progress, check_files, naming, print_json, write_csv
from kvtheory.report.table import Column, count, decimal, table

if TYPE_CHECKING:
    from kvtheory.ratio.survey import SurveyRow


@dataclass(frozen=True, kw_only=True)
class Options:
    """Exact ratios of L-LRU, RLT, LRLT and LRLT with stems on every small tree.

    Every rooted forest up to isomorphism, at every capacity from its depth to its units - 1.

    Example: kvtheory survey --units 6 --out survey.parquet --plot survey.svg
    """

    units: int = 6
    """Most units of a tree: 191 pairs with capacities at 6, half a minute; 571 at 7."""
    least: int = 1
    """Fewest units of a tree."""
    time_limit: float = 60.0
    """Seconds for each ratio; a search that is stopped leaves a lower bound."""
    no_program: bool = False
    """Leave out the linear program over all randomised algorithms."""
    out: Annotated[str | None, arg(metavar="FILE")] = None
    """Write all rows into a .parquet file."""
    plot: Annotated[str | None, arg(metavar="FILE")] = None
    """Draw the ratios against the effective width into a .png, .pdf or .svg file."""
    csv: Annotated[str | None, arg(metavar="[FILE]")] = None
    """Write all rows as CSV to a file; to standard output, instead of the table, without one."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""


def run(options: Options) -> int:
    """Print the survey."""
    from kvtheory.errors import bad
    from kvtheory.ratio.survey import count_pairs, survey, write_parquet

    check_files(csv=options.csv, plot=options.plot, out=options.out)
    if options.out is not None:
        if not options.out.endswith(".parquet"):
            raise bad("out", options.out, "must end in .parquet")
        check_pyarrow()
    rows: list[SurveyRow] = []
    pieces = count_pairs(options.units, options.least) if 1 <= options.units <= 8 else 1
    try:
        with Progress(pieces) as progress:
            survey(
                options.units,
                least=options.least,
                time_limit=options.time_limit,
                program=not options.no_program,
                finished=rows.append,
                progress=progress,
            )
    finally:  # an interrupt keeps what is finished
        if rows:
            if options.json:
                print_json([row.as_dict() for row in rows])
            elif options.csv != "-":
                print(describe(rows))
            if options.csv is not None:
                write_csv([row.as_dict() for row in rows], options.csv)
            if options.out is not None:
                with naming(options.out):
                    write_parquet(rows, options.out)
            if options.plot is not None:
                from kvtheory.report import plot, survey_plot

                with naming(options.plot):
                    plot.save(survey_plot.figure(rows), options.plot)
    return 0


def check_pyarrow() -> None:
    """Raise before the work and not after it."""
    from kvtheory.errors import InputError

    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'kvtheory[survey]'") from None


def describe(rows: "Sequence[SurveyRow]") -> str:
    """Counts by width, then every pair where a policy is not what one would hope."""
    lines = [
        f"{len(rows):,} pairs of a rooted forest and a capacity; every node may be asked for; "
        "forced admission",
        "k: effective width, L-LRU's ratio; no randomised policy is below H_k",
        "",
    ]
    columns = [
        Column("k"),
        Column("H_k"),
        Column("pairs"),
        Column("L-LRU = k"),
        Column("RLT = H_k"),
        Column("worst RLT"),
        Column("LRLT = H_k"),
        Column("stems = H_k"),
        Column("RLT above L-LRU"),
    ]
    body = []
    pairs = Counter(row.width for row in rows)
    for k in sorted(pairs):
        some = [row for row in rows if row.width == k]
        body.append(
            [
                count(k),
                decimal(some[0].harmonic),
                count(pairs[k]),
                count(sum(row.llru == k for row in some)),
                *(_at_bound(some, "rlt"), decimal(max(row.rlt for row in some))),
                *(_at_bound(some, "lrlt"), _at_bound(some, "stems")),
                count(sum(row.rlt > row.llru for row in some)),
            ]
        )
    lines.append(table(columns, body))
    odd = [row for row in rows if _odd(row)]
    if odd:
        lines += [
            "",
            "pairs where LRLT is above H_k, RLT above L-LRU, or a search was stopped:",
            "",
        ]
        columns = [
            Column("parents", right=False),
            Column("capacity"),
            Column("L-LRU"),
            Column("RLT"),
            Column("LRLT"),
            Column("with stems"),
            Column("program", "T"),
            Column("stopped", right=False),
        ]
        body = [
            [
                row.parents,
                count(row.capacity),
                row.llru_exactly,
                row.rlt_exactly,
                row.lrlt_exactly,
                row.stems_exactly,
                f"{decimal(row.best_randomised)} {row.horizon:>2}",
                row.undecided,
            ]
            for row in odd
        ]
        lines.append(table(columns, body))
    return "\n".join(lines)


def _at_bound(rows: "Sequence[SurveyRow]", column: str) -> str:
    return count(sum(abs(getattr(row, column) - row.harmonic) < 1e-9 for row in rows))


def _odd(row: "SurveyRow") -> bool:
    return bool(row.undecided) or row.rlt > row.llru or row.lrlt > row.harmonic + 1e-9
