"""RLT with token phases: the pair (O, T) says all that an outsider can know.

O is the cache when the phase began, T the marked units, c = |T \\ O| the clean ones. The missing
old units are the first c of O \\ T to go when leaf units are removed uniformly, whatever was marked
in between: their law depends on (O, T) alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

from kvtheory.errors import bad
from kvtheory.ratio.exact_engine.forest import Forest
from kvtheory.ratio.exact_engine.no_finite_belief import UniformUnmarked

Phase = tuple[int, int]  # the old set O and the marked set T


@dataclass(frozen=True)
class RLT:
    """Randomised leaf-token eviction with token phases.

    Parameters
    ----------
    phase
        ``"token"``; ``"query"`` and ``"published"`` have no finite belief and get lower bounds.
    """

    phase: str = "token"
    name: ClassVar[str] = "rlt"

    def __post_init__(self) -> None:
        if self.phase not in ("token", "query", "published"):
            raise bad("phase", self.phase, "must be 'token', 'query' or 'published'")

    def on(self, forest: Forest, capacity: int) -> "TokenPhases | UniformUnmarked":
        """On a forest."""
        if self.phase != "token":
            return UniformUnmarked(forest, capacity, self.phase)
        return TokenPhases(forest, capacity)


class TokenPhases:
    """The beliefs of RLT with token phases."""

    colours_tell_all: ClassVar[bool] = True

    def __init__(self, forest: Forest, capacity: int) -> None:
        self.forest, self.capacity = forest, capacity
        self._gone = cache(self._gone_uncached)
        self._paths = [forest.path(u) for u in range(forest.units)]

    def belief_init(self) -> Phase:
        """Nothing is old and nothing is marked."""
        return 0, 0

    def belief_step(self, belief: Phase, query: int) -> tuple[Fraction, Phase]:
        """Visit the units of the query from the root down."""
        old, marked = belief
        cost, above = Fraction(0), 0
        for v in self._paths[query]:
            bit = 1 << v
            if not marked & bit:
                if marked.bit_count() == self.capacity:  # the cache is T: a phase begins
                    old, marked = marked, above
                clean = (marked & ~old).bit_count()
                cost += self._gone(old & ~marked, clean, v) if old & bit else 1
                marked |= bit
            above |= bit
        return cost, (old, marked)

    def _gone_uncached(self, stale: int, clean: int, v: int) -> Fraction:
        """Probability that ``v`` is among the first ``clean`` leaf units to go."""
        if not clean:
            return Fraction(0)
        leaves = self.forest.leaves_of(stale)
        ways = [1 if u == v else self._gone(stale & ~(1 << u), clean - 1, v) for u in leaves]
        return Fraction(sum(ways), len(leaves))

    def relabel(self, belief: Phase, permutation: Sequence[int]) -> Phase:
        """The belief with the units renamed."""
        old, marked = 0, 0
        for u, image in enumerate(permutation):
            old |= (belief[0] >> u & 1) << image
            marked |= (belief[1] >> u & 1) << image
        return old, marked

    def colours(self, belief: Phase) -> Sequence[Any]:
        """Old and marked or not."""
        old, marked = belief
        return [(old >> u & 1) + 2 * (marked >> u & 1) for u in range(self.forest.units)]

    def belief_bound(self) -> int:
        """At most as many beliefs as pairs of closed sets, the old one full or empty."""
        sets = self.forest.closed_sets(self.capacity)
        return len(sets) * (1 + sum(s.bit_count() == self.capacity for s in sets))
