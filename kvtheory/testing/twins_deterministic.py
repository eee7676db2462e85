"""Slow twins of the deterministic policies, one rule each, as the text has them.

References
----------
Zhang, Li, Moallemi and Peng, "Tail-Optimized Caching for LLM Inference", arXiv:2510.15152.
Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal

from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_cache import Oversize, Record, Unit, UnitTwin, path_of

Admission = Literal["forced", "bypass"]

ADMISSIONS = ("forced", "bypass")

Key = int | float | Fraction | tuple[int, ...]


class KeyTwin(UnitTwin):
    """A policy that is a key per unit: the smallest among the leaf units that may go, goes.

    Ties go to the older last use, then to the deeper unit.
    """

    def victim(self, leaves: list[Record]) -> Record:
        """The leaf with the smallest key."""
        return min(leaves, key=lambda r: (self.key(r), r.last_use, -r.depth))

    def key(self, record: Record) -> Key:
        """What the policy orders leaf units by."""
        raise NotImplementedError


class LLRU(KeyTwin):
    """Leaf LRU: the leaf unit whose last use is the oldest."""

    def key(self, record: Record) -> Key:
        """Index of the last query that used the unit."""
        return record.last_use


class MRU(KeyTwin):
    """The leaf unit whose last use is the newest."""

    def key(self, record: Record) -> Key:
        """Index of the last query that used the unit, negated."""
        return -record.last_use


class FIFO(KeyTwin):
    """The leaf unit that was loaded first."""

    def key(self, record: Record) -> Key:
        """Index of the query that loaded the unit."""
        return record.loaded


class LFU(KeyTwin):
    """The leaf unit with the smallest count since it was loaded."""

    def key(self, record: Record) -> Key:
        """Queries that contained the unit since it was loaded."""
        return record.count


class SLRU(KeyTwin):
    """Units with a count of at least 2 go after all others; LRU within either class."""

    def key(self, record: Record) -> Key:
        """The class, then the last use."""
        return (int(record.count >= 2), record.last_use)


class CostPerUnit(KeyTwin):
    """The leaf unit with the smallest count per unit of its branch.

    The branch is counted from the leaf unit up to, and without, the first unit that has another
    cached child; it ends at the root if there is none. It is that of the tree cached at the
    moment of the eviction: the query's hits are in it, its missing units are not yet. A branch that
    has been chosen goes as a whole, or as far as room is needed for the query.

    Parameters
    ----------
    capacity, oversize
        As for every twin.
    """

    def __init__(self, capacity: int, *, oversize: Oversize = "error") -> None:
        super().__init__(capacity, oversize=oversize)
        self.above_last: Unit = ()

    def see(self, path: list[Unit]) -> None:
        """Forget the branch that the previous query was evicting."""
        self.above_last = ()

    def victim(self, leaves: list[Record]) -> Record:
        """The rest of the branch that is going, or the leaf with the smallest key."""
        going = [r for r in leaves if r.unit == self.above_last]
        chosen = going[0] if going else super().victim(leaves)
        self.above_last = chosen.unit[:-1]
        return chosen

    def key(self, record: Record) -> Key:
        """Count over length of branch, exactly."""
        return Fraction(record.count, self.branch(record.unit))

    def branch(self, unit: Unit) -> int:
        """Units from a leaf unit up to the first one with another cached child."""
        length = 1
        parent = unit[:-1]
        while parent and self.records[parent].children == 1:
            length += 1
            parent = parent[:-1]
        return length


class TailLRU(KeyTwin):
    """Our reading of Tail-Optimized LRU: free leaf units first, in LRU order, then LRU.

    A leaf unit is free if the longest query ever seen through it, the current one included, would
    miss at most ``xi`` units without it: with the unit at depth d and that query of length L, if
    L − (d − 1) <= ``xi``. What was seen is remembered across evictions.

    Parameters
    ----------
    capacity, oversize
        As for every twin. Of a truncated query the length is that of the part that is served.
    xi
        Units that a query may miss for free; 0 is `LLRU`.
    """

    def __init__(self, capacity: int, *, xi: float = 0, oversize: Oversize = "error") -> None:
        super().__init__(capacity, oversize=oversize)
        if xi < 0:
            raise bad("xi", xi, "must not be negative")
        self.xi = xi
        self.longest: dict[Unit, int] = {}

    def see(self, path: list[Unit]) -> None:
        """Note the length of the query at each of its units."""
        for unit in path:
            self.longest[unit] = max(self.longest.get(unit, 0), len(path))

    def key(self, record: Record) -> Key:
        """The class, free before the others, then the last use."""
        would_miss = self.longest[record.unit] - (record.depth - 1)
        return (int(would_miss > self.xi), record.last_use)


class Belady(UnitTwin):
    """The offline optimum: the leaf unit whose next use is the farthest goes.

    A unit that is never used again has its next use at infinity; ties go to the older last use,
    then to the deeper unit. Unless queries are skipped they change no count: a unit without a next
    use has no descendant with one, so as long as one is left a leaf unit without a next use is
    there to go.

    Parameters
    ----------
    capacity, oversize
        As for every twin. A query that is skipped does not count as a next use.
    admission
        ``"forced"``: the served path must be cached. ``"bypass"``: after the query any
        ``capacity`` units of cache and path may stay, so the farthest next uses are dropped, path
        units included: the fewest misses of any policy.
    sequences
        All queries, to serve them one by one; `run` announces its own.
    """

    def __init__(
        self,
        capacity: int,
        *,
        admission: Admission = "forced",
        sequences: Iterable[Sequence[int]] = (),
        oversize: Oversize = "error",
    ) -> None:
        super().__init__(capacity, oversize=oversize)
        if admission not in ADMISSIONS:
            raise unknown("admission", admission, ADMISSIONS)
        self.admission = admission
        self.announce(sequences)

    def announce(self, sequences: Iterable[Sequence[int]]) -> None:
        """Tell the twin all queries from the first one on."""
        self.uses: dict[Unit, list[int]] = {}
        for t, tokens in enumerate(sequences):
            if self.oversize == "skip" and len(tokens) > self.capacity:
                continue
            for unit in path_of(tokens[: self.capacity]):
                self.uses.setdefault(unit, []).append(t)

    def run(self, sequences: Iterable[Sequence[int]]) -> list[int]:
        """Serve all queries in order, known from the start, and return the hits of each."""
        sequences = list(sequences)
        self.announce(sequences)
        return super().run(sequences)

    def admit(self, path: list[Unit]) -> None:
        """Load the path, and evict before it (forced) or after it (bypass)."""
        if self.admission == "forced":
            super().admit(path)
            return
        for unit in path:
            if unit not in self.records:
                self.load(unit)
        while len(self.records) > self.capacity:
            self.evict(self.victim(self.leaves()))

    def victim(self, leaves: list[Record]) -> Record:
        """The leaf with the farthest next use."""
        return max(leaves, key=lambda r: (self.next_use(r.unit), -r.last_use, r.depth))

    def next_use(self, unit: Unit) -> float:
        """Index of the next query that contains the unit, infinity if there is none."""
        uses = self.uses.get(unit, [])
        later = bisect_right(uses, self.now)
        return uses[later] if later < len(uses) else math.inf
