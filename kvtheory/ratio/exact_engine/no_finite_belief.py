"""Policies whose law never returns: only lower bounds, from request sequences found by rounding.

Against a fixed cycle of requests the state of such a policy is a finite Markov chain, so the cost
of the cycle in the long run is a rational number. The cycle comes from the exact engine on laws
rounded to whole parts; what it costs is then worked out without rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np

from kvtheory.ratio.average_cost import Move, explored, least_average
from kvtheory.ratio.exact_engine.forest import Forest, moved
from kvtheory.ratio.exact_engine.work_function import WorkFunctions

State = tuple[int, int]  # cached and marked units
Outcome = tuple[Fraction, int, State]  # probability, misses, state after
Law = tuple[tuple[State, Fraction], ...]


class UniformUnmarked:
    """A uniform leaf unit goes, off the path and without a mark.

    Parameters
    ----------
    forest, capacity
        The units and B.
    phase
        When marks are cleared: ``"query"`` and ``"published"`` as for RLT; ``"none"``: nothing is
        ever marked, which is random leaf eviction.
    """

    def __init__(self, forest: Forest, capacity: int, phase: str) -> None:
        self.forest, self.capacity, self.phase = forest, capacity, phase
        self.outcomes = cache(self._outcomes)

    start: ClassVar[State] = (0, 0)

    def _outcomes(self, state: State, query: int) -> list[Outcome]:
        """What serving a query may lead to."""
        cached, marked = state
        path = self.forest.path_mask(query)
        union = cached | path
        excess = union.bit_count() - self.capacity
        if self.phase == "query" and (marked | path).bit_count() > self.capacity:
            marked = 0
        if self.phase == "published" and excess > 0:
            free = (union & ~path & ~marked).bit_count()
            if excess + marked.bit_count() >= self.capacity or free < excess:
                marked = 0
        going = {union: Fraction(1)}
        for _ in range(excess):
            then: dict[int, Fraction] = {}
            for now, weight in going.items():
                leaves = [u for u in self.forest.leaves_of(now) if not (path | marked) >> u & 1]
                for u in leaves:
                    left = now & ~(1 << u)
                    then[left] = then.get(left, Fraction(0)) + weight / len(leaves)
            going = then
        marked = 0 if self.phase == "none" else marked | path
        misses = (path & ~cached).bit_count()
        return [(weight, misses, (now, marked)) for now, weight in going.items()]


class LawOfState:
    """The law of the state as it is: a belief of which there may be no end."""

    colours_tell_all: ClassVar[bool] = False

    def __init__(self, policy: UniformUnmarked) -> None:
        self.policy = policy

    def belief_init(self) -> Law:
        """All of the law is at the start."""
        return ((self.policy.start, Fraction(1)),)

    def belief_step(self, belief: Law, query: int) -> tuple[Fraction, Law]:
        """Serve a query."""
        mixed: dict[State, Fraction] = {}
        cost = Fraction(0)
        for state, weight in belief:
            for p, misses, then in self.policy.outcomes(state, query):
                mixed[then] = mixed.get(then, Fraction(0)) + weight * p
                cost += weight * p * misses
        return cost, tuple(sorted(mixed.items()))

    def relabel(self, belief: Law, permutation: Sequence[int]) -> Law:
        """The belief with the units renamed."""
        return tuple(
            sorted(
                ((moved(c, permutation), moved(m, permutation)), weight)
                for (c, m), weight in belief
            )
        )

    def colours(self, belief: Law) -> Sequence[tuple[Fraction, Fraction]]:
        """Probabilities that a unit is cached, and that it is marked."""
        return [
            (
                sum((p for (c, _), p in belief if c >> u & 1), Fraction(0)),
                sum((p for (_, m), p in belief if m >> u & 1), Fraction(0)),
            )
            for u in range(self.policy.forest.units)
        ]


class RoundedLaw(LawOfState):
    """Laws of the state in whole parts: finitely many, and not quite right.

    Parameters
    ----------
    policy
        The policy.
    grain
        Parts of the whole.
    spurious
        Parts by which every cost is lowered: those that rounding keeps alive may cost a little for
        ever, which no law does.
    """

    def __init__(self, policy: UniformUnmarked, grain: int, spurious: int) -> None:
        super().__init__(policy)
        self.grain, self.spurious = grain, spurious

    def belief_step(self, belief: Law, query: int) -> tuple[Fraction, Law]:
        """Serve a query and round; the largest remainders are rounded up."""
        cost, law = super().belief_step(belief, query)
        parts = {state: weight * self.grain for state, weight in law}
        whole = {state: int(weight) for state, weight in parts.items()}
        left = self.grain - sum(whole.values())
        for state in sorted(parts, key=lambda s: (whole[s] - parts[s], s))[:left]:
            whole[state] += 1
        rounded = [(s, Fraction(n, self.grain)) for s, n in whole.items() if n]
        return max(Fraction(0), cost - Fraction(self.spurious, self.grain)), tuple(rounded)


@dataclass(frozen=True)
class RandomLeaf:
    """Random leaf eviction: a uniform leaf unit goes."""

    name: ClassVar[str] = "random_leaf"

    def on(self, forest: Forest, capacity: int) -> UniformUnmarked:
        """On a forest; not a `BeliefModel`."""
        return UniformUnmarked(forest, capacity, "none")


def cost_of_cycle(policy: UniformUnmarked, cycle: Sequence[int]) -> Fraction:
    """Expected misses in one cycle in the long run, or a proved lower bound a hair below."""

    def moves(at: tuple[int, State]) -> list[Move[tuple[int, State]]]:
        place = (at[0] + 1) % len(cycle)
        outcomes = policy.outcomes(at[1], cycle[at[0]])
        return [(p, misses, [(place, then)]) for p, misses, then in outcomes]

    return least_average(explored((0, policy.start), moves)).low * len(cycle)


def optimum_of_cycle(forest: Forest, capacity: int, cycle: Sequence[int]) -> tuple[int, int]:
    """After how many cycles the optimum repeats itself, and by how much it has grown then."""
    queries = sorted(set(cycle))
    work = WorkFunctions(forest, capacity, queries)
    w, total = work.start(), 0
    seen: dict[int, tuple[int, int]] = {}
    for cycles in range(1 << 20):
        if w in seen:
            return cycles - seen[w][0], total - seen[w][1]
        seen[w] = cycles, total
        for q in cycle:
            after, increase = work.after(np.array([w]))
            w = int(after[0, queries.index(q)])
            total += int(increase[0, queries.index(q)])
    raise RuntimeError("work functions are finite in number")
