"""Exact ratios that several claims need, each computed and its proof checked once."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from kvtheory.ratio.exact_engine import Beliefs, Exact, exact
from kvtheory.testing.check_exact import CertificateError, check_exact_certificate
from proofs_check.claim import Refuted

Parents = tuple[int, ...]


def ratio(
    policy: str | Beliefs,
    parents: Parents,
    capacity: int,
    queries: str = "all",
    *,
    literally: bool = True,
) -> Exact:
    """The exact ratio of a policy, its proof checked by literal means where it has a name.

    Without ``literally`` the ratio is the engine's: its worst case and its potential, unchecked.

    Raises
    ------
    Refuted
        If the proof does not hold.
    """
    result = _exact(policy, parents, capacity, queries)
    if literally and isinstance(policy, str):
        _check(policy, parents, capacity, queries)
    return result


@cache
def _exact(policy: str | Beliefs, parents: Parents, capacity: int, queries: str) -> Exact:
    symmetry = isinstance(policy, str)  # a mutant need not treat units alike
    return exact(policy, parents, capacity, queries=queries, symmetry=symmetry)


@cache
def _check(policy: str, parents: Parents, capacity: int, queries: str) -> None:
    try:
        check_exact_certificate(_exact(policy, parents, capacity, queries))
    except CertificateError as wrong:
        where = f"parents {list(parents)}, B = {capacity}"
        raise Refuted(f"{policy}, {where}: the proof fails: {wrong}") from None


def fraction(
    policy: str | Beliefs, parents: Parents, capacity: int, *, literally: bool = True
) -> Fraction | None:
    """The ratio, None if it is infinite."""
    return ratio(policy, parents, capacity, literally=literally).fraction


def unit_paths(parents: Sequence[int]) -> list[list[int]]:
    """The tokens of the query that ends at each unit: the units above it, and itself."""
    paths: list[list[int]] = []
    for u, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent >= 0 else []), u])
    return paths
