"""Finished cells as one table, and what they come to over the seeds."""

import json
from pathlib import Path
from typing import Any

from kvtheory.errors import InputError, bad, unknown
from kvtheory.sweep.cell import TABLES
from kvtheory.sweep.folder import cell_file, cells_of_runs, pyarrow


def load(
    folder: str | Path, table: str | None = None, *, run: str | None = None, timings: bool = False
) -> Any:
    """The rows of the finished cells as a `pyarrow.Table`, one row for each lane.

    ``load(folder).to_pandas()`` is the data frame, if pandas is installed. The order is that of
    the grids, not that of the work.

    Parameters
    ----------
    folder
        Of a sweep, finished or not.
    table
        ``"cache"`` or ``"cluster"``; needed where the folder has both.
    run
        Name of a manifest in ``runs``, without ``.json``: only the cells of that run. By default
        those of all runs; of cells with equal parameters but another trace or version, those of
        the last run that names them.
    timings
        Add ``seconds`` and ``compile_seconds`` of each cell. These differ from run to run; all
        other columns do not.

    Raises
    ------
    InputError
        If it is no folder of a sweep, or there is nothing to load.
    """
    pa = pyarrow()
    from pyarrow import parquet

    folder = Path(folder)
    if table is not None and table not in TABLES:
        raise unknown("table", table, TABLES)
    cells = dict(cells_of_runs(folder, run).values())
    if not cells:
        raise InputError(f"{folder}: is no folder of a sweep: it has no runs")
    there = {name: kind for name, kind in cells.items() if cell_file(folder, name).is_file()}
    kinds = sorted(set(there.values()))
    if table is None and len(kinds) > 1:
        raise bad("table", None, f"the folder has several: {', '.join(kinds)}; name one")
    names = [name for name, kind in there.items() if table in (None, kind)]
    if not names:
        raise InputError(f"{folder}: no finished cells{f' of {table}' if table else ''} yet")
    parts = []
    for name in names:
        part = parquet.read_table(cell_file(folder, name))
        if timings:
            told = json.loads((folder / "times" / f"{name}.json").read_text("utf-8"))
            for column in ("seconds", "compile_seconds"):
                part = part.append_column(column, pa.array([told[column]] * len(part)))
        parts.append(part)
    return pa.concat_tables(parts)
