"""The most that one cache can save, by search over everything it may hold."""

from collections.abc import Callable, Sequence
from itertools import combinations

Unit = tuple[int, ...]
Cache = frozenset[Unit]


def path_of(tokens: Sequence[int]) -> Cache:
    """The units of a query."""
    return frozenset(tuple(tokens[:d]) for d in range(1, len(tokens) + 1))


def most_saved(
    requests: Sequence[Sequence[int]],
    capacity: int,
    value: Callable[[int], int],
    *,
    leaf_rule: bool,
) -> int:
    """The largest value of hits, with forced admission, from an empty cache.

    Parameters
    ----------
    requests, capacity
        Queries as token lists, and B.
    value
        Of a hit on a unit, by its depth, 1 at a root.
    leaf_rule
        Whether units go before those above them. Otherwise any may go, and a unit counts as hit
        whatever is above it.
    """
    best: dict[Cache, int] = {frozenset(): 0}
    for tokens in requests:
        path = path_of(tokens)
        after: dict[Cache, int] = {}
        for cache, saved in best.items():
            saved += sum(value(len(unit)) for unit in path & cache)
            for kept in _kept(cache | path, path, capacity, leaf_rule):
                if saved > after.get(kept, -1):
                    after[kept] = saved
        best = after
    return max(best.values())


def _kept(units: Cache, path: Cache, capacity: int, leaf_rule: bool) -> list[Cache]:
    """What may be left: nothing goes without need, which costs nothing."""
    off = sorted(units - path)
    gone = max(0, len(units) - capacity)
    left = [units - frozenset(some) for some in combinations(off, gone)]
    if leaf_rule:
        return [kept for kept in left if all(len(u) == 1 or u[:-1] in kept for u in kept)]
    return left
