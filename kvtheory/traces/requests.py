"""Plain request lists, as of classic paging: the integer id of one object a line.

Blank lines and lines of ``*``, which mark break points in the LIRS traces, are skipped.
"""

from array import array
from pathlib import Path

import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import at_line, lines, written_whole
from kvtheory.traces.sequences import built, refuse


def read(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read a request list; every request is one unit.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.
    """
    flat = array("q")
    for number, text in lines(path, progress):
        try:
            flat.append(int(text))
        except (ValueError, OverflowError):
            if text.strip("*"):
                raise at_line(path, number, _problem(text)) from None
    return built(
        path,
        flat,
        array("q", [1]) * len(flat),
        format="requests",
        ids=ids or "global",
        block_size=1 if block_size is None else block_size,
    )


def write(instance: Instance, path: Path) -> None:
    """Write the ids of the requests.

    Raises
    ------
    InputError
        If a request is not a single unit, or if there are times, lengths or a cut.
    """
    refuse(
        instance, "requests", "arrival", "input_length", "output_length", "beyond", "end", "warm"
    )
    wrong = np.flatnonzero(instance.query_length != 1)
    if len(wrong):
        t = int(wrong[0])
        raise InputError(
            f"query {t} has {int(instance.query_length[t])} units: the format 'requests' holds "
            f"requests of one unit each; write a .npz, .jsonl or .tokens file"
        )
    tree = instance.tree
    unit = tree.offset[instance.query]
    ids = unit if tree.labels is None else tree.labels[unit]
    with written_whole(path) as stream:
        for one in ids.tolist():
            stream.write(b"%d\n" % one)


def _problem(text: str) -> str:
    try:
        int(text)
    except ValueError:
        hint = ""
        if text.replace(",", " ").split()[1:]:
            hint = "; for lists of tokens pass format='tokens'"
        return f"{text[:60]!r} is not one integer id{hint}"
    return f"{text[:60]} does not fit 64 bits"
