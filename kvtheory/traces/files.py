"""Reading lines and writing files whole: compression, progress, errors with a line number."""

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kvtheory.atomic import atomic
from kvtheory.errors import InputError

_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz"}
_TICK = 4096  # lines between two updates of the progress bar
_DELAY = 1.0  # seconds before it shows
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def at_line(path: Path, number: int, problem: str) -> InputError:
    """The error for a malformed line."""
    return InputError(f"{path}: line {number}: {problem}")


def stem(path: Path) -> str:
    """The file's name without its suffixes of format and compression."""
    name = path.name
    for suffix in (".gz", ".xz"):
        name = name.removesuffix(suffix)
    return name.rsplit(".", 1)[0] or name


def suffix(path: Path) -> str:
    """The suffix that tells the format: that of ``x.jsonl.gz`` is ``.jsonl``."""
    name = path.with_suffix("") if path.suffix in (".gz", ".xz") else path
    return name.suffix.lower()


def _open(path: Path) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


@contextmanager
def _opened(path: Path) -> Generator[tuple[IO[bytes], IO[bytes]]]:
    """The file as it lies, and the stream of its decompressed bytes."""
    with _open(path) as raw:
        head = raw.read(6)
        raw.seek(0)
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
        if path.suffix in (".gz", ".xz") and kind != path.suffix:
            raise InputError(f"{path}: is not {path.suffix[1:]} data, though its name says so")
        if kind == ".gz":
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield raw, io.BufferedReader(unpacked)  # type: ignore[arg-type]
        elif kind == ".xz":
            with lzma.LZMAFile(raw) as unpacked:
                yield raw, io.BufferedReader(unpacked)  # type: ignore[arg-type]
        else:
            yield raw, raw


def read_bytes(path: Path) -> bytes:
    """The whole file, decompressed."""
    try:
        with _opened(path) as (_, stream):
            return stream.read()
    except _BROKEN as error:
        raise InputError(f"{path}: cannot be decompressed: {error}") from None


def lines(path: Path, progress: bool = False) -> Iterator[tuple[int, str]]:
    """Number, from 1, and stripped text of each line that is not blank.

    Raises
    ------
    InputError
        If the file cannot be opened, decompressed or decoded.
    """
    number = 0
    try:
        with _opened(path) as (raw, stream), _bar(path, progress) as tick:
            for number, line in enumerate(stream, 1):
                if number % _TICK == 0:
                    tick(raw.tell())
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError as error:
                    raise at_line(path, number, f"is not UTF-8 text: {error.reason}") from None
                if number == 1:
                    text = text.removeprefix("\ufeff")
                if text:
                    yield number, text
    except _BROKEN as error:
        raise InputError(f"{path}: cannot be decompressed after line {number}: {error}") from None


@contextmanager
def _bar(path: Path, progress: bool) -> Generator[Callable[[int], object]]:
    if not (progress and sys.stderr.isatty()):
        yield lambda position: None
        return
    from tqdm import tqdm

    total = path.stat().st_size
    with tqdm(
        total=total, desc=path.name, unit="B", unit_scale=True, delay=_DELAY, leave=False
    ) as bar:
        yield lambda position: bar.update(position - bar.n)


@contextmanager
def written_whole(path: Path) -> Generator[IO[bytes]]:
    """A stream to fill ``path`` with: the file appears when it is complete, or not at all.

    Compressed if the name ends in ``.gz`` or ``.xz``. The same content gives the same bytes.
    """
    with atomic(path, "wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, fileobj=raw, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        elif path.suffix == ".xz":
            with lzma.LZMAFile(raw, "wb") as packed:
                yield packed  # type: ignore[misc]
        else:
            yield raw


def line_of(path: Path, request: int) -> int:
    """The line on which a request stands, counted without blank lines."""
    return next(number for t, (number, _) in enumerate(lines(path)) if t == request)
