"""Exact ratios of four policies on every small forest, beside what no policy can beat."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvtheory.atomic import atomic
from kvtheory.errors import InputError, bad
from kvtheory.ratio.best_randomised import best_randomised
from kvtheory.ratio.bounds import harmonic
from kvtheory.ratio.exact_engine.engine import exact
from kvtheory.ratio.exact_engine.enumerate_forests import pairs
from kvtheory.ratio.exact_engine.forest import Forest, mask_of
from kvtheory.ratio.exact_engine.result import Exact
from kvtheory.ratio.histories import Kinds, count_histories
from kvtheory.ratio.width import effective_width

POLICIES = {"llru": "llru", "rlt": "rlt", "lrlt": "lrlt", "stems": "lrlt:stem=true"}
MOST_UNITS = 8
MOST_HISTORIES = 1_500
LONGEST = 8


@dataclass(frozen=True)
class SurveyRow:
    """One forest at one capacity; every node may be asked for.

    Attributes
    ----------
    parents, units, capacity
        The forest as text, its units, and B.
    width, harmonic
        k, the effective width, and H_k: no deterministic and no randomised policy is better.
    llru, rlt, lrlt, stems
        Competitive ratios of leaf LRU, RLT with token phases, LRLT and LRLT with stems; the
        largest found where ``undecided`` names the policy.
    llru_exactly, rlt_exactly, lrlt_exactly, stems_exactly
        The same as fractions in text, empty if infinite.
    best_randomised, horizon
        The least strict ratio of any randomised algorithm within that many queries from a full
        cache, None where the program would be too large. It is at most H_k in the limit if H_k can
        be reached.
    states
        Of the four searches together.
    undecided
        Policies whose search was stopped, joined by commas.
    seconds
        Of everything.
    """

    parents: str
    units: int
    capacity: int
    width: int
    harmonic: float
    llru: float
    rlt: float
    lrlt: float
    stems: float
    llru_exactly: str
    rlt_exactly: str
    lrlt_exactly: str
    stems_exactly: str
    best_randomised: float | None
    horizon: int
    states: int
    undecided: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The columns in order."""
        return asdict(self)


def survey(
    units: int = 6,
    *,
    least: int = 1,
    max_states: int = 200_000,
    time_limit: float | None = 60.0,
    program: bool = True,
    finished: Callable[[SurveyRow], object] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> list[SurveyRow]:
    """All rooted forests up to isomorphism, at every capacity from their depth to their units − 1.

    Parameters
    ----------
    units
        Most units of a forest, at most 8: 191 pairs at 6, 571 at 7.
    least
        Fewest units.
    max_states, time_limit
        For each ratio: where it stops with a lower bound.
    program
        Whether to solve the linear program over all randomised algorithms where it is small.
    finished
        Called with each row when it is ready.
    progress
        Called with what is going on, and the pairs that have just been finished.

    Returns
    -------
    list
        A row for each pair, by units, depth and parents.

    Raises
    ------
    InputError
        For units out of range.

    Notes
    -----
    Up to 6 units: about half a minute. At 7 the star of 7 units at B = 4 is the one pair that
    LRLT's search does not finish.

    Examples
    --------
    >>> rows = survey(3)
    >>> [(row.parents, row.capacity, row.llru_exactly, row.stems_exactly) for row in rows[:3]]
    [('-1,-1', 1, '1', '1'), ('-1,-1,-1', 1, '1', '1'), ('-1,-1,-1', 2, '2', '3/2')]
    """
    if not 1 <= least <= units <= MOST_UNITS:
        raise bad("units", (least, units), f"needs 1 <= least <= units <= {MOST_UNITS}")
    rows = []
    for tree, capacity in pairs(units):
        if tree.units < least:
            continue
        name = ",".join(map(str, tree.parents))
        if progress is not None:
            progress(f"{name} at {capacity}", 0.0)
        found = {
            column: exact(policy, tree, capacity, max_states=max_states, time_limit=time_limit)
            for column, policy in POLICIES.items()
        }
        rows.append(_row(tree, capacity, found, program))
        if finished is not None:
            finished(rows[-1])
        if progress is not None:
            progress(f"{name} at {capacity}", 1.0)
    return rows


def count_pairs(units: int, least: int = 1) -> int:
    """How many rows `survey` has."""
    return sum(tree.units >= least for tree, _ in pairs(units))


def _row(tree: Forest, capacity: int, found: dict[str, Exact], program: bool) -> SurveyRow:
    width = effective_width(tree.as_tree(), capacity)
    best, horizon, seconds = None, 0, 0.0
    if program and (horizon := longest_horizon(tree, capacity)):
        solved = best_randomised(tree, capacity, horizon)
        best, seconds = solved.ratio, solved.seconds
    exactly = {c: "" if r.fraction is None else str(r.fraction) for c, r in found.items()}
    columns: dict[str, Any] = {column: result.ratio for column, result in found.items()}
    columns |= {f"{column}_exactly": text for column, text in exactly.items()}
    return SurveyRow(
        parents=",".join(map(str, tree.parents)),
        units=tree.units,
        capacity=capacity,
        width=width,
        harmonic=float(harmonic(width)),
        **columns,
        best_randomised=best,
        horizon=horizon,
        states=sum(result.states for result in found.values()),
        undecided=",".join(c for c, r in found.items() if r.status in ("states", "time")),
        seconds=seconds + sum(result.seconds for result in found.values()),
    )


def longest_horizon(tree: Forest, capacity: int, most: int = MOST_HISTORIES) -> int:
    """The longest horizon of at most 8 queries with no more than ``most`` histories; 0 if none."""
    queries = tuple(range(tree.units))
    kinds = Kinds(tree, capacity, queries, mask_of(range(capacity)), fold=True)
    fitting = itertools.takewhile(
        lambda t: count_histories(kinds, t) <= most, range(1, LONGEST + 1)
    )
    return max(fitting, default=0)


def write_parquet(rows: Sequence[SurveyRow], path: str | Path) -> None:
    """Write rows as a Parquet file, whole or not at all; the same rows give the same columns.

    Raises
    ------
    InputError
        If pyarrow is not installed, saying how to install it.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'kvtheory[survey]'") from None
    kinds = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    kinds[float | None] = pyarrow.float64()
    schema = pyarrow.schema([(f, kinds[t]) for f, t in SurveyRow.__annotations__.items()])
    table = pyarrow.Table.from_pylist([row.as_dict() for row in rows], schema=schema)
    with atomic(path, "wb") as file:
        parquet.write_table(table, file)
