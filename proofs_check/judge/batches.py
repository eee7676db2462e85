"""Batches of queries served at once, on one cache, by literal rules."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

from proofs_check.judge import forests
from proofs_check.judge.longest import Move, most_gained

Order = tuple[int, ...]


def batches(
    parents: forests.Parents, capacity: int, size: int, *, distinct: bool
) -> tuple[list[int], list[int]]:
    """The unions of the paths of every batch: those that fit the cache, and the others."""
    masks = forests.path_masks(parents)
    choose = combinations if distinct else combinations_with_replacement
    unions = set()
    for some in choose(range(len(parents)), size):
        union = 0
        for q in some:
            union |= masks[q]
        unions.add(union)
    fit = [u for u in sorted(unions) if u.bit_count() <= capacity]
    return fit, [u for u in sorted(unions) if u.bit_count() > capacity]


def exceeds(
    parents: forests.Parents, capacity: int, asked: list[int], ratio: Fraction, *, oldest: bool
) -> list[int] | None:
    """A cycle of batches on which LRU pays more than ratio·ΔOPT; None if there is none.

    Parameters
    ----------
    asked
        The unions of paths that may be asked for at once.
    ratio
        What LRU should pay at most, but for a constant.
    oldest
        Whether the leaf that was used longest ago goes, or the one used last (a mutant).
    """
    work = forests.WorkFunction(parents, capacity)
    depth = [len(path) for path in forests.paths_of(parents)]

    def serve(order: Order, union: int) -> tuple[int, Order]:
        cached = sum(1 << u for u in order)
        missing = (union & ~cached).bit_count()
        left = list(order)
        while cached.bit_count() + (union & ~cached).bit_count() > capacity:
            free = forests.leaves_in(parents, cached) & ~union
            going = [u for u in left if free >> u & 1]
            gone = going[0] if oldest else going[-1]
            left.remove(gone)
            cached &= ~(1 << gone)
        newest = sorted(forests.members(union), key=lambda u: (-depth[u], u))
        return missing, (*(u for u in left if not union >> u & 1), *newest)

    def moves(at: tuple[Order, tuple[int, ...]]) -> Iterator[Move]:
        order, w = at
        for number, union in enumerate(asked):
            missing, then = serve(order, union)
            increase, after = work.after(w, union)
            yield number, missing - ratio * increase, (then, after)

    _, cycle, _ = most_gained(((), work.start), moves, allowed=None)
    return None if cycle is None else [asked[i] for i in cycle]
