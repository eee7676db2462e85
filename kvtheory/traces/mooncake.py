"""Mooncake's JSONL: one request a line, its prompt as the ids of chained token blocks.

``{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}``:
milliseconds, tokens, and one id per block, the last of which may be partly filled. Other fields
are ignored. ``null`` for a time or a length, on every line, says that the trace has none.

References
----------
Qin et al., Mooncake: Trading More Storage for Less Computation, FAST 2025.
"""

import json
import math
from array import array
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import at_line, line_of, lines, written_whole
from kvtheory.traces.sequences import built, paths, refuse

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
BLOCK = 512

_NULL = -(2**63)
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
# Decimal keeps a fractional timestamp exact until it is divided by 1000.
decode = json.JSONDecoder(parse_float=Decimal).decode
_fields = itemgetter(*FIELDS)


def read(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read a Mooncake trace; ``ids="global"`` and blocks of 512 tokens unless told otherwise.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.
    """
    flat, size = array("q"), array("q")
    times, given, made = array("d"), array("q"), array("q")
    for number, text in lines(path, progress):
        try:
            stamp, prompt, output, hashes = _fields(decode(text))
            flat.fromlist(hashes)
            size.append(len(hashes))
            times.append(math.nan if stamp is None else seconds(stamp))
            given.append(_NULL if prompt is None else prompt)
            made.append(_NULL if output is None else output)
        except _MALFORMED:
            raise at_line(path, number, _problem(text)) from None
        # true and false pass as 1 and 0: a line with either is looked at closely.
        if ("true" in text or "false" in text) and (problem := _problem(text)):
            raise at_line(path, number, problem)
    columns = {"timestamp": times, "input_length": given, "output_length": made}
    arrival, input_length, output_length = (_column(path, k, v) for k, v in columns.items())
    return built(
        path,
        flat,
        size,
        format="mooncake",
        ids=ids or "global",
        block_size=BLOCK if block_size is None else block_size,
        arrival=arrival,
        input_length=input_length,
        output_length=output_length,
    )


def write(instance: Instance, path: Path) -> None:
    """Write the requests; reading them with the same block size builds an equal tree.

    Ids that do not name units globally, as tokens do not, give way to the units' numbers.

    Raises
    ------
    InputError
        If the tree is cut (`Instance.truncate`), which the format cannot say.
    """
    refuse(instance, "mooncake", "beyond", "end", "warm")
    labels = instance.tree.labels
    if labels is not None and len(np.unique(labels)) < len(labels):
        labels = None
    columns = (
        _texts(instance.arrival, instance.requests, milliseconds),
        _texts(instance.input_length, instance.requests, str),
        _texts(instance.output_length, instance.requests, str),
    )
    with written_whole(path) as stream:
        for stamp, prompt, output, ids in zip(*columns, paths(instance, labels), strict=True):
            stream.write(
                f'{{"timestamp": {stamp}, "input_length": {prompt}, "output_length": {output}, '
                f'"hash_ids": {ids}}}\n'.encode()
            )


def _texts(values: np.ndarray | None, n: int, form: Callable[[Any], str]) -> Iterable[str]:
    return repeat("null", n) if values is None else map(form, values.tolist())


def seconds(stamp: object) -> float:
    """A timestamp in milliseconds, an int or a Decimal, in seconds."""
    if type(stamp) is int:
        return stamp / 1000
    time = float(stamp.scaleb(-3))  # type: ignore[attr-defined]
    if not math.isfinite(time):
        raise ValueError
    return time


def milliseconds(time: float) -> str:
    """Digits that `seconds` turns back into exactly this float."""
    whole = round(time * 1000) if abs(time) < 2**43 else 0
    if whole and whole / 1000 == time:
        return str(whole)
    if time == 0 and math.copysign(1, time) > 0:
        return "0"
    return format(Decimal(repr(time)).scaleb(3), "f")


def _column(path: Path, field: str, values: array) -> np.ndarray | None:
    column = np.frombuffer(values, values.typecode) if values else np.zeros(0)
    null = np.isnan(column) if values.typecode == "d" else column == _NULL
    if null.any():
        if null.all():
            return None
        t = int(np.flatnonzero(null != null[0])[0])
        raise at_line(path, line_of(path, t), f"{field} is null on some lines and not on others")
    if values.typecode == "d":
        wrong = np.flatnonzero(np.diff(column) < 0) + 1
    else:
        wrong = np.flatnonzero(column < 0)
    if len(wrong):
        t = int(wrong[0])
        problem = f"{field} = {values[t]}: must not be negative"
        if values.typecode == "d":
            above, here = milliseconds(values[t - 1]), milliseconds(values[t])
            problem = f"{field} = {here}: is before that of the request above, {above}"
        raise at_line(path, line_of(path, t), problem)
    return column


def _problem(text: str) -> str:
    """What is wrong with a line by itself, or nothing."""
    try:
        row = decode(text)
    except (ValueError, ArithmeticError, RecursionError) as error:
        return f"bad JSON: {error}"
    if not isinstance(row, dict):
        return f"must be a JSON object, not {json.dumps(row, default=str)[:60]}"
    for field in FIELDS:
        if field not in row:
            return f"the field {field!r} is missing"
    if not isinstance(row["hash_ids"], list):
        return "hash_ids must be a list of integers"
    numbers = {f"hash_ids[{i}]": x for i, x in enumerate(row["hash_ids"])}
    numbers |= {k: row[k] for k in FIELDS[1:3] if row[k] is not None}
    for key, value in numbers.items():
        if type(value) is not int:
            return f"{key} = {value}: must be an integer"
        if not -(2**63) < value < 2**63:
            return f"{key} = {value}: does not fit 64 bits"
    try:
        if row["timestamp"] is not None:
            seconds(row["timestamp"])
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        return f"timestamp = {row['timestamp']}: must be a finite number of milliseconds"
    return ""
