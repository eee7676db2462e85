"""Arrays that grow by rows, and a numbering of distinct rows."""

import numpy as np


class Rows:
    """An array with room to grow along its first axis.

    Parameters
    ----------
    width
        Shape of a row.
    dtype
        Of the entries.
    """

    def __init__(self, width: tuple[int, ...], dtype: type) -> None:
        self._array = np.empty((1024, *width), dtype)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> np.ndarray:
        """The rows so far; a view that the next `append` may leave behind."""
        return self._array[: self._used]

    def append(self, rows: np.ndarray) -> None:
        """Add rows at the end."""
        needed = self._used + len(rows)
        if needed > len(self._array):
            room = max(needed, 2 * len(self._array)) - self._used
            empty = np.empty((room, *self._array.shape[1:]), self._array.dtype)
            self._array = np.concatenate([self.rows, empty])
        self._array[self._used : needed] = rows
        self._used = needed


class Numbering:
    """Numbers distinct rows of bytes 0, 1, 2, … as they come."""

    def __init__(self, width: int) -> None:
        self._number: dict[bytes, int] = {}
        self._rows = Rows((width,), np.uint8)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> np.ndarray:
        """uint8[len, width]; the rows by number."""
        return self._rows.rows

    def of(self, rows: np.ndarray) -> np.ndarray:
        """int64[rows]; the number of each row, new ones numbered."""
        width = rows.shape[1]
        data = np.ascontiguousarray(rows).tobytes()
        number = self._number
        before = len(number)
        out = np.empty(len(rows), np.int64)
        new = []
        for i in range(len(rows)):
            key = data[i * width : (i + 1) * width]
            at = number.setdefault(key, len(number))
            out[i] = at
            if at == before + len(new):
                new.append(i)
        self._rows.append(rows[new])
        return out


class Pairs:
    """Numbers distinct 64-bit keys 0, 1, 2, … as they come, in batches."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.int64)
        self._number = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._sorted)

    def of(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of each key, and the new keys in the order of their numbers."""
        distinct, which = np.unique(keys, return_inverse=True)
        at = np.searchsorted(self._sorted, distinct)
        known = np.zeros(len(distinct), bool)
        inside = at < len(self._sorted)
        known[inside] = self._sorted[at[inside]] == distinct[inside]
        number = np.empty(len(distinct), np.int64)
        number[known] = self._number[at[known]]
        new = distinct[~known]
        number[~known] = len(self._sorted) + np.arange(len(new))
        self._sorted = np.insert(self._sorted, at[~known], new)
        self._number = np.insert(self._number, at[~known], number[~known])
        return number[which], new
