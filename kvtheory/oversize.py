"""What to do with queries that are longer than a cache."""

from typing import Literal

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance

Oversize = Literal["error", "truncate", "skip"]
MODES = ("error", "truncate", "skip")


def path_units(instance: Instance) -> np.ndarray:
    """int64[n]; units on the path of each query: |q| less what lies below a cut."""
    return _units(instance, instance.query)


def _units(instance: Instance, edge: np.ndarray) -> np.ndarray:
    return np.append(instance.tree.depth, 0)[edge].astype(np.int64)


def check_oversize(instance: Instance, capacity: int, oversize: Oversize = "error") -> Instance:
    """The instance to serve with a cache of ``capacity`` units.

    Parameters
    ----------
    instance
        The request sequence.
    capacity
        Units of the smallest cache that may serve a query.
    oversize
        ``"error"`` refuses queries longer than that. ``"truncate"`` cuts the tree at that depth:
        the first ``capacity`` units are served and cached, the rest is always missed (it stays in
        ``query_length``). ``"skip"`` changes nothing: whoever serves the instance must count the
        hits of such a query and leave the cache as it is.

    Raises
    ------
    InputError
        With ``"error"``, naming the first query that is too long, its length and the capacity.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2, 3], [4]])
    >>> check_oversize(instance, 2, "truncate").tree.units
    3
    """
    if oversize not in MODES:
        raise bad("oversize", oversize, f"must be one of {', '.join(MODES)}")
    if capacity < 1:
        raise bad("capacity", capacity, "must be at least 1 unit")
    if oversize == "truncate":
        return instance.truncate(capacity)
    if oversize == "error" and instance.tree.edges:
        _check_fits(path_units(instance), "query {}", capacity)
        if instance.end is not None:
            _check_fits(_units(instance, instance.end), "the end node of query {}", capacity)
        if instance.warm is not None:
            _check_fits(_units(instance, instance.warm[:, 1]), "warm path {}", capacity)
    return instance


def _check_fits(depth: np.ndarray, what: str, capacity: int) -> None:
    long = np.flatnonzero(depth > capacity)
    if len(long):
        t = int(long[0])
        raise InputError(
            f"{what.format(t)} has {int(depth[t])} units and the cache only {capacity}"
            + (f" (so have {len(long) - 1} more queries)" if len(long) > 1 else "")
            + ": use a larger capacity, oversize='truncate' (serve its first "
            f"{capacity} units) or oversize='skip' (count its hits, change nothing)"
        )
