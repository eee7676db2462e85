"""Token lists: one request a line, as a JSON list or as integers between blanks or commas.

Equal tokens below different prefixes are different units. Blank lines are skipped: an empty
request is ``[]``.
"""

import json
from array import array
from pathlib import Path

from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import at_line, lines, written_whole
from kvtheory.traces.sequences import built, paths, refuse


def read(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read token lists; ``ids="local"`` and units of one token unless told otherwise.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.
    """
    flat, size = array("q"), array("q")
    for number, text in lines(path, progress):
        try:
            row = (
                json.loads(text) if text[0] == "[" else [*map(int, text.replace(",", " ").split())]
            )
            flat.fromlist(row)
            size.append(len(row))
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise at_line(path, number, _problem(text)) from None
        if "true" in text or "false" in text:
            raise at_line(path, number, _problem(text))
    return built(
        path,
        flat,
        size,
        format="tokens",
        ids=ids or "local",
        block_size=1 if block_size is None else block_size,
    )


def write(instance: Instance, path: Path) -> None:
    """Write the requests as JSON lists.

    Raises
    ------
    InputError
        If the instance has times, lengths or a cut, for which the format has no place.
    """
    refuse(instance, "tokens", "arrival", "input_length", "output_length", "beyond", "end", "warm")
    with written_whole(path) as stream:
        for row in paths(instance, instance.tree.labels):
            stream.write(f"{row}\n".encode())


def _problem(text: str) -> str:
    row: object = text.replace(",", " ").split()
    if text[0] == "[":
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"bad JSON: {error}"
    for i, token in enumerate(row):  # type: ignore[arg-type]
        try:
            whole = type(token) is int or (isinstance(token, str) and text[0] != "[")
            value = int(token) if whole else None
        except ValueError:
            value = None
        if value is None:
            return f"token {i} = {token!r}: must be an integer"
        if not -(2**63) <= value < 2**63:
            return f"token {i} = {value}: does not fit 64 bits"
    return "must be a list of integers"
