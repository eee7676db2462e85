"""The prefix tree of a request sequence, compressed to edges.

An edge is a maximal run of units that every query either contains whole or not at all, so a
query is a node at the end of an edge and its path is a short list of edges. Edges are numbered
by first appearance, parents before children: the numbering does not depend on the ids.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvtheory.errors import InputError, bad

_CHUNK = 1 << 22  # elements compared at once: bounds the memory of the longest-common-prefix pass


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
        return (
            np.array_equal(self.parent, other.parent)
            and np.array_equal(self.length, other.length)
            and (self.labels is None) == (other.labels is None)
            and (self.labels is None or np.array_equal(self.labels, other.labels))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PrefixTree(edges={self.edges}, units={self.units})"


def frozen(array: object, dtype: type, name: str) -> np.ndarray:
    """A read-only one-dimensional copy of ``array`` in ``dtype``, refusing lossy conversion."""
    given = np.asarray(array)
    if given.size == 0:
        given = given.reshape(-1).astype(dtype)
    if given.ndim != 1:
        raise bad(name, given.shape, "must be one-dimensional")
    if np.issubdtype(dtype, np.integer) and not np.issubdtype(given.dtype, np.integer):
        raise bad(name, str(given.dtype), "must hold integers")
    out = given.astype(dtype)
    if np.issubdtype(dtype, np.integer) and not np.array_equal(out, given):
        raise bad(name, given, f"does not fit {np.dtype(dtype).name}")
    out.setflags(write=False)
    return out


def flatten(sequences: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Lists of ids as one int64 array and int64[n + 1] boundaries."""
    arrays = []
    for i, sequence in enumerate(sequences):
        row = np.asarray(sequence)
        if row.size == 0:
            row = np.zeros(0, np.int64)
        if row.ndim != 1 or not np.issubdtype(row.dtype, np.integer):
            raise bad(f"sequences[{i}]", sequence, "must be a flat list of integers")
        arrays.append(row.astype(np.int64, copy=False))
    start = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(a) for a in arrays], out=start[1:])
    flat = np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
    return flat, start


