"""What the commands share: JSON, CSV, a progress bar, and checks of files to be written."""

import csv
import json
import math
import os
import sys
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from kvtheory.errors import InputError, bad


def print_json(value: object) -> None:
    """Print as JSON; what is not a finite number becomes null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def write_csv(rows: Sequence[Mapping[str, object]], path: str) -> None:
    """Write rows with a header to a file, whole or not at all, or to standard output for ``-``."""
    if path == "-":
        _csv(rows, sys.stdout)
        return
    from kvtheory.atomic import atomic

    with naming(path), atomic(path) as file:
        _csv(rows, file)


def check_files(**files: str | None) -> None:
    """Whether files can be written, before the work and not after it; None is no file.

    Each is given by the name of its option: ``csv`` may be ``-`` for standard output, ``plot``
    and ``figure`` need a format that can be drawn, and matplotlib.

    Raises
    ------
    InputError
        Naming the first that cannot.
    """
    for option, path in files.items():
        if path is None or (option == "csv" and path == "-"):
            continue
        if not path:
            raise bad(option, path, "needs the name of a file")
        if option in ("plot", "figure"):
            _check_plot(path)
        target = Path(path)
        if target.is_dir():
            raise InputError(f"{path}: is a folder; name a file")
        if not target.parent.is_dir():
            raise InputError(f"{path}: the folder {str(target.parent)!r} does not exist")
        direct = target.exists() and not target.is_file()  # a pipe or a device
        if not os.access(target if direct else target.parent, os.W_OK):
            raise InputError(f"{path}: cannot be written: no permission; choose another folder")


def _check_plot(path: str) -> None:
    from kvtheory.report.plot import blank, check_path

    check_path(path)
    blank(1, 1)  # says how to install matplotlib


@contextmanager
def naming(path: str) -> Generator[None]:
    """Add the name of the file to an error that has none: a full disk does not say where."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def _csv(rows: Sequence[Mapping[str, object]], file: Any) -> None:
    names: Iterable[str] = rows[0] if rows else []
    writer = csv.DictWriter(file, list(names), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if _missing(value) else value for key, value in row.items()})


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Progress:
    """A bar on standard error for work of more than a second, if that is a terminal.

    It shows the time going by even while one piece of work takes long.
    """

    def __init__(self, pieces: int) -> None:
        from tqdm import tqdm

        self._bar = tqdm(
            total=pieces,
            delay=1,
            disable=None,
            leave=False,
            file=sys.stderr,
            bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}",
        )
        self._done = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Progress":
        if not self._bar.disable:
            self._clock.start()
        return self

    def __call__(self, what: str, done: float = 0.0) -> None:
        """Name the work at hand; ``done`` pieces of it (a part of one) have just been finished."""
        self._bar.set_description_str(what, refresh=False)
        self._bar.update(done)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._clock.is_alive():
            self._clock.join()
        self._bar.close()

    def _tick(self) -> None:
        while not self._done.wait(1.0):
            self._bar.refresh()
