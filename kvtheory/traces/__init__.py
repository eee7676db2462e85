"""File formats of request sequences. Compression by ``.gz`` or ``.xz`` is seen to by itself.

========== ================================================ ========================
format     what it holds                                    module
========== ================================================ ========================
npz, jsonl everything an instance does                      `kvtheory.traces.native`
mooncake   block hashes, times, lengths                     `kvtheory.traces.mooncake`
tokens     token lists                                      `kvtheory.traces.tokens`
prompts    text with real shared prefixes, times            `kvtheory.traces.prompts`
requests   one object a line: classic paging                `kvtheory.traces.requests`
azure      arrivals and lengths, to `join` to prompts       `kvtheory.traces.azure`
========== ================================================ ========================

All but the first two hold the requests alone: reading builds the tree anew.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kvtheory.errors import InputError, unknown
from kvtheory.instance import Ids, Instance
from kvtheory.traces import azure, mooncake, native, prompts, requests, tokens
from kvtheory.traces.azure import join
from kvtheory.traces.files import at_line, lines, suffix
from kvtheory.traces.info import TraceInfo, trace_info

__all__ = ["FORMATS", "TraceInfo", "join", "read", "trace_info", "write"]


class Format(NamedTuple):
    """How one format is read and written."""

    read: Callable[..., Instance]
    write: Callable[[Instance, Path], None] | None
    suffix: str  # for which `write` takes it, if any


FORMATS = {
    "azure": Format(azure.read, None, ""),
    "jsonl": Format(native.read_jsonl, native.write_jsonl, ".jsonl"),
    "mooncake": Format(mooncake.read, mooncake.write, ""),
    "npz": Format(native.read_npz, native.write_npz, ".npz"),
    "prompts": Format(prompts.read, prompts.write, ""),
    "requests": Format(requests.read, requests.write, ".trace"),
    "tokens": Format(tokens.read, tokens.write, ".tokens"),
}


def read(
    path: str | os.PathLike[str],
    format: str = "auto",
    ids: Ids | None = None,
    block_size: int | None = None,
    *,
    progress: bool = False,
) -> Instance:
    """Read a request sequence from a file.

    Parameters
    ----------
    path
        The file; compressed ones are known by their content.
    format
        A key of `FORMATS`, or ``"auto"`` to go by the suffix and the first line.
    ids
        ``"global"`` if an id names a whole prefix, as block hashes do; ``"local"`` if equal ids
        below different prefixes are different units, as tokens are. None: as the format has it.
    block_size
        Tokens in one unit. None: 512 for Mooncake, 1 for tokens and requests.
    progress
        Show a bar on a terminal if it takes more than a second.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "small.tokens.gz"
    >>> write(Instance.from_tokens([[1, 2, 3], [1, 2, 4]]), path)
    >>> read(path)
    Instance('small', requests=2, units=4, edges=3)
    """
    path = Path(path)
    if format != "auto" and format not in FORMATS:
        raise unknown("format", format, [*FORMATS, "auto"])
    name = _detected(path) if format == "auto" else format
    return FORMATS[name].read(path, ids=ids, block_size=block_size, progress=progress)


def write(instance: Instance, path: str | os.PathLike[str], format: str = "auto") -> None:
    """Write an instance to a file, which appears whole or not at all.

    Parameters
    ----------
    instance
        What to write.
    path
        The file; compressed if its name ends in ``.gz`` or ``.xz``.
    format
        A key of `FORMATS`, or ``"auto"`` to go by the suffix: ``.npz`` and ``.jsonl`` hold
        everything, ``.tokens`` and ``.trace`` (requests) the ids alone.

    Raises
    ------
    InputError
        If the format has no place for something that the instance holds.
    """
    path = Path(path)
    if format == "auto":
        known = {form.suffix: name for name, form in FORMATS.items() if form.suffix}
        if suffix(path) not in known:
            raise InputError(
                f"{path}: no format has the suffix {suffix(path)!r}; known: {', '.join(known)}; "
                f"or pass format=, one of {', '.join(FORMATS)}"
            )
        format = known[suffix(path)]
    if format not in FORMATS:
        raise unknown("format", format, [*FORMATS, "auto"])
    if (writer := FORMATS[format].write) is None:
        raise InputError(f"format = {format!r}: is read only")
    writer(instance, path)


def _detected(path: Path) -> str:
    if suffix(path) in (".npz", ".tokens"):
        return suffix(path)[1:]
    number, text = next(lines(path), (0, ""))
    if number == 0:
        raise InputError(f"{path}: is empty")
    if text[0] == "[":
        return "tokens"
    if text[0] == "{":
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise at_line(path, number, f"bad JSON: {error}") from None
        if "kvtheory" in row:
            return "jsonl"
        if "prompt" in row:
            return "prompts"
        if any(field in row for field in mooncake.FIELDS):
            return "mooncake"
        raise at_line(
            path, number, "an object with none of 'hash_ids', 'prompt' and 'kvtheory' in it"
        )
    if text == azure.HEAD:
        return "azure"
    fields = text.replace(",", " ").split()
    if len(fields) == 1:
        return "requests"
    try:
        [int(field) for field in fields]
    except ValueError:
        raise at_line(path, number, f"no known format: {text[:60]!r}; pass format=") from None
    return "tokens"
