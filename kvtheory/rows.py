"""What the caches see of an instance: warm paths, then each query, followed by its output units."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Instance


class Rows(NamedTuple):
    """An instance with one query for each thing that a cache serves, and which is which.

    Attributes
    ----------
    instance
        Its queries are the rows, in the order in which the caches meet them.
    warm
        int32[k]; rows of the warm paths.
    query
        int32[n]; row of each query.
    end
        int32[n] or None; row of the end node of each query.
    """

    instance: Instance
    warm: np.ndarray
    query: np.ndarray
    end: np.ndarray | None


def rows_of(instance: Instance) -> Rows:
    """The rows of an instance; the instance itself if it has neither warm paths nor end nodes.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1], [2]], ends=[[1, 5], []], warm=[(0, [2])])
    >>> rows = rows_of(instance)
    >>> rows.query, rows.end, rows.instance.query_length
    (array([1, 3], dtype=int32), array([2, 4], dtype=int32), array([1, 1, 2, 1, 1]))
    """
    n = instance.requests
    warm = np.zeros(0, np.int32) if instance.warm is None else instance.warm[:, 1]
    k, each = len(warm), 1 if instance.end is None else 2
    query = k + each * np.arange(n, dtype=np.int32)
    if k == 0 and instance.end is None:
        return Rows(instance, warm, query, None)
    seen = np.empty(k + each * n, np.int32)
    seen[:k] = warm
    seen[query] = instance.query
    end = None
    if instance.end is not None:
        end = query + 1
        seen[end] = instance.end
    plain = replace(
        instance,
        query=seen,
        arrival=None,
        input_length=None,
        output_length=None,
        beyond=None,
        end=None,
        warm=None,
    )
    return Rows(plain, np.arange(k, dtype=np.int32), query, end)


def check_queries_alone(instance: Instance, what: str) -> None:
    """Raise `InputError` if an instance has warm caches or end nodes, which ``what`` ignores."""
    if instance.end is not None or instance.warm is not None:
        raise InputError(
            f"instance {instance.name!r} has warm caches or end nodes, which {what} does not take "
            "into account: drop them with dataclasses.replace(instance, end=None, warm=None)"
        )
