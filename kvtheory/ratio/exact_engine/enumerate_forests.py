"""All rooted forests of a number of units, each once up to isomorphism."""

from collections.abc import Iterator
from typing import Any

from kvtheory.ratio.exact_engine.forest import Forest


def forests(units: int) -> list[Forest]:
    """The rooted forests of exactly ``units`` units, up to isomorphism.

    Examples
    --------
    >>> [len(forests(n)) for n in range(1, 8)]
    [1, 2, 4, 9, 20, 48, 115]
    >>> [f.parents for f in forests(3)]
    [(-1, -1, -1), (-1, 0, -1), (-1, 0, 0), (-1, 0, 1)]
    """
    shapes: set[Shape] = {()}
    for _ in range(units):
        shapes = {larger for shape in shapes for larger in _with_one_more(shape)}
    return sorted((Forest(tuple(_parents(shape, -1, 0))) for shape in shapes), key=_order)


def pairs(units: int) -> Iterator[tuple[Forest, int]]:
    """Every forest of at most ``units`` units, at every capacity from its depth to its units − 1.

    Examples
    --------
    >>> len(list(pairs(6))), len(list(pairs(7))) - len(list(pairs(6)))
    (191, 380)
    """
    for n in range(1, units + 1):
        for forest in forests(n):
            for capacity in range(forest.depth, n):
                yield forest, capacity


Shape = tuple[Any, ...]  # the shapes of the subtrees below a node, sorted


def _with_one_more(shape: Shape) -> Iterator[Shape]:
    yield tuple(sorted((*shape, ()), reverse=True))
    for i, below in enumerate(shape):
        for larger in _with_one_more(below):
            yield tuple(sorted((*shape[:i], larger, *shape[i + 1 :]), reverse=True))


def _parents(shape: Shape, above: int, first: int) -> Iterator[int]:
    unit = first
    for below in shape:
        yield above
        inner = list(_parents(below, unit, unit + 1))
        yield from inner
        unit += 1 + len(inner)


def _order(forest: Forest) -> tuple[int, tuple[int, ...]]:
    return forest.depth, forest.parents
