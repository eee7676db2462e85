"""Files that are either whole or not there."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from kvtheory.errors import InputError


@contextmanager
def atomic(path: str | Path, mode: str = "w") -> Generator[IO[Any]]:
    """A new file that takes the place of ``path`` when the block ends well.

    It is written beside ``path`` under another name and renamed, so that a reader sees the old
    file or the whole new one, and an interrupted run leaves neither half of it. What is not a
    regular file (a pipe, ``/dev/stdout``) is written directly.

    Raises
    ------
    InputError
        If the folder is not there, or ``path`` is a folder.
    """
    path = Path(path)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():
        with path.open(mode, encoding=encoding, newline=newline) as file:
            yield file
        return
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {str(path.parent)!r} does not exist")
    path = path.resolve()  # a link keeps pointing where it did
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:  # from here on, so that an interrupt between opening and writing leaves nothing either
        try:
            file = part.open(mode.replace("w", "x"), encoding=encoding, newline=newline)
        except PermissionError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
