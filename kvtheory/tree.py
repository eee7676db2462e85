"""The prefix tree of a request sequence, compressed to edges.

An edge is a maximal run of units that every query either contains whole or not at all, so a
query is a node at the end of an edge and its path is a short list of edges. Edges are numbered
by first appearance, parents before children: the numbering does not depend on the ids.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvtheory.errors import bad


@dataclass(frozen=True, eq=False, repr=False)
class PrefixTree:
    """A rooted tree over units, stored edge by edge. Immutable.

    Parameters
    ----------
    parent
        int32[edges]; the edge above each edge, −1 at the root. ``parent[e] < e``.
    length
        int32[edges]; units of each edge, at least 1.
    labels
        int64[units] or None; the ids of the units, edge by edge, top unit first. None numbers
        the units 0, 1, 2, … in that order.

    Raises
    ------
    InputError
        If the arrays do not describe a tree in this order.

    Examples
    --------
    >>> tree = PrefixTree([-1, 0, 0], [2, 1, 3])
    >>> tree.units, tree.depth.tolist(), tree.path(2)
    (6, [2, 3, 5], [0, 2])
    """

    parent: np.ndarray
    length: np.ndarray
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        parent = frozen(self.parent, np.int32, "parent")
        length = frozen(self.length, np.int32, "length")
        if parent.shape != length.shape:
            raise bad("length", length.shape, f"must have the shape of parent, {parent.shape}")
        wrong = np.flatnonzero((parent < -1) | (parent >= np.arange(len(parent))))
        if len(wrong):
            e = int(wrong[0])
            raise bad(f"parent[{e}]", int(parent[e]), "must be −1 or an earlier edge")
        wrong = np.flatnonzero(length < 1)
        if len(wrong):
            e = int(wrong[0])
            raise bad(f"length[{e}]", int(length[e]), "an edge has at least one unit")
        object.__setattr__(self, "parent", parent)
        object.__setattr__(self, "length", length)
        if self.labels is not None:
            labels = frozen(self.labels, np.int64, "labels")
            if len(labels) != self.units:
                raise bad("labels", len(labels), f"need one per unit, {self.units}")
            object.__setattr__(self, "labels", labels)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return len(self.parent)

    @cached_property
    def units(self) -> int:
        """Number of distinct units."""
        return int(self.length.sum(dtype=np.int64))

    @cached_property
    def depth(self) -> np.ndarray:
        """int32[edges]; units from the root down to the end of each edge."""
        return self._from_root(self.length)

    @cached_property
    def level(self) -> np.ndarray:
        """int32[edges]; edges from the root down to each edge, itself included."""
        return self._from_root(np.ones(self.edges, np.int32))

    @cached_property
    def offset(self) -> np.ndarray:
        """int64[edges + 1]; index of the first unit of each edge in ``labels``."""
        offset = np.zeros(self.edges + 1, np.int64)
        np.cumsum(self.length, out=offset[1:])
        offset.setflags(write=False)
        return offset

    @cached_property
    def children(self) -> np.ndarray:
        """int32[edges]; number of edges directly below each edge."""
        count = np.bincount(self.parent[self.parent >= 0], minlength=self.edges)
        return frozen(count, np.int32, "children")

    def path(self, edge: int) -> list[int]:
        """Edges from the root down to ``edge``, −1 giving the empty path."""
        path = []
        while edge >= 0:
            path.append(int(edge))
            edge = self.parent[edge]
        return path[::-1]

    def units_of(self, edge: int) -> np.ndarray:
        """int64[depth]; indices of the units on the path to the end of ``edge``."""
        parts = [np.arange(self.offset[e], self.offset[e + 1]) for e in self.path(edge)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def ids_of(self, edge: int) -> np.ndarray:
        """int64[depth]; ids of the units on the path to the end of ``edge``."""
        units = self.units_of(edge)
        return units if self.labels is None else self.labels[units]

    def _from_root(self, weight: np.ndarray) -> np.ndarray:
        # Pointer doubling: the depth of the tree in edges may be thousands, its logarithm is not.
        total = np.append(weight, 0).astype(np.int32)
        up = np.where(self.parent < 0, self.edges, self.parent)
        up = np.append(up, self.edges)
        while (up[:-1] < self.edges).any():
            total = total + total[up]
            up = up[up]
        return frozen(total[:-1], np.int32, "depth")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixTree):
            return NotImplemented
        if self.labels is None or other.labels is None:
            same = self.labels is None and other.labels is None
        else:
            same = np.array_equal(self.labels, other.labels)
        return (
            same
            and np.array_equal(self.parent, other.parent)
            and np.array_equal(self.length, other.length)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PrefixTree(edges={self.edges}, units={self.units})"


def frozen(array: object, dtype: type, name: str) -> np.ndarray:
    """A read-only one-dimensional array in ``dtype``, refusing lossy conversion.

    Copies unless ``array`` is such an array already, with nothing writable behind it.
    """
    given = np.asarray(array)
    if given.size == 0:
        given = given.reshape(-1).astype(dtype)
    if given.ndim != 1:
        raise bad(name, given.shape, "must be one-dimensional")
    if np.issubdtype(dtype, np.integer):
        if not np.issubdtype(given.dtype, np.integer):
            raise bad(name, str(given.dtype), "must hold integers")
        limit = np.iinfo(dtype)
        if given.size and not (limit.min <= int(given.min()) <= int(given.max()) <= limit.max):
            raise bad(name, given, f"does not fit {np.dtype(dtype).name}")
    if given.dtype == dtype and given.flags.c_contiguous and _is_read_only(given):
        return given
    out = given.astype(dtype)
    out.setflags(write=False)
    return out


def _is_read_only(given: object) -> bool:
    while isinstance(given, np.ndarray):
        if given.flags.writeable:
            return False
        given = given.base
    return given is None
