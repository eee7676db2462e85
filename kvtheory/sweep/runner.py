"""Running a sweep: plans, sends the work out, and keeps what comes back."""

import os
import platform
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvtheory.errors import InputError
from kvtheory.sweep.cell import Cell
from kvtheory.sweep.folder import Folder
from kvtheory.sweep.identity import name_of, versions
from kvtheory.sweep.outcome import Report
from kvtheory.sweep.plan import Plan, Planned, plan
from kvtheory.sweep.pools import pool
from kvtheory.sweep.schedule import Schedule


def run(
    cells: Sequence[Cell] | Plan,
    folder: str | Path,
    *,
    executor: str | Executor = "inline",
    jobs: int | None = None,
    resume: bool = False,
    report: Callable[[Report], object] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> Report:
    """Compute the cells and keep each in the folder as soon as it is finished.

    Parameters
    ----------
    cells
        As from `kvtheory.sweep.grid`, or a plan of them.
    folder
        Made if it is not there. Several runs may write into it, also at once.
    executor, jobs
        As for `kvtheory.sweep.pools.pool`.
    resume
        Go on where earlier runs stopped: cells that are finished stay, those that failed are
        tried again. Without it, finished cells of this plan are an error.
    report
        Called once with the report, before any work; it is filled as the work goes on, and is
        what a caller has after an interrupt.
    progress
        Called with a description and the share just finished of a cell; the shares of the cells
        that are left add up to their number.

    Returns
    -------
    Report
        With the cells that failed; nothing is raised for these.

    Raises
    ------
    InputError
        For bad input, before any work is done.
    OSError
        If a result cannot be written, for example on a full disk.
    PoolLost
        If the executor ends before the work. What was finished is kept in any case.

    Notes
    -----
    Results are written by this process alone, so that workers need no access to the folder.
    """
    planned = cells if isinstance(cells, Plan) else plan(cells)
    store = Folder(folder)
    stamp = datetime.now(UTC)
    told = Report(
        folder=Path(folder),
        run=f"{stamp:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(3)}",
        planned=len(planned.cells),
    )
    left = store.unfinished(planned)
    told.before = told.planned - len(left)
    told.outdated = _outdated(left, store)
    if told.before and not resume:
        raise InputError(
            f"{folder}: {told.before} of {told.planned} cells are finished there: go on with "
            "resume (--resume), or take another folder"
        )
    if report is not None:
        report(told)
    manifest = _manifest(planned, stamp)
    store.write_run(told.run, {**manifest, "status": "running"})
    begin = time.perf_counter()
    status = "stopped"
    try:
        if left:
            with pool(executor, jobs, store.compiled) as workers:
                Schedule(planned, left, store, workers, told, progress).work()
        status = "failures" if told.failures else "finished"
    finally:
        told.seconds = time.perf_counter() - begin
        try:
            store.write_run(told.run, {**manifest, **_ending(told, status)})
        except OSError:  # on a full disk the error that matters is on its way already
            if status != "stopped":
                raise
    return told


def _outdated(left: Sequence[Planned[Cell]], store: Folder) -> int:
    parameters = {name_of(p.task.parameters()) for p in left}
    return sum(
        key in parameters and store.cell(name).is_file()
        for key, (name, _) in store.known_cells().items()
    )


def _manifest(planned: Plan, stamp: datetime) -> dict[str, Any]:
    return {
        "format": 1,
        "started": stamp.isoformat(),
        "versions": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "cores": os.cpu_count(),
        "seeds": sorted({p.task.seed for p in planned.cells}),
        "sources": [{**asdict(source), **asdict(size)} for source, size in planned.sizes.items()],
        "cells": {p.name: p.task.parameters() for p in planned.cells},
    }


def _ending(told: Report, status: str) -> dict[str, Any]:
    return {
        "status": status,
        "ended": datetime.now(UTC).isoformat(),
        "finished_before": told.before,
        "finished": told.done,
        "failed": [failure.name for failure in told.failures],
        "seconds": told.seconds,
        "compile_seconds": told.compile_seconds,
    }
