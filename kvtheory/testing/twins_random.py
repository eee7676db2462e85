"""Slow twins of the randomised policies: RLT in its three forms, random leaf, marking.

Every draw goes through ``choose(n)``, which returns an index below n: pass
``random.Random(seed).randrange`` for a run, or let `law` enumerate all of them. The candidates
are sorted by their tokens, so an index names the same unit in every run.

References
----------
Wu, Silwal and Zhang, "Randomization Boosts KV Caching, Learning Balances Query Load", ICLR 2026,
arXiv:2601.18999.
Lykouris and Vassilvitskii, "Competitive Caching with Machine Learned Advice", ICML 2018.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_cache import Oversize, Record, Unit, UnitTwin

Choose = Callable[[int], int]
Phase = Literal["token", "query", "published"]


class RandomTwin(UnitTwin):
    """A twin whose rule draws a leaf unit.

    Parameters
    ----------
    capacity, oversize
        As for every twin.
    choose
        Called with the number of candidates, at least 1; returns the index of the one to take.
    """

    def __init__(self, capacity: int, *, choose: Choose, oversize: Oversize = "error") -> None:
        super().__init__(capacity, oversize=oversize)
        self.choose = choose

    def draw(self, candidates: list[Record]) -> Record:
        """One of the candidates, uniformly."""
        if not candidates:
            raise RuntimeError(f"query {self.now} stalls: no leaf unit may be evicted")
        in_order = sorted(candidates, key=lambda r: r.unit)
        return in_order[self.choose(len(in_order))]


class RandomLeaf(RandomTwin):
    """A leaf unit drawn uniformly from all that may go."""

    def victim(self, leaves: list[Record]) -> Record:
        """A uniform leaf."""
        return self.draw(leaves)


class TokenPhases(RandomTwin):
    """RLT with a phase that can begin at any unit of a query.

    The units of the query are visited from the root down. At a unit v that is not marked while
    ``capacity`` units are, a new phase begins: only the path above v stays marked. Then v is
    marked. If v is not cached and the cache is full, a unit drawn uniformly from the unmarked leaf
    units goes; then v is loaded.
    """

    def __init__(self, capacity: int, *, choose: Choose, oversize: Oversize = "error") -> None:
        super().__init__(capacity, choose=choose, oversize=oversize)
        self.marked: set[Unit] = set()

    def admit(self, path: list[Unit]) -> None:
        """Visit the units of the query from the root down."""
        for i, v in enumerate(path):
            if v not in self.marked and len(self.marked) == self.capacity:
                self.begin_phase(above=path[:i])
            self.marked.add(v)
            if v not in self.records:
                if len(self.records) == self.capacity:
                    self.evict(self.victim_for(v))
                self.load(v)

    def begin_phase(self, above: list[Unit]) -> None:
        """Clear all marks but those of the path above the current unit."""
        self.marked = set(above)

    def victim_for(self, v: Unit) -> Record:
        """The unit that makes room for ``v``."""
        return self.draw(self.unmarked_leaves())

    def unmarked_leaves(self) -> list[Record]:
        """The leaf units without a mark."""
        return [r for r in self.leaves() if r.unit not in self.marked]


class QueryPhases(RandomTwin):
    """RLT with phases that begin only between queries.

    If the marked units and the path of the query are more than ``capacity`` together, all marks go
    before the query is served. The path is marked; victims are uniform unmarked leaf units.
    """

    def __init__(self, capacity: int, *, choose: Choose, oversize: Oversize = "error") -> None:
        super().__init__(capacity, choose=choose, oversize=oversize)
        self.marked: set[Unit] = set()

    def see(self, path: list[Unit]) -> None:
        """Begin a phase if the marks would not fit."""
        if len(self.marked | set(path)) > self.capacity:
            self.marked = set()

    def admit(self, path: list[Unit]) -> None:
        """Evict, load, and mark the path."""
        super().admit(path)
        self.marked |= set(path)

    def victim(self, leaves: list[Record]) -> Record:
        """A uniform leaf among those without a mark."""
        return self.draw([r for r in leaves if r.unit not in self.marked])


class PublishedPhases(QueryPhases):
    """RLT with the phase rule of the published code.

    With e > 0 units to evict for a query, all marks go if e and the marked units are at least
    ``capacity`` together, or if fewer than e units without a mark can go (those off the path of
    the query, inner ones included: they become leaf units in turn).
    """

    def see(self, path: list[Unit]) -> None:
        """Begin a phase by the published test."""
        union = set(self.records) | set(path)
        e = len(union) - self.capacity
        can_go = union - set(path) - self.marked
        if e > 0 and (e + len(self.marked) >= self.capacity or len(can_go) < e):
            self.marked = set()


def rlt(
    capacity: int, *, choose: Choose, phase: Phase = "token", oversize: Oversize = "error"
) -> RandomTwin:
    """RLT, randomised leaf-token eviction, with phases by ``"token"``, ``"query"`` or as published.

    Examples
    --------
    The paper's rule read literally stalls here (roots 1 and 2, 3 below 1); this one does not.

    >>> rlt(2, choose=lambda n: 0).run([[2], [1, 3], [2]])
    [0, 0, 0]
    """
    kinds = {"token": TokenPhases, "query": QueryPhases, "published": PublishedPhases}
    if phase not in kinds:
        raise unknown("phase", phase, kinds)
    return kinds[phase](capacity, choose=choose, oversize=oversize)


class Marking(TokenPhases):
    """Predictive Marker on the token phases of the tree.

    A unit v that is missing while the cache is full starts a chain of count 1 if it is clean (not
    cached when the phase began). Otherwise it was evicted in this phase: its chain is the one whose
    eviction that was, and the count goes up by 1. While the count is at most H_B, with B the
    capacity, the unmarked leaf unit with the farthest predicted next use goes (ties: the older last
    use, then the deeper unit), after that a uniform one. The evicted unit belongs to that chain.

    Parameters
    ----------
    capacity, choose, oversize
        As for every random twin.
    predictions
        ``predictions[t][d]``: when the unit at depth d + 1 of query t is used next after t,
        predicted; infinity for never. See `true_next_uses`.
    """

    def __init__(
        self,
        capacity: int,
        *,
        choose: Choose,
        predictions: Sequence[Sequence[float]],
        oversize: Oversize = "error",
    ) -> None:
        super().__init__(capacity, choose=choose, oversize=oversize)
        self.predictions = predictions
        self.predicted: dict[Unit, float] = {}
        self.harmonic = sum((Fraction(1, i) for i in range(1, capacity + 1)), Fraction(0))
        self.cached_at_start: frozenset[Unit] = frozenset()
        self.chain_of: dict[Unit, Unit] = {}
        self.count: dict[Unit, int] = {}

    def see(self, path: list[Unit]) -> None:
        """Note the predictions that come with the query."""
        if self.now >= len(self.predictions) or len(self.predictions[self.now]) < len(path):
            raise bad("predictions", self.now, f"need {len(path)} values for this query")
        for unit, when in zip(path, self.predictions[self.now], strict=False):
            self.predicted[unit] = when

    def begin_phase(self, above: list[Unit]) -> None:
        """Clear the marks and the chains."""
        super().begin_phase(above)
        self.cached_at_start = self.cached
        self.chain_of = {}
        self.count = {}

    def victim_for(self, v: Unit) -> Record:
        """The unit that makes room for ``v``; it joins the chain of ``v``."""
        # A chain carries the name of the clean unit that started it.
        if v in self.cached_at_start:
            chain = self.chain_of[v]
            self.count[chain] += 1
        else:
            chain = v
            self.count[chain] = 1
        if self.count[chain] <= self.harmonic:
            victim = self.farthest(self.unmarked_leaves())
        else:
            victim = self.draw(self.unmarked_leaves())
        self.chain_of[victim.unit] = chain
        return victim

    def farthest(self, leaves: list[Record]) -> Record:
        """The leaf with the farthest predicted next use."""
        return max(leaves, key=lambda r: (self.predicted[r.unit], -r.last_use, r.depth))
