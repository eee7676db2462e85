"""Weak duality of the interval program, in rationals, unit by unit."""

from collections.abc import Sequence
from fractions import Fraction


def pairs_of_uses(requests: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """(s, t) for every unit that queries s and t contain, and none between."""
    last: dict[tuple[int, ...], int] = {}
    pairs = []
    for t, tokens in enumerate(requests):
        for depth in range(1, len(tokens) + 1):
            unit = tuple(tokens[:depth])
            if unit in last:
                pairs.append((last[unit], t))
            last[unit] = t
    return pairs


def proved_hits(
    requests: Sequence[Sequence[int]], capacity: int, price: Sequence[float]
) -> Fraction:
    """A bound on the hits, by prices of a unit of space while each query is served.

    Forced admission: a unit kept from s to t takes space at s < r < t, next to path(q_r). Whatever
    the prices, no cache hits more than all the space costs plus, for each pair of uses, what is
    left of the hit after paying.
    """
    exact = [max(Fraction(0), Fraction(p)) for p in price]
    bound = sum(
        (p * (capacity - len(tokens)) for p, tokens in zip(exact, requests, strict=True)),
        Fraction(0),
    )
    for s, t in pairs_of_uses(requests):
        bound += max(Fraction(0), 1 - sum(exact[s + 1 : t], Fraction(0)))
    return bound
