"""Linear constraints collected block by block, as coordinates of one sparse matrix."""

from typing import Any

import numpy as np


class Rows:
    """Rows over a fixed number of columns; rows of one block end up next to each other."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.blocks: dict[str, slice] = {}
        self._parts: dict[str, list[tuple[int, Any, tuple[Any, ...]]]] = {}

    def add(self, block: str, rows: int, right: Any, *entries: tuple[Any, Any, Any]) -> None:
        """Add ``rows`` rows with the right sides ``right``.

        Each of ``entries`` is (row, column, value): arrays of one shape, or numbers.
        """
        self._parts.setdefault(block, []).append((rows, right, entries))

    def matrix(self) -> tuple[Any, np.ndarray]:
        """csr[rows, columns] and float64[rows], the right side; ``blocks`` says what is where."""
        from scipy import sparse

        row, column, value, right = [], [], [], []
        top = 0
        for name, parts in self._parts.items():
            begin = top
            for rows, side, entries in parts:
                right.append(np.broadcast_to(np.asarray(side, np.float64), (rows,)))
                for entry in entries:
                    r, c, v = np.broadcast_arrays(*entry)
                    row.append(r.ravel() + top)
                    column.append(c.ravel())
                    value.append(v.ravel().astype(np.float64))
                top += rows
            self.blocks[name] = slice(begin, top)
        coordinates = (np.concatenate(row), np.concatenate(column))
        shape = (top, self.columns)
        matrix = sparse.csr_array((np.concatenate(value), coordinates), shape=shape)
        matrix.eliminate_zeros()
        return matrix, np.concatenate(right)
