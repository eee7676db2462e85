"""What a process does for a sweep: one cell, or the optimum that several cells share.

Everything here is sent to other processes: plain data goes in and comes out, and what goes wrong
comes back as text.
"""

import time
import traceback
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.offline.optimum import Optimum, optimum
from kvtheory.offline.schedule import Admission
from kvtheory.oversize import Oversize
from kvtheory.ratio.empirical import Kind
from kvtheory.sweep.cell import Cell, ClusterCell
from kvtheory.sweep.identity import versions
from kvtheory.sweep.source import Source

Columns = dict[str, list[Any]]


class Rows(NamedTuple):
    """The rows of a cell as columns, and the seconds of its lanes and of compiling them."""

    columns: Columns
    lane_seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class OptimumTask:
    """The optimum of one cache, for all policies."""

    source: Source
    capacity: int
    admission: Admission
    oversize: Oversize
    kind: Kind


@dataclass(frozen=True)
class Known:
    """Bounds on the misses of the optimum that a ratio divides by, and how they were found."""

    lower: float
    upper: float
    method: str
    status: str


@dataclass(frozen=True)
class Work:
    """One piece of work.

    Parameters
    ----------
    name
        Of the cell or of the optimum.
    task
        What to do.
    source
        Where to read the requests here.
    digest
        Of the instance that was planned with.
    versions
        `kvtheory.sweep.identity.versions` of the planner.
    known
        The optimum of a cell on one cache.
    """

    name: str
    task: Cell | OptimumTask
    source: Source
    digest: str
    versions: dict[str, str]
    known: Known | None = None


@dataclass(frozen=True)
class Done:
    """A finished piece: rows as columns, or an optimum; seconds are kept apart from them."""

    result: Columns | Known
    seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class Failed:
    """A piece that could not be done."""

    error: str
    trace: str


def attempt(work: Work) -> Done | Failed:
    """Do a piece of work; an exception becomes a `Failed`."""
    try:
        return _do(work)
    except Exception as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        return Failed(f"{kind}{error}", traceback.format_exc())


def _do(work: Work) -> Done:
    begin = time.perf_counter()
    if versions() != work.versions:
        raise InputError(
            f"this process runs {versions()}, but the sweep was planned with {work.versions}: "
            "install the same everywhere, or start the sweep again if the code has changed"
        )
    instance, digest = work.source.read()
    if digest != work.digest:
        raise InputError(
            f"source {work.source.text!r} is not what was planned with: it has changed, or is "
            "another file on this machine"
        )
    if isinstance(work.task, OptimumTask):
        return Done(best_known(work.task, instance), time.perf_counter() - begin, 0.0)
    if isinstance(work.task, ClusterCell):
        from kvtheory.sweep.cluster_rows import cluster_rows

        rows = cluster_rows(work.task, instance)
    else:
        from kvtheory.sweep.cache_rows import cache_rows

        assert work.known is not None  # the schedule waits for it
        rows = cache_rows(work.task, instance, work.known)
    seconds = time.perf_counter() - begin - rows.compile_seconds
    return Done(rows.columns, seconds, rows.compile_seconds)


def best_known(task: OptimumTask, instance: Instance) -> Known:
    """The optimum of an instance; for an asymptotic ratio its increase over the second half."""

    def best(part: Instance) -> Optimum:
        return optimum(
            part,
            task.capacity,
            admission=task.admission,
            method="belady",
            oversize=task.oversize,
        )

    whole = best(instance)
    lower, upper, status = whole.lower, whole.upper, whole.status
    if task.kind == "asymptotic":
        half = best(instance.prefix(instance.requests // 2))
        # the optimum never falls as the sequence grows
        lower, upper = max(0, lower - half.upper), max(0, upper - half.lower)
        if half.status != status:
            status = f"{status}; of the first half: {half.status}"
    return Known(float(lower), float(upper), whole.method, status)
