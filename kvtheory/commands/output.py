"""What the commands share: JSON, CSV and a progress bar."""

import csv
import json
import math
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any


def print_json(value: object) -> None:
    """Print as JSON; what is not a finite number becomes null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def write_csv(rows: Sequence[Mapping[str, object]], path: str) -> None:
    """Write rows with a header to a file, whole or not at all, or to standard output for ``-``."""
    if path == "-":
        _csv(rows, sys.stdout)
        return
    from kvtheory.atomic import atomic

    with atomic(path) as file:
        _csv(rows, file)


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
