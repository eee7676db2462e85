"""What an offline solution does: which worker serves each query, and what its cache keeps."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from kvtheory.atomic import atomic
from kvtheory.errors import InputError, bad
from kvtheory.tree import frozen

Admission = Literal["forced", "bypass"]
ADMISSIONS = ("forced", "bypass")
_FORMAT = 1


class ScheduleError(ValueError):
    """A schedule that cannot be carried out, or that does not reach what is claimed of it."""


def check_admission(admission: str) -> None:
    """Raise `InputError` unless ``admission`` is known."""
    if admission not in ADMISSIONS:
        raise bad(
            "admission",
            admission,
            "must be 'forced' (the served path stays cached) or 'bypass' (any units may go)",
        )


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """Step t serves query t on ``worker[t]`` and loads its whole path. Immutable.

    Besides that it changes the cached length of ``edge[i]`` to ``kept[i]`` units, for i in
    ``start[t] … start[t+1] − 1``; every other edge stays as it is.

    Parameters
    ----------
    admission
        ``"forced"``: the changes happen before the path is loaded and are never on it.
        ``"bypass"``: the path is loaded first, and units of cache and path may go.
    worker
        int32[n]; who serves each query.
    start
        int32[n + 1]; the changes of each step in ``edge`` and ``kept``.
    edge, kept
        int32[k]; an edge, and the units of it that stay cached, a prefix of the edge.

    Raises
    ------
    InputError
        If the arrays do not fit together. Whether the steps can be carried out on an instance is
        for `kvtheory.offline.replay.replay` to say.
    """

    admission: Admission
    worker: np.ndarray
    start: np.ndarray
    edge: np.ndarray
    kept: np.ndarray

    def __post_init__(self) -> None:
        check_admission(self.admission)
        for name in ("worker", "start", "edge", "kept"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int32, name))
        if len(self.start) != len(self.worker) + 1:
            raise bad("start", f"{len(self.start)} values", f"need {len(self.worker) + 1}")
        if self.start[0] != 0 or (np.diff(self.start) < 0).any():
            raise bad("start", self.start.tolist(), "must rise from 0")
        if self.start[-1] != len(self.edge) or len(self.edge) != len(self.kept):
            raise bad(
                "edge", f"{len(self.edge)} values", f"need {int(self.start[-1])}, as has kept"
            )

    @property
    def steps(self) -> int:
        """Number of queries served."""
        return len(self.worker)

    @property
    def changes(self) -> int:
        """Number of changes of a cached length, over all steps."""
        return len(self.edge)

    def step_of(self) -> np.ndarray:
        """int32[k]; the step of each change."""
        return np.repeat(np.arange(self.steps, dtype=np.int32), np.diff(self.start))

    def _by_edge(self) -> tuple[np.ndarray, ...]:
        # Inside a step the order of the changes means nothing.
        order = np.lexsort((self.edge, self.step_of()))
        return self.worker, self.start, self.edge[order], self.kept[order]

    def save(self, path: str | Path) -> None:
        """Write to a ``.npz`` file; a reader sees the old file or the whole new one."""
        with atomic(path, "wb") as file:
            np.savez_compressed(
                file,
                format=np.int64(_FORMAT),
                admission=np.array(self.admission),
                worker=self.worker,
                start=self.start,
                edge=self.edge,
                kept=self.kept,
            )

    @classmethod
    def load(cls, path: str | Path) -> "Schedule":
        """Read what `save` wrote.

        Raises
        ------
        InputError
            If the file is not a schedule, naming it.
        FileNotFoundError
            If there is none.
        """
        try:
            with np.load(path, allow_pickle=False) as data:
                version = int(data["format"])
                fields = {name: data[name] for name in ("worker", "start", "edge", "kept")}
                admission = str(data["admission"])
        except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path}: does not hold a schedule: {error}") from None
        if version != _FORMAT:
            raise InputError(f"{path}: has format {version}, but this version reads {_FORMAT}")
        return cls(admission=admission, **fields)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        if self.admission != other.admission:
            return False
        mine, theirs = self._by_edge(), other._by_edge()
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Schedule({self.admission!r}, steps={self.steps}, changes={self.changes})"
