"""What a run of a sweep comes to."""

from dataclasses import dataclass, field
from pathlib import Path

from kvtheory.sweep.cell import Cell
from kvtheory.sweep.plan import describe


@dataclass(frozen=True)
class CellFailure:
    """A cell that could not be computed; its traceback is in the folder."""

    name: str
    cell: Cell
    error: str

    def __str__(self) -> str:
        return f"{describe(self.cell)}: {self.error}"


@dataclass
class Report:
    """What a run has come to.

    Parameters
    ----------
    folder
        Where the results are; `kvtheory.sweep.load` reads them.
    run
        Name of its manifest.
    planned, before, done
        Cells; those that were finished when it began, and those that it, or another run
        meanwhile, has finished.
    outdated
        Cells that are finished there with the same parameters, but another trace or another
        version of a package: they are computed anew.
    failures
        Cells that could not be computed.
    seconds, compile_seconds
        Wall time, and compiling summed over the processes.
    """

    folder: Path
    run: str
    planned: int
    before: int = 0
    outdated: int = 0
    done: int = 0
    failures: list[CellFailure] = field(default_factory=list)
    seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def left(self) -> int:
        """Cells neither finished nor failed."""
        return self.planned - self.before - self.done - len(self.failures)


class PoolLost(RuntimeError):
    """The executor has ended before the work; what was finished is kept."""
