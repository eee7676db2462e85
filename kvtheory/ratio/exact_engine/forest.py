"""A small forest of units, its ancestor-closed sets as bit masks, and the texts that name one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvtheory.errors import bad
from kvtheory.tree import PrefixTree
from kvtheory.tree_text import parents_of

MOST_UNITS = 15  # masks and the codes of colourings fit 64 bits
Queries = str | Sequence[int]


@dataclass(frozen=True)
class Forest:
    """A rooted forest over the units 0 … n − 1; a set of units is an integer, bit u for unit u.

    Parameters
    ----------
    parents
        The unit above each unit, −1 at a root; ``parents[u] < u``.

    Raises
    ------
    InputError
        If the parents do not describe a forest in this order, or of more than 15 units.

    Examples
    --------
    >>> forest = Forest((-1, 0, 0, 2))
    >>> forest.path(3), forest.path_mask(3), forest.leaves
    ([0, 2, 3], 13, (1, 3))
    >>> [bin(s) for s in forest.closed_sets(2)]
    ['0b0', '0b1', '0b11', '0b101']
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parents) <= MOST_UNITS:
            raise bad("tree", f"{len(self.parents)} units", f"needs 1 to {MOST_UNITS} units here")
        for u, parent in enumerate(self.parents):
            if not -1 <= parent < u:
                raise bad(f"parents[{u}]", parent, "must be −1 or an earlier unit")

    @property
    def units(self) -> int:
        """Number of units, n."""
        return len(self.parents)

    @cached_property
    def children(self) -> tuple[int, ...]:
        """The set of the children of each unit."""
        below = [0] * self.units
        for u, parent in enumerate(self.parents):
            if parent >= 0:
                below[parent] |= 1 << u
        return tuple(below)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The units without children."""
        return tuple(u for u in range(self.units) if not self.children[u])

    @cached_property
    def depth(self) -> int:
        """Units on the longest path."""
        return max(len(self.path(u)) for u in range(self.units))

    def path(self, unit: int) -> list[int]:
        """The units from the root down to ``unit``."""
        path = []
        while unit >= 0:
            path.append(unit)
            unit = self.parents[unit]
        return path[::-1]

    def path_mask(self, unit: int) -> int:
        """`path` as a set."""
        return mask_of(self.path(unit))

    def leaves_of(self, cached: int) -> list[int]:
        """Units of a set that have no child in it, in order."""
        return [u for u in units_of(cached) if not self.children[u] & cached]

    def closed_sets(self, most: int) -> list[int]:
        """The ancestor-closed sets of at most ``most`` units, smaller ones first."""
        sets = [0]
        for u, parent in enumerate(self.parents):
            sets += [
                s | 1 << u for s in sets if s.bit_count() < most and (parent < 0 or s >> parent & 1)
            ]
        return sorted(sets, key=lambda s: (s.bit_count(), s))

    def as_tree(self) -> PrefixTree:
        """The forest as a prefix tree with one unit per edge."""
        return PrefixTree(np.array(self.parents), np.ones(self.units, np.int32))


def mask_of(units: Iterable[int]) -> int:
    """The set of some units."""
    mask = 0
    for u in units:
        mask |= 1 << u
    return mask


def units_of(mask: int) -> list[int]:
    """The units of a set, in order."""
    units = []
    while mask:
        low = mask & -mask
        units.append(low.bit_length() - 1)
        mask ^= low
    return units


def moved(mask: int, permutation: Sequence[int]) -> int:
    """The image of a set under a permutation of the units."""
    image = 0
    while mask:
        low = mask & -mask
        image |= 1 << permutation[low.bit_length() - 1]
        mask ^= low
    return image


def forest(tree: "Forest | PrefixTree | Sequence[int] | str") -> Forest:
    """A forest from whatever names one.

    Parameters
    ----------
    tree
        Parents, one per unit; a `PrefixTree`, whose edges are cut into units; or a text:
        ``star:leaves=4``, ``broom:L=2,leaves=3`` (a path of L − 1 units with leaves below it),
        ``chains:n=3,length=2``, ``parents:-1,0,0,1``.

    Raises
    ------
    InputError
        For a text that names none, with the kinds there are, or a tree of more than 15 units.

    Examples
    --------
    >>> forest("broom:L=3,leaves=2").parents
    (-1, 0, 1, 1)
    >>> forest("chains:n=2,length=2").parents
    (-1, 0, -1, 2)
    """
    if isinstance(tree, Forest):
        return tree
    if isinstance(tree, str):
        return Forest(tuple(parents_of(tree).tolist()))
    if isinstance(tree, PrefixTree):
        if tree.units > MOST_UNITS:
            raise bad("tree", f"{tree.units} units", f"needs 1 to {MOST_UNITS} units here")
        parents = list(range(-1, tree.units - 1))
        for e, above in enumerate(tree.parent.tolist()):
            parents[int(tree.offset[e])] = -1 if above < 0 else int(tree.offset[above + 1]) - 1
        return Forest(tuple(parents))
    return Forest(tuple(np.asarray(tree, np.int64).tolist()))


def chosen_queries(tree: Forest, queries: Queries, capacity: int) -> tuple[int, ...]:
    """The nodes that may be asked for: ``"all"``, ``"leaves"`` or a list of units.

    Raises
    ------
    InputError
        For another text, a unit that does not exist, a query longer than the capacity, or none.
    """
    if isinstance(queries, str):
        if queries not in ("all", "leaves"):
            raise bad("queries", queries, "must be 'all', 'leaves' or a list of units")
        chosen = tuple(range(tree.units)) if queries == "all" else tree.leaves
    else:
        chosen = tuple(sorted(set(np.asarray(queries, np.int64).tolist())))
    if not chosen:
        raise bad("queries", list(chosen), "needs at least one unit")
    for q in chosen:
        if not 0 <= q < tree.units:
            raise bad("queries", q, f"must be units below {tree.units}")
        if len(tree.path(q)) > capacity:
            length = len(tree.path(q))
            raise bad("capacity", capacity, f"the query that ends at unit {q} has {length} units")
    return chosen
