"""Measurements over time: a file with one JSON object a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvtheory.bench.measure import Measurement
from kvtheory.errors import InputError


def append(path: str | Path, machine: Mapping[str, str], measured: Sequence[Measurement]) -> None:
    """Add a run to the end of the file: date, machine and versions, and the measurements."""
    line = {"machine": dict(machine), "measurements": [m.as_dict() for m in measured]}
    text = json.dumps(line, ensure_ascii=False, allow_nan=False)
    with Path(path).open("ab", buffering=0) as file:  # one write, so that no half line is left
        file.write(f"{text}\n".encode())


def read(path: str | Path) -> list[tuple[dict[str, str], list[Measurement]]]:
    """The runs of a file in the order in which they were added.

    Raises
    ------
    InputError
        Naming the first line that is none.
    """
    out = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            told = json.loads(line)
            rows = [{k: v for k, v in row.items() if k != "met"} for row in told["measurements"]]
            out.append((dict(told["machine"]), [Measurement(**row) for row in rows]))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path}, line {number}: not a run of the benchmark: {error}"
            ) from None
    return out
