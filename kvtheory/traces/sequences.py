"""Between the lists of ids in a file and an instance."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import stem

_CHUNK = 1024  # requests expanded at once


def paths(instance: Instance, labels: np.ndarray | None) -> Iterator[list[int]]:
    """The path of each query from the root down, named by ``labels`` (None: unit numbers).

    Examples
    --------
    >>> instance = Instance.from_tokens([[5, 6], [5], []])
    >>> list(paths(instance, instance.tree.labels)), list(paths(instance, None))
    ([[5, 6], [5], []], [[0, 1], [0], []])
    """
    tree, log = instance.tree, instance.log
    depth = np.append(tree.depth, 0)
    for first in range(0, instance.requests, _CHUNK):
        queries = instance.query[first : first + _CHUNK]
        # The log has the deepest edge first: backwards it goes from the root, last query first.
        edge = log.edge[log.start[first] : log.start[first + len(queries)]][::-1]
        length = tree.length[edge].astype(np.int64)
        shift = tree.offset[edge] - (np.cumsum(length) - length)
        unit = np.arange(int(length.sum())) + np.repeat(shift, length)
        ids = (unit if labels is None else labels[unit]).tolist()
        end = len(ids)
        for size in depth[queries].tolist():
            yield ids[end - size : end]
            end -= size


def built(
    path: Path, flat: array, size: array, *, format: str, ids: Ids, **fields: object
) -> Instance:
    """The instance of the ids ``flat`` in requests of ``size`` each, named after its file."""
    if not size:
        raise InputError(f"{path}: holds no requests")
    start = np.zeros(len(size) + 1, np.int64)
    np.cumsum(np.frombuffer(size, np.int64), out=start[1:])
    units = np.frombuffer(flat, np.int64) if flat else np.zeros(0, np.int64)
    try:
        return Instance.from_flat(
            units,
            start,
            ids=ids,
            name=stem(path),
            parameters={"format": format, "ids": ids},
            source=path.name,
            **fields,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def refuse(instance: Instance, format: str, *fields: str) -> None:
    """Refuse to write what ``format`` has no place for."""
    for field in fields:
        if getattr(instance, field) is not None:
            raise InputError(
                f"the format {format!r} has no place for {field}; write a .npz or .jsonl file, "
                f"or drop it: dataclasses.replace(instance, {field}=None), or "
                f"kvtheory trace convert --drop {field}"
            )
