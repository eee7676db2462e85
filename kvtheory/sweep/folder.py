"""The folder of a sweep: one Parquet file per finished cell, each whole or not there.

::

    cells/NAME.parquet    rows of a finished cell
    optima/NAME.json      an optimum that cells share
    times/NAME.json       seconds, which differ from run to run, apart from the results
    failures/NAME.json    a cell that raised, with its traceback, until it succeeds
    runs/TIME-ID.json     the manifest of a run: cells, versions, machine, how it ended
    compiled/             programs that the processes of a machine share

Equal cells have equal bytes, so that two runs into one folder may write the same cell.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvtheory.atomic import atomic
from kvtheory.errors import InputError, unknown
from kvtheory.sweep.cell import Cell
from kvtheory.sweep.identity import name_of
from kvtheory.sweep.plan import Plan, Planned, describe
from kvtheory.sweep.work import Columns, Failed, Known

PARTS = ("cells", "optima", "times", "failures", "runs", "compiled")
FORGOTTEN = 3600.0  # seconds after which an unfinished file belongs to no living process


class Folder:
    """Results of a sweep on disk.

    Raises
    ------
    InputError
        If the folder cannot be made or written, or pyarrow is missing.
    """

    def __init__(self, path: str | Path) -> None:
        pyarrow()
        self.path = Path(path)
        try:
            for part in PARTS:
                (self.path / part).mkdir(parents=True, exist_ok=True)
            _write(self.path / ".writable", b"")
            (self.path / ".writable").unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"out = {str(path)!r}: cannot be written: {error.strerror}") from None
        self._sweep_up()

    def _sweep_up(self) -> None:
        for part in PARTS:
            for left in (self.path / part).glob(".*.part"):
                try:
                    if time.time() - left.stat().st_mtime > FORGOTTEN:
                        left.unlink()
                except FileNotFoundError:  # another run was faster
                    pass

    @property
    def compiled(self) -> Path:
        """Where processes keep compiled programs, wherever they run."""
        return (self.path / "compiled").resolve()

    def cell(self, name: str) -> Path:
        """The file of a cell."""
        return cell_file(self.path, name)

    def unfinished(self, planned: Plan) -> list[Planned[Cell]]:
        """The cells of a plan that are to be done, in the order of work."""
        return unfinished(planned, self.path)

    def known_cells(self) -> dict[str, tuple[str, str]]:
        """`cells_of_runs` of this folder."""
        return cells_of_runs(self.path)

    def write_cell(self, name: str, task: Cell, columns: Columns, times: Mapping[str, Any]) -> None:
        """Keep a finished cell; its times come first, so that no finished cell lacks them."""
        self._write_json(f"times/{name}.json", times)
        _write(self.cell(name), to_parquet(name, task, columns))
        (self.path / "failures" / f"{name}.json").unlink(missing_ok=True)

    def known(self, name: str) -> Known | None:
        """An optimum, if it is there."""
        try:
            told = json.loads((self.path / "optima" / f"{name}.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        return Known(**told)

    def write_known(self, name: str, known: Known) -> None:
        """Keep an optimum."""
        self._write_json(f"optima/{name}.json", asdict(known))

    def write_failure(self, name: str, task: Cell, failed: Failed) -> None:
        """Keep what went wrong with a cell."""
        told = {"cell": describe(task), **task.parameters(), **asdict(failed)}
        self._write_json(f"failures/{name}.json", told)

    def write_run(self, name: str, manifest: Mapping[str, Any]) -> None:
        """Keep the manifest of a run."""
        self._write_json(f"runs/{name}.json", manifest)

    def _write_json(self, place: str, value: Mapping[str, Any]) -> None:
        text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        _write(self.path / place, text.encode())


def cell_file(folder: Path, name: str) -> Path:
    """The file of a cell, there once it is finished."""
    return folder / "cells" / f"{name}.parquet"


def unfinished(planned: Plan, folder: Path) -> list[Planned[Cell]]:
    """The cells of a plan that a folder does not have, in the order of work."""
    return [p for p in planned.order() if not cell_file(folder, p.name).is_file()]


def cells_of_runs(folder: Path, run: str | None = None) -> dict[str, tuple[str, str]]:
    """Name and table of each cell, by the hash of its parameters alone.

    Of cells with equal parameters that is the one of the last run that names them, or of the run
    that is named.
    """
    paths = sorted((folder / "runs").glob("*.json"))
    if run is not None:
        names = {path.stem: path for path in paths}
        if run not in names:
            raise unknown("run", run, names)
        paths = [names[run]]
    return {
        name_of(parameters): (name, parameters["table"])
        for path in paths
        for name, parameters in json.loads(path.read_text("utf-8"))["cells"].items()
    }


def _write(path: Path, data: bytes) -> None:
    try:
        with atomic(path, "wb") as file:
            file.write(data)
    except OSError as error:  # a full disk does not say where
        raise OSError(error.errno, error.strerror, str(path)) from error


def to_parquet(name: str, task: Cell, columns: Columns) -> bytes:
    """The rows of a cell: its name and parameters, then the columns. Equal rows, equal bytes."""
    pa = pyarrow()
    from pyarrow import parquet

    rows = len(columns["lane"])
    parameters = {k: v for k, v in task.parameters().items() if k not in ("table", "seeds")}
    kinds: dict[type, Any] = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    optional: dict[str, type] = {"ids": str, "block_size": int, "speeds": str, "rate": float}
    optional |= {"view_capacity": str, "refresh": float}
    arrays = {"cell": pa.array([name] * rows, pa.string())}
    for key, value in parameters.items():
        arrays[key] = pa.array([value] * rows, kinds[optional.get(key, type(value))])
    for key, values in columns.items():
        arrays[key] = pa.array(values, kinds[type(values[0])])
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays), sink)
    return sink.getvalue().to_pybytes()


def pyarrow() -> Any:
    """The module, or an `InputError` that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise InputError("sweeps need pyarrow: pip install 'kvtheory[sweep]'") from None
    return pyarrow
