"""The offline optimum of one cache by search over every cache, for tiny instances."""

from collections.abc import Sequence

from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_cache import OVERSIZE, Oversize, Unit, path_of
from kvtheory.testing.twins_deterministic import ADMISSIONS, Admission

Cache = frozenset[Unit]


def optimum_by_search(
    sequences: Sequence[Sequence[int]],
    capacity: int,
    admission: Admission = "forced",
    oversize: Oversize = "error",
) -> int:
    """The fewest misses in units with which one cache, empty at the start, serves all queries.

    Dynamic programming over the ancestor-closed sets of at most ``capacity`` units. After a query
    the cache may be any such subset of cache and path: with ``"forced"`` admission one that
    contains the path, with ``"bypass"`` any. Not even the leaf rule is assumed of the evictions.

    Parameters
    ----------
    sequences
        The queries as token lists.
    capacity
        Units that the cache holds.
    admission, oversize
        As for the twins. Of a truncated query only the first ``capacity`` units can be cached.

    Raises
    ------
    InputError
        If a query does not fit and ``oversize="error"``.

    Examples
    --------
    >>> cyclic = [[1], [2], [3], [4]] * 4
    >>> optimum_by_search(cyclic, 3), optimum_by_search(cyclic, 3, "bypass")
    (8, 7)
    """
    if admission not in ADMISSIONS:
        raise unknown("admission", admission, ADMISSIONS)
    if oversize not in OVERSIZE:
        raise unknown("oversize", oversize, OVERSIZE)
    fewest: dict[Cache, int] = {frozenset(): 0}
    for t, tokens in enumerate(sequences):
        if len(tokens) > capacity and oversize == "error":
            raise bad(
                f"sequences[{t}]", f"{len(tokens)} units", f"longer than the capacity, {capacity}"
            )
        path = path_of(tokens)
        after: dict[Cache, int] = {}
        for cache, misses in fewest.items():
            cost = misses + sum(unit not in cache for unit in path)
            if len(tokens) > capacity and oversize == "skip":
                outcomes = {cache}
            else:
                served = frozenset(path[:capacity])
                kept = served if admission == "forced" else frozenset()
                outcomes = closed_subsets(cache | served, kept, capacity)
            for outcome in outcomes:
                after[outcome] = min(cost, after.get(outcome, cost))
        fewest = after
    return min(fewest.values())


def closed_subsets(units: Cache, kept: Cache, capacity: int) -> set[Cache]:
    """Ancestor-closed subsets of ``units`` that contain ``kept``, of at most ``capacity`` units.

    ``units`` and ``kept`` are ancestor-closed, so all of them are reached from ``units`` by taking
    leaf units away.
    """
    seen = {units}
    stack = [units]
    while stack:
        subset = stack.pop()
        parents = {unit[:-1] for unit in subset}
        for leaf in subset - parents - kept:
            smaller = subset - {leaf}
            if smaller not in seen:
                seen.add(smaller)
                stack.append(smaller)
    return {subset for subset in seen if len(subset) <= capacity}
