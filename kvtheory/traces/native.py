"""The project's own formats, which hold everything an instance does: ``.npz`` and ``.jsonl``.

``.npz`` is one numpy array per field and ``meta``, JSON text. ``.jsonl`` has that text as its
first line, then a line per edge, then a line per query. Equal instances give equal bytes.
"""

import io
import json
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Ids, Instance
from kvtheory.traces.files import at_line, lines, read_bytes, written_whole
from kvtheory.tree import PrefixTree

VERSION = 1
PER_QUERY = ("arrival", "input_length", "output_length", "beyond", "end")
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_NO_ARCHIVE = (*_MALFORMED, EOFError, OSError, zlib.error, zipfile.BadZipFile)


def read_npz(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read what `write_npz` wrote, without unpickling anything."""
    _nothing_to_choose(ids, block_size)
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        return _instance(json.loads(str(arrays.pop("meta"))), arrays)
    except InputError as error:
        raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    except _NO_ARCHIVE as error:
        raise InputError(f"{path}: is not an instance as .npz: {_said(error)}") from None


def write_npz(instance: Instance, path: Path) -> None:
    """Write a zip archive of numpy arrays, without the time of writing in it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for key, value in {"meta": np.array(_meta(instance)), **_arrays(instance)}.items():
            member = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # the same bytes on every system
            member.external_attr = 0o644 << 16
            with archive.open(member, "w") as stream:
                np.lib.format.write_array(stream, value, allow_pickle=False)
    with written_whole(path) as stream:
        stream.write(data.getbuffer())


def read_jsonl(
    path: Path, ids: Ids | None = None, block_size: int | None = None, progress: bool = False
) -> Instance:
    """Read what `write_jsonl` wrote.

    Raises
    ------
    InputError
        Naming the file, the line and what is wrong with it.
    """
    _nothing_to_choose(ids, block_size)
    rows = lines(path, progress)
    number, text = next(rows, (1, ""))
    try:
        meta = json.loads(text)
        edge = {"parent": array("q"), "length": array("q")}
        if meta["labels"]:
            edge["labels"] = array("q")
        query = {"query": array("q")}
        query |= {k: array("d" if k == "arrival" else "q") for k in meta["fields"]}
        counts = range(meta["edges"]), range(meta["requests"])
    except _MALFORMED as error:
        raise at_line(path, number, f"is not the head of an instance: {_said(error)}") from None
    _fill(path, rows, edge, counts[0], "edges")
    _fill(path, rows, query, counts[1], "queries")
    for number, _ in rows:
        raise at_line(path, number, f"comes after the {len(counts[1])} queries of the head")
    try:
        columns = (edge | query).items()
        return _instance(meta, {k: np.array(v, v.typecode) for k, v in columns})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except _MALFORMED as error:
        raise at_line(path, 1, f"is not the head of an instance: {_said(error)}") from None


def write_jsonl(instance: Instance, path: Path) -> None:
    """Write a head, the edges and the queries as lines of JSON."""
    arrays = _arrays(instance)
    labels = arrays.pop("labels", None)
    edge = {"parent": arrays.pop("parent").tolist(), "length": arrays.pop("length").tolist()}
    if labels is not None:
        edge["labels"] = [a.tolist() for a in np.split(labels, instance.tree.offset[1:-1])]
    with written_whole(path) as stream:
        stream.write(f"{_meta(instance)}\n".encode())
        for table in (edge, {k: v.tolist() for k, v in arrays.items()}):
            for row in zip(*table.values(), strict=True):
                stream.write(f"{json.dumps(dict(zip(table, row, strict=True)))}\n".encode())


def _fill(
    path: Path, rows: Iterator[tuple[int, str]], table: dict[str, array], count: range, what: str
) -> None:
    for i in count:
        number, text = next(rows, (0, ""))
        if number == 0:
            raise InputError(f"{path}: ends after {i} of {len(count)} {what}")
        try:
            row = json.loads(text)
            for key, column in table.items():
                if key != "labels":
                    column.append(row[key])
                elif len(row[key]) == row["length"]:
                    column.fromlist(row[key])
                else:
                    raise ValueError(f"{len(row[key])} labels for {row['length']} units")
        except _MALFORMED as error:
            raise at_line(path, number, f"is not one of the {what}: {_said(error)}") from None


def _meta(instance: Instance) -> str:
    meta = {
        "kvtheory": "instance",
        "version": VERSION,
        "name": instance.name,
        "parameters": dict(instance.parameters),
        "source": instance.source,
        "block_size": instance.block_size,
        "edges": instance.tree.edges,
        "requests": instance.requests,
        "labels": instance.tree.labels is not None,
        "fields": [key for key in PER_QUERY if getattr(instance, key) is not None],
    }
    if instance.warm is not None:
        meta["warm"] = instance.warm.tolist()
    return json.dumps(meta, sort_keys=True, default=str)


def _arrays(instance: Instance) -> dict[str, np.ndarray]:
    tree = instance.tree
    arrays = {"parent": tree.parent, "length": tree.length, "labels": tree.labels}
    arrays |= {key: getattr(instance, key) for key in ("query", *PER_QUERY)}
    return {key: value for key, value in arrays.items() if value is not None}


def _instance(meta: dict[str, Any], arrays: dict[str, Any]) -> Instance:
    if meta["version"] != VERSION:
        raise InputError(f"has version {meta['version']!r} of the format; known: {VERSION}")
    tree = PrefixTree(arrays.pop("parent"), arrays.pop("length"), arrays.pop("labels", None))
    fields: dict[str, Any] = {k: meta[k] for k in ("name", "parameters", "source", "block_size")}
    if "warm" in meta:
        fields["warm"] = np.array(meta["warm"], np.int64).reshape(-1, 2)
    return Instance(tree, arrays.pop("query"), **(fields | arrays))


def _said(error: BaseException) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _nothing_to_choose(ids: Ids | None, block_size: int | None) -> None:
    for key, value in (("ids", ids), ("block_size", block_size)):
        if value is not None:
            raise InputError(f"{key} = {value!r}: a .npz or .jsonl instance has its own")