def tree_from_chained_ids(flat: np.ndarray, start: np.ndarray) -> tuple[PrefixTree, np.ndarray]:
    """The tree of sequences whose ids name units globally: an id has one parent everywhere.

    Block hashes are such ids, since each is computed over the whole prefix.

    Parameters
    ----------
    flat, start
        int64[total] ids of all sequences, and int64[n + 1] their boundaries.

    Returns
    -------
    tree, query
        The tree, and int32[n] the edge at whose end each sequence ends (−1 if it is empty).

    Raises
    ------
    InputError
        If an id stands below two different ids, naming all three and both sequences.

    Notes
    -----
    O(total), without a sort where the ids are small. A unit continues its parent's edge exactly
    when as many sequences contain it as contain its parent.
    """
    if len(flat) == 0:
        return PrefixTree([], []), np.full(len(start) - 1, -1, np.int32)
    low, high = int(flat.min()), int(flat.max())
    if low >= 0 and high < 4 * len(flat) + 1024:
        values, unit = None, flat
        size = high + 1
    else:
        values, unit = np.unique(flat, return_inverse=True)
        size = len(values)
    above = np.empty(len(flat), np.int64)
    above[1:] = unit[:-1]
    above[start[:-1][start[:-1] < start[1:]]] = -1
    first = np.full(size, -1, np.int64)
    first[unit[::-1]] = np.arange(len(flat) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    parent = np.full(size, -1, np.int64)
    parent[present] = above[first[present]]
    wrong = np.flatnonzero(parent[unit] != above)
    if len(wrong):
        raise _two_parents(int(wrong[0]), flat, start, int(first[unit[wrong[0]]]))
    count = np.bincount(unit, minlength=size)
    order = present[np.argsort(first[present], kind="stable")]
    above_count = np.where(parent[order] >= 0, count[parent[order]], -1)
    head = count[order] != above_count
    edge_of = np.full(size, -1, np.int64)
    edge_of[order] = np.cumsum(head) - 1
    heads = order[head]
    edge_parent = np.where(parent[heads] >= 0, edge_of[parent[heads]], -1)
    length = np.bincount(edge_of[order], minlength=len(heads))
    labels = order if values is None else values[order]
    query = np.full(len(start) - 1, -1, np.int32)
    some = start[1:] > start[:-1]
    query[some] = edge_of[unit[start[1:][some] - 1]]
    return PrefixTree(edge_parent, length, labels), query


def _two_parents(at: int, flat: np.ndarray, start: np.ndarray, first: int) -> InputError:
    def above(position: int) -> tuple[int, str]:
        row = int(np.searchsorted(start, position, side="right")) - 1
        return row, "the root" if position == start[row] else str(int(flat[position - 1]))

    row_a, above_a = above(first)
    row_b, above_b = above(at)
    return InputError(
        f"id {int(flat[at])} has two parents: {above_a} in request {row_a} and {above_b} in "
        f"request {row_b}; if ids depend on their path, pass ids='local'"
    )


def tree_from_local_ids(flat: np.ndarray, start: np.ndarray) -> tuple[PrefixTree, np.ndarray]:
    """The tree of raw token sequences: equal tokens below different paths are different units.

    Takes and returns what `tree_from_chained_ids` does; any integers are allowed.

    Notes
    -----
    Sorts the sequences as byte strings, takes the longest common prefixes of neighbours and
    builds the tree with a stack: O(total + n log n) array work and O(n) interpreted steps.
    """
    n = len(start) - 1
    size = np.diff(start)
    if len(flat) == 0:
        return PrefixTree([], []), np.full(n, -1, np.int32)
    if flat.min() >= 0 and flat.max() < 2**32:
        raw, width = flat.astype(">u4").tobytes(), 4
    else:
        raw, width = (flat.astype(np.uint64) ^ np.uint64(1 << 63)).astype(">u8").tobytes(), 8
    view = memoryview(raw)
    cuts = (start * width).tolist()
    keys = [bytes(view[a:b]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    order = np.array(sorted(range(n), key=keys.__getitem__), np.int64)
    del keys, raw, view
    common = _common_prefixes(flat, start[order], size[order])

    # Nodes of the tree in the order they are made; a stack holds the path to the last leaf.
    depth, up, row, node_of = [0], [-1], [-1], np.zeros(n, np.int64)
    stack = [0]
    for query, shared, length in zip(
        order.tolist(), [0, *common.tolist()], size[order].tolist(), strict=True
    ):
        below = -1
        while depth[stack[-1]] > shared:
            below = stack.pop()
        if depth[stack[-1]] < shared:  # split the edge that led to `below`
            depth.append(shared)
            up.append(stack[-1])
            row.append(row[below])
            up[below] = len(depth) - 1
            stack.append(len(depth) - 1)
        if length > depth[stack[-1]]:
            depth.append(length)
            up.append(stack[-1])
            row.append(query)
            stack.append(len(depth) - 1)
        node_of[query] = stack[-1]
    return _in_order_of_appearance(flat, start, depth, up, row, node_of)


def _common_prefixes(flat: np.ndarray, begin: np.ndarray, size: np.ndarray) -> np.ndarray:
    """int64[n − 1]; units that each sequence shares with the next one."""
    limit = np.minimum(size[:-1], size[1:])
    common = np.zeros(len(limit), np.int64)
    edges = np.concatenate([[0], np.cumsum(limit)])
    first = 0
    while first < len(limit):
        last = int(np.searchsorted(edges, edges[first] + _CHUNK, side="right")) - 1
        last = max(last, first + 1)
        counts = limit[first:last]
        total = int(counts.sum())
        if total:
            offset = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            a = flat[np.repeat(begin[first:last], counts) + offset]
            b = flat[np.repeat(begin[first + 1 : last + 1], counts) + offset]
            agree = np.where(a == b, np.repeat(counts, counts), offset)
            some = counts > 0
            starts = (np.cumsum(counts) - counts)[some]
            common[first:last][some] = np.minimum.reduceat(agree, starts)
        first = last
    return common


def _in_order_of_appearance(
    flat: np.ndarray,
    start: np.ndarray,
    depth: list[int],
    up: list[int],
    row: list[int],
    node_of: np.ndarray,
) -> tuple[PrefixTree, np.ndarray]:
    nodes = len(depth)
    deep, parent, rows = np.array(depth), np.array(up), np.array(row)
    appears = np.full(nodes, len(node_of), np.int64)
    np.minimum.at(appears, node_of, np.arange(len(node_of)))
    for v in np.argsort(-deep, kind="stable")[:-1].tolist():  # deepest first, the root left out
        if appears[v] < appears[parent[v]]:
            appears[parent[v]] = appears[v]
    order = np.lexsort((deep[1:], appears[1:])) + 1
    rank = np.full(nodes, -1, np.int64)
    rank[order] = np.arange(nodes - 1)
    top = deep[parent[order]]
    length = deep[order] - top
    source = start[rows[order]] + top
    offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    labels = flat[np.repeat(source, length) + offset]
    return PrefixTree(rank[parent[order]], length, labels), rank[node_of].astype(np.int32)
