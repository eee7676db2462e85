"""Hashes of the first units of a query, the same in every process."""

import hashlib
from collections.abc import Hashable, Iterator

from kvtheory.instance import Instance


def digest(key: Hashable) -> int:
    """64 bits of a key."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little")


def prefixes(instance: Instance) -> Iterator[tuple[int, ...]]:
    """The ids of each query, from the root down."""
    known: dict[int, tuple[int, ...]] = {}
    for edge in instance.query.tolist():
        if edge not in known:
            known[edge] = tuple(instance.tree.ids_of(edge).tolist())
        yield known[edge]
