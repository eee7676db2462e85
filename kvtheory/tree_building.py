"""Building the prefix tree of a request sequence from lists of ids.

Both builders number the edges by first appearance, so they agree wherever both apply.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.tree import PrefixTree

_CHUNK = 1 << 20  # elements looked at in one go: bounds the temporary arrays
_LONG = 256  # units from which comparing two slices is cheaper than an index array


def flatten(sequences: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Lists of ids as one int64 array and int64[n + 1] boundaries."""
    flat, ends = array("q"), array("q", [0])
    for i, sequence in enumerate(sequences):
        try:
            if not (isinstance(sequence, list) and type(sequence[0]) is int):
                raise TypeError
            flat.fromlist(sequence)  # several times as fast as by way of numpy
        except (TypeError, IndexError, OverflowError):
            row = np.asarray(sequence)
            if row.size and (row.ndim != 1 or not np.issubdtype(row.dtype, np.integer)):
                rule = "must be a flat list of integers"
                raise bad(f"sequences[{i}]", sequence, rule) from None
            flat.frombytes(np.ascontiguousarray(row, np.int64).view(np.uint8).data)
        ends.append(len(flat))
    return np.frombuffer(flat, np.int64) if flat else np.zeros(0, np.int64), np.array(ends)


def _check_start(flat: np.ndarray, start: np.ndarray) -> None:
    if len(start) == 0 or start[0] != 0 or start[-1] != len(flat) or (np.diff(start) < 0).any():
        raise bad("start", start, f"must rise from 0 to the number of ids, {len(flat)}")


_NO_UNITS = PrefixTree(np.zeros(0, np.int32), np.zeros(0, np.int32))


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

    Examples
    --------
    >>> tree, query = tree_from_chained_ids(*flatten([[7, 8, 9], [7, 8], []]))
    >>> tree.parent.tolist(), tree.length.tolist(), query.tolist()
    ([-1, 0], [2, 1], [1, 0, -1])
    """
    _check_start(flat, start)
    if len(flat) == 0:
        return _NO_UNITS, np.full(len(start) - 1, -1, np.int32)
    # Positions and units fit 31 bits but for giant inputs: half the memory, which is the limit.
    small = np.int32 if 4 * len(flat) + 1024 < 2**31 else np.int64
    values, unit, size = _dense(flat, small)
    first = np.full(size, -1, small)
    for a in range((len(flat) - 1) // _CHUNK * _CHUNK, -1, -_CHUNK):  # the last write wins
        part = unit[a : a + _CHUNK]
        first[part[::-1]] = np.arange(a + len(part) - 1, a - 1, -1, dtype=small)
    appears = np.zeros(len(flat), bool)
    appears[first[first >= 0]] = True
    position = np.flatnonzero(appears).astype(small)
    at_top = np.zeros(len(flat), bool)
    at_top[start[:-1][start[:-1] < start[1:]]] = True
    order = unit[position].astype(small, copy=False)
    parent = np.full(size, -1, small)
    parent[order] = np.where(at_top[position], -1, unit[position - 1])
    for a in range(0, len(flat), _CHUNK):
        here = slice(a, a + _CHUNK)
        above = np.roll(unit[here], 1)
        above[0] = unit[a - 1]
        above[at_top[here]] = -1
        wrong = np.flatnonzero(parent[unit[here]] != above)
        if len(wrong):
            at = a + int(wrong[0])
            raise _two_parents(at, flat, start, int(first[unit[at]]))
    del first, appears, position, at_top
    count = np.bincount(unit, minlength=size).astype(small)
    above = parent[order]
    head = (above < 0) | (count[order] != count[above])
    edge_of = np.empty(size, small)
    edge_of[order] = np.cumsum(head, dtype=small) - 1
    above = above[head]
    edge_parent = np.where(above >= 0, edge_of[above], -1)
    length = np.diff(np.flatnonzero(np.append(head, True)))
    query = np.full(len(start) - 1, -1, np.int32)
    some = start[1:] > start[:-1]
    query[some] = edge_of[unit[start[1:][some] - 1]]
    del edge_of, count, parent, unit
    labels = order.astype(np.int64) if values is None else values[order]
    labels.setflags(write=False)
    return PrefixTree(edge_parent, length, labels), query


def _dense(flat: np.ndarray, small: type) -> tuple[np.ndarray | None, np.ndarray, int]:
    """The distinct ids, the number of each id among them, and how many numbers there are."""
    low, high = int(flat.min()), int(flat.max())
    if low >= 0 and high < 4 * len(flat) + 1024:
        return None, flat, high + 1
    order = np.argsort(flat)
    ordered = flat[order]
    head = np.append(True, ordered[1:] != ordered[:-1])
    values = ordered[head]
    del ordered
    unit = np.empty(len(flat), small)
    unit[order] = np.cumsum(head, dtype=small) - 1
    return values, unit, len(values)


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
    Any encoding of fixed width brings equal prefixes together, so the bytes are taken as they lie.

    Examples
    --------
    >>> tree, query = tree_from_local_ids(*flatten([[1, 2, 2], [1, 3], [2]]))
    >>> tree.parent.tolist(), tree.length.tolist(), query.tolist()
    ([-1, 0, 0, -1], [1, 2, 1, 1], [1, 2, 3])
    """
    _check_start(flat, start)
    n = len(start) - 1
    size = np.diff(start)
    if len(flat) == 0:
        return _NO_UNITS, np.full(n, -1, np.int32)
    order = np.array(_sorted(flat, start), np.int64)
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


