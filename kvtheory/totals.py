"""What the hits of every query add up to, lane by lane: all that rates and ratios need."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance

BLOCK = 1 << 20  # hits added up at a time, so that the 64-bit terms never fill the memory


@dataclass(frozen=True, eq=False)
class Totals:
    """Hits of the first so many queries, on every lane.

    Parameters
    ----------
    first
        Numbers of queries, ascending; the last is that of all.
    units, tokens, requests
        int64[seeds, len(first)]; hit units, hit tokens (Σ min(block·h, input length)), and the
        non-empty queries that are hit in full, of the first ``first[i]`` queries.
    """

    first: tuple[int, ...]
    units: np.ndarray
    tokens: np.ndarray
    requests: np.ndarray

    def __post_init__(self) -> None:
        for array in (self.units, self.tokens, self.requests):
            array.setflags(write=False)

    def __getitem__(self, lanes: slice) -> "Totals":
        """The totals of some of the lanes."""
        return Totals(self.first, self.units[lanes], self.tokens[lanes], self.requests[lanes])

    def units_of_first(self, requests: int) -> np.ndarray:
        """int64[seeds]; hit units of the first ``requests`` queries.

        Raises
        ------
        InputError
            If no total was kept at this number.
        """
        return self.units[:, self._index(requests)]

    def after(self, requests: int) -> "Totals":
        """The totals of the queries after the first ``requests``."""
        i = self._index(requests)
        arrays = (self.units, self.tokens, self.requests)
        rest = [a[:, i + 1 :] - a[:, i : i + 1] for a in arrays]
        return Totals(tuple(k - requests for k in self.first[i + 1 :]), *rest)

    def _index(self, requests: int) -> int:
        if requests not in self.first:
            raise InputError(
                f"the totals of the first {requests} queries were not kept: run with "
                f"cuts=[{requests}], or with keep='hits'"
            )
        return self.first.index(requests)


def check_cuts(cuts: Sequence[int], requests: int) -> tuple[int, ...]:
    """Where to keep totals, ascending, with all ``requests`` last."""
    for cut in cuts:
        if not 0 <= cut <= requests:
            raise bad("cuts", list(cuts), f"must be numbers of queries, 0 to {requests}")
    return (*sorted({*cuts} - {requests}), requests)


def add_up(instance: Instance, hits: np.ndarray, cuts: Sequence[int] = ()) -> Totals:
    """The totals of int[seeds, n] hit units of every query.

    Parameters
    ----------
    cuts
        Numbers of queries after which totals are kept too.

    Notes
    -----
    Cost: O(hits) time; memory O(seeds · cuts), and that of `BLOCK` or n hits in between.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [1, 2], [1]], block_size=4)
    >>> totals = add_up(instance, np.array([[0, 2, 1]]), cuts=[2])
    >>> totals.first, totals.units, totals.tokens, totals.requests
    ((2, 3), array([[2, 3]]), array([[ 8, 12]]), array([[1, 2]]))
    """
    seeds, n = hits.shape
    first = check_cuts(cuts, n)
    length, tokens = instance.query_length, instance.tokens
    out = np.zeros((3, seeds, len(first)), np.int64)
    rows = max(1, BLOCK // max(1, n))
    for a in range(0, seeds, rows):
        some = hits[a : a + rows].astype(np.int64)
        in_tokens = np.minimum(some * instance.block_size, tokens)
        full = (some == length) & (length > 0)
        for i, stop in enumerate(first):
            part = slice(first[i - 1] if i else 0, stop)
            for total, terms in zip(out, (some, in_tokens, full), strict=True):
                total[a : a + rows, i] = terms[:, part].sum(axis=1)
    return Totals(first, *out.cumsum(axis=2))


def join(parts: Sequence[Totals]) -> Totals:
    """The totals of the lanes of several runs on the same queries, one after the other."""
    if len({part.first for part in parts}) != 1:
        raise bad("parts", [part.first for part in parts], "need the same cuts")
    return Totals(
        parts[0].first,
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("units", "tokens", "requests")
        ),
    )
