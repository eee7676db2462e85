"""The prefix tree of the queries seen so far, on the host: a number for each unit."""

from array import array
from collections.abc import Sequence

import numpy as np

from kvtheory.errors import bad


class Units:
    """Units numbered by first appearance; equal ids below different prefixes are different units.

    Memory: about 200 bytes a unit.
    """

    def __init__(self) -> None:
        self._below: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._below)

    def path(self, ids: Sequence[int]) -> list[int]:
        """The units of a query, from the root down; new ones get the next numbers."""
        below, unit, path = self._below, -1, []
        for i in ids:
            unit = below.setdefault((unit, i), len(below))
            path.append(unit)
        return path

    def known(self, ids: Sequence[int]) -> list[int]:
        """Its units down to the first that was never seen."""
        below, unit, path = self._below, -1, []
        for i in ids:
            found = below.get((unit, i))
            if found is None:
                break
            unit = found
            path.append(unit)
        return path


def ids_of(tokens: Sequence[int] | np.ndarray) -> list[int]:
    """The ids of a query as integers of Python, or an error that names the argument."""
    rule = "must be a flat sequence of integers of 64 bits"
    if isinstance(tokens, str | bytes | bytearray):
        raise bad("tokens", tokens, rule)
    if isinstance(tokens, np.ndarray):
        tokens = tokens.tolist()
    try:
        return array("q", tokens).tolist()
    except (TypeError, OverflowError):
        raise bad("tokens", tokens, rule) from None
