"""The cache that every slow twin shares: an ancestor-closed set of units, kept literally.

Nothing here knows a prefix tree in advance: a unit is the tuple of tokens from the root down to
it, so its parent is that tuple without the last token and its depth is the tuple's length.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kvtheory.errors import bad, unknown

Unit = tuple[int, ...]
Oversize = Literal["error", "truncate", "skip"]

OVERSIZE = ("error", "truncate", "skip")


def path_of(tokens: Sequence[int]) -> list[Unit]:
    """The units of a query, from the root down.

    Examples
    --------
    >>> path_of([7, 8])
    [(7,), (7, 8)]
    """
    query = tuple(tokens)
    return [query[:depth] for depth in range(1, len(query) + 1)]


def distinct_units(sequences: Iterable[Sequence[int]]) -> set[Unit]:
    """The units of the prefix tree of a request sequence."""
    return {unit for tokens in sequences for unit in path_of(tokens)}


@dataclass
class Record:
    """What a cache knows of one cached unit; lost when the unit is evicted.

    Parameters
    ----------
    unit
        The tokens from the root down to the unit.
    loaded
        Index of the query that loaded it.
    last_use
        Index of the last served query that contains it.
    count
        Queries that contained it since it was loaded, the loading one included.
    children
        Number of its children that are cached.
    """

    unit: Unit
    loaded: int
    last_use: int
    count: int = 1
    children: int = 0

    @property
    def depth(self) -> int:
        """Units from the root down to this one, itself included."""
        return len(self.unit)


class Twin:
    """One worker's cache, served query by query; the base of all slow twins.

    Parameters
    ----------
    capacity
        Units that the cache holds, at least 1.
    oversize
        What a query longer than ``capacity`` does: ``"error"`` raises; ``"truncate"`` serves and
        caches its first ``capacity`` units; ``"skip"`` counts its hits and changes nothing.

    Raises
    ------
    InputError
        If an argument breaks its rule, or when a query does not fit and ``oversize="error"``.
    """

    def __init__(self, capacity: int, *, oversize: Oversize = "error") -> None:
        if capacity < 1:
            raise bad("capacity", capacity, "must be at least 1 unit")
        if oversize not in OVERSIZE:
            raise unknown("oversize", oversize, OVERSIZE)
        self.capacity = capacity
        self.oversize = oversize
        self.now = -1

    def serve(self, tokens: Sequence[int]) -> int:
        """Serve one query and return its hits in units; the misses are the rest of it."""
        self.now += 1
        if len(tokens) > self.capacity:
            if self.oversize == "error":
                raise bad(
                    f"sequences[{self.now}]",
                    f"{len(tokens)} units",
                    f"longer than the capacity, {self.capacity} units; "
                    "pass oversize='truncate' or oversize='skip'",
                )
            if self.oversize == "skip":
                return self.hits(tokens)
            tokens = tokens[: self.capacity]
        return self.serve_fitting(tokens)

    def run(self, sequences: Iterable[Sequence[int]]) -> list[int]:
        """Serve all queries in order and return the hits of each."""
        return [self.serve(tokens) for tokens in sequences]

    def hits(self, tokens: Sequence[int]) -> int:
        """Units of the query that are cached, a prefix of its path. Changes nothing."""
        cached = self.cached
        return sum(unit in cached for unit in path_of(tokens))

    @property
    def cached(self) -> frozenset[Unit]:
        """The units in the cache."""
        raise NotImplementedError

    def serve_fitting(self, tokens: Sequence[int]) -> int:
        """Serve a query of at most ``capacity`` units and return its hits."""
        raise NotImplementedError


class UnitTwin(Twin):
    """A twin that keeps a record per unit and evicts units one at a time.

    The order of events when a query is served: its hits are the cached prefix of its path; all of
    them are touched, as one event; the policy sees the path; then units go, only leaf units of
    the cached tree and never a unit of the query, until cache and path fit; then the missing
    units are loaded. A policy overrides `victim`, and `see` or `admit` if it must.
    """

    def __init__(self, capacity: int, *, oversize: Oversize = "error") -> None:
        super().__init__(capacity, oversize=oversize)
        self.records: dict[Unit, Record] = {}

    @property
    def cached(self) -> frozenset[Unit]:
        """The units in the cache."""
        return frozenset(self.records)

    def serve_fitting(self, tokens: Sequence[int]) -> int:
        """Serve a query of at most ``capacity`` units and return its hits."""
        path = path_of(tokens)
        hits = [unit for unit in path if unit in self.records]
        for unit in hits:
            self.records[unit].last_use = self.now
            self.records[unit].count += 1
        self.see(path)
        self.admit(path)
        return len(hits)

    def see(self, path: list[Unit]) -> None:
        """Update what the policy remembers of queries, before anything is evicted."""

    def admit(self, path: list[Unit]) -> None:
        """Evict until the cache and ``path`` fit, then load what is missing."""
        missing = [unit for unit in path if unit not in self.records]
        while len(self.records) + len(missing) > self.capacity:
            self.evict(self.victim(self.leaves(path)))
        for unit in missing:
            self.load(unit)

    def victim(self, leaves: list[Record]) -> Record:
        """The next unit to evict, among leaf units that may go (never none)."""
        raise NotImplementedError

    def leaves(self, path: Iterable[Unit] = ()) -> list[Record]:
        """Leaf units of the cached tree that are not in ``path``."""
        held = set(path)
        return [r for r in self.records.values() if r.children == 0 and r.unit not in held]

    def load(self, unit: Unit) -> None:
        """Put a unit into the cache; its parent is there."""
        parent = unit[:-1]
        if parent:
            self.records[parent].children += 1
        self.records[unit] = Record(unit, loaded=self.now, last_use=self.now)

    def evict(self, record: Record) -> None:
        """Take a leaf unit out of the cache, with its record."""
        if record.children:
            raise RuntimeError(f"unit {record.unit} has cached children and cannot be evicted")
        del self.records[record.unit]
        parent = record.unit[:-1]
        if parent:
            self.records[parent].children -= 1