def _sorted(flat: np.ndarray, start: np.ndarray) -> list[int]:
    """The sequences in an order that keeps those with a common prefix together."""
    low, high = int(flat.min()), int(flat.max())
    fits = (d for d in (np.uint16, np.uint32) if low >= 0 and high <= np.iinfo(d).max)
    dtype = np.dtype(next(fits, np.int64))
    if len(flat) >= _LONG * len(start):
        keys = [flat[a:b].astype(dtype).tobytes() for a, b in pairwise(start.tolist())]
    else:
        data = memoryview(flat.astype(dtype)).cast("B")
        cuts = (start * dtype.itemsize).tolist()
        keys = [data[a:b].tobytes() for a, b in pairwise(cuts)]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _common_prefixes(flat: np.ndarray, begin: np.ndarray, size: np.ndarray) -> np.ndarray:
    """int64[n − 1]; units that each sequence shares with the next one."""
    limit = np.minimum(size[:-1], size[1:])
    common = np.zeros(len(limit), np.int64)
    long = np.flatnonzero(limit >= _LONG)
    for i, a, b, m in zip(
        *(x.tolist() for x in (long, begin[long], begin[long + 1], limit[long])), strict=True
    ):
        differ = flat[a : a + m] != flat[b : b + m]
        k = int(differ.argmax())
        common[i] = k if differ[k] else m
    short = np.flatnonzero((limit > 0) & (limit < _LONG))
    edges = np.concatenate([[0], np.cumsum(limit[short])])
    first = 0
    while first < len(short):
        last = int(np.searchsorted(edges, edges[first] + _CHUNK, side="right")) - 1
        at, starts = short[first:last], edges[first:last] - edges[first]
        counts = limit[at]
        offset = np.arange(edges[last] - edges[first]) - np.repeat(starts, counts)
        a = flat[np.repeat(begin[at], counts) + offset]
        b = flat[np.repeat(begin[at + 1], counts) + offset]
        agree = np.where(a == b, np.repeat(counts, counts), offset)
        common[at] = np.minimum.reduceat(agree, starts)
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
    cuts = zip(source.tolist(), (source + length).tolist(), strict=True)
    labels = np.concatenate([flat[a:b] for a, b in cuts])
    labels.setflags(write=False)
    return PrefixTree(rank[parent[order]], length, labels), rank[node_of].astype(np.int32)
