"""The layers of one cache on single units, as an immutable value."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from kvtheory.errors import bad


def mask_of(units: Iterable[int]) -> int:
    """The set of these units as a bit mask.

    Examples
    --------
    >>> mask_of([0, 3])
    9
    """
    mask = 0
    for unit in units:
        mask |= 1 << unit
    return mask


@dataclass(frozen=True, slots=True)
class Layers:
    r"""All that the past says of the optimum of one cache, up to a constant.

    Let w_t(S) be the least number of loads with which one cache of B units, forced to hold each
    query when it serves it, can serve the first t queries and end with the ancestor-closed set S;
    OPT_t = min w_t. The layers L_1, …, L_B are disjoint sets of units and L_0 holds all others,
    which are *outside the support*. An ancestor-closed set C is *valid* if
    |C ∩ (L_0 ∪ … ∪ L_i)| <= i for i = 0, …, B. Then

        w_t(S) = OPT_t + min over valid C of |S \ C|
               = OPT_t + max over 0 <= i <= B of (|S ∩ (L_0 ∪ … ∪ L_i)| − i),

    and a query with the path P raises OPT by that maximum for S = P, which is `offset`.

    Sets are bit masks: unit u is bit u. A prefix L_0 ∪ … ∪ L_i holds all units of the world that
    are not in a later layer, so it is a negative number, an infinite mask; intersect it.

    Parameters
    ----------
    capacity
        B, in units.
    layers
        Masks of L_1, L_2, …, the oldest first; those up to B that are missing are empty.

    Notes
    -----
    Guarantee: exact with equal miss costs and queries of at most B units, from an empty cache or a
    given one. Compared with the dynamic program over all caches on every tree of up to 6 units.

    The order of use inside a layer does not matter, so none is kept. Different layers may give
    the same function w − OPT: to recognise a state, use the values of `offset`.

    Cost: O(B) operations on masks a query, O(B) for `offset`.

    References
    ----------
    Koutsoupias and Papadimitriou, "Beyond competitive analysis", SIAM J. Comput. 30 (2000), for
    paging, where every unit is a root. On prefix trees the rule is new here.

    Examples
    --------
    Units 0 and 1, a root and its child, and the root 2, with room for two:

    >>> layers = Layers.init(2)
    >>> for path in [(0, 1), (2,), (0, 1)]:
    ...     increase, layers = layers.serve(path)
    ...     print(increase, layers.layers)
    2 (2, 1)
    1 (3, 4)
    1 (2, 1)
    >>> layers.offset(mask_of([2]))
    1
    """

    capacity: int
    layers: tuple[int, ...] = ()

    @classmethod
    def init(cls, capacity: int, cached: Sequence[int] = ()) -> Self:
        """Before the first query, with an empty cache or one that holds the units ``cached``.

        Raises
        ------
        InputError
            If the capacity is below 1, or more units are cached.
        """
        if capacity < 1:
            raise bad("capacity", capacity, "must be at least 1 unit")
        if len(cached) > capacity:
            raise bad("cached", f"{len(cached)} units", f"the cache holds {capacity}")
        return cls(capacity, tuple(1 << unit for unit in cached))

    def serve(self, path: Sequence[int]) -> tuple[int, Self]:
        """The increase of OPT, and the layers, after the query with these units, the root first.

        Raises
        ------
        InputError
            If the query has more units than the cache.
        """
        if not path:
            return 0, self
        if len(path) > self.capacity:
            raise bad("path", f"{len(path)} units", f"the cache holds {self.capacity}")
        asked = mask_of(path)
        new = len(path) - sum((layer & asked).bit_count() for layer in self.layers)
        pending = max(0, new - (self.capacity - len(self.layers)))
        left: list[int] = []  # the newest first
        merged = 0
        for layer in reversed(self.layers):
            pending += (layer & asked).bit_count()
            merged |= layer & ~asked
            if pending:
                pending -= 1
            else:
                left.append(merged)
                merged = 0
        wrapped = pending
        if wrapped:
            merged = 0
            for layer in left[: wrapped + 1]:
                merged |= layer
            left = [merged, *left[wrapped + 1 :]] if len(left) > wrapped else []
        older = tuple(reversed(left))
        served = tuple(1 << unit for unit in reversed(path))
        return new + wrapped, type(self)(self.capacity, older + served)

    def prefix(self, i: int) -> int:
        """L_0 ∪ … ∪ L_i, as an infinite mask."""
        later = 0
        for layer in self.layers[i:]:
            later |= layer
        return ~later

    @property
    def support(self) -> int:
        """L_1 ∪ … ∪ L_B, as a mask."""
        return ~self.prefix(0)

    def offset(self, closed: int) -> int:
        """w_t(S) − OPT_t for an ancestor-closed set S, in units.

        For the path of a query: by how much serving it raises OPT.
        """
        return max(self._excess(closed))

    def valid(self, closed: int) -> bool:
        """Whether some optimal schedule may end with this ancestor-closed set: offset 0."""
        return self.over_full(closed) is None

    def over_full(self, closed: int) -> int | None:
        """The smallest i with |S ∩ (L_0 ∪ … ∪ L_i)| > i, None if S is valid.

        Where a layered policy takes its victims.
        """
        return next((i for i, excess in enumerate(self._excess(closed)) if excess > 0), None)

    def _excess(self, closed: int) -> list[int]:
        # |S ∩ (L_0 ∪ … ∪ L_i)| − i; prefixes beyond the last layer are all the same
        inside = closed.bit_count() - sum((layer & closed).bit_count() for layer in self.layers)
        excess = [inside]
        for i, layer in enumerate(self.layers, 1):
            inside += (layer & closed).bit_count()
            excess.append(inside - i)
        return excess
