"""Brooms: leaves below one shared path."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, whole


def leaf_count(capacity: int, length: int, leaves: int | None) -> int:
    """How many leaves are meant: by default one more than fits, B − L + 2."""
    whole(1, capacity=capacity, length=length)
    if length > capacity:
        raise bad("length", length, f"a query must fit the capacity, {capacity}")
    if leaves is None:
        return capacity - length + 2
    whole(1, leaves=leaves)
    return leaves


def broom(leaf: np.ndarray, length: int, **fields: object) -> Instance:
    """Queries for the leaves ``leaf`` (int[n]) below a path of ``length`` − 1 units.

    Examples
    --------
    >>> broom(np.array([3, 0, 3]), 5).tree.length
    array([4, 1, 1], dtype=int32)
    """
    n = len(leaf)
    runs = np.concatenate([[length - 1], np.ones(int(leaf.max()) + 1, np.int64)])
    flat = np.column_stack([np.zeros(n, np.int64), leaf + 1]).ravel()
    return from_runs(flat, np.arange(0, 2 * n + 1, 2), runs, **fields)
