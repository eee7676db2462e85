"""What the exact engine returns: the ratio, the requests that reach it, and the proof."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, repeat
from typing import Literal

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.ratio.exact_engine.adaptive_bound import AdaptiveBound

Status = Literal["exact", "unbounded", "lower bound", "states", "time"]


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """The folded graph with a potential Φ: cost + Φ(next) − Φ(state) <= ratio·ΔOPT on every edge.

    Summed over a request sequence this is ALG <= ratio·OPT + Φ(start). Costs and increases of OPT
    are not in it: `kvtheory.testing.check_exact.check_exact_certificate` works them out again.

    Attributes
    ----------
    next
        int32[states, queries]; the state after each query. State 0 is the start.
    turn
        int32[states, queries]; which permutation moves what comes after to the state in ``next``.
    permutations
        int64[order, units]; automorphisms of the forest, as images of the units.
    potential
        int64[states]; Φ·scale.
    scale
        A whole number.
    ratio
        What is proved.
    """

    next: np.ndarray
    turn: np.ndarray
    permutations: np.ndarray
    potential: np.ndarray
    scale: int
    ratio: Fraction


@dataclass(frozen=True, repr=False)
class Exact:
    """The competitive ratio of one algorithm on one forest.

    Attributes
    ----------
    policy, parents, capacity
        The algorithm, the forest and B.
    queries
        The units at which queries may end.
    ratio
        The ratio as a float: exact with status ``"exact"``, otherwise the largest one found.
        Infinite if unbounded.
    fraction
        The same exactly; None if it is infinite.
    upper
        What is proved from above: ``fraction``; a hair more where costs had to be rounded (see
        `Potential`); without a finite belief the ratio of ``adaptive``; None where the search was
        stopped.
    prefix, cycle
        Units to ask for from an empty cache: the cycle, repeated after the prefix, reaches the
        ratio. Empty if no sequence makes the algorithm miss for ever.
    cycle_cost, cycle_optimum
        Expected misses and increase of OPT in one cycle; in the long run, for a lower bound.
    states, edges
        Size of the graph, states that differ by an automorphism counted once.
    beliefs, work_functions
        Beliefs up to symmetry, and work functions in the orientations that were met.
    automorphisms
        Order of the group that was folded away.
    states_bound
        No more states than this without symmetry; None if no bound is known beforehand.
    status
        ``"exact"``; ``"unbounded"``: a cycle on which OPT does not grow; ``"states"`` or
        ``"time"``: stopped at that limit; ``"lower bound"``: the algorithm has no finite belief.
    seconds
        Wall time.
    certificate
        The proof; None where the search was stopped or the ratio is unbounded.
    adaptive
        Of a policy without a finite belief: the proof of ``upper``, which holds against adversaries
        who see the coins too.
    """

    policy: str
    parents: tuple[int, ...]
    capacity: int
    queries: tuple[int, ...]
    ratio: float
    fraction: Fraction | None
    upper: Fraction | None
    prefix: tuple[int, ...]
    cycle: tuple[int, ...]
    cycle_cost: Fraction
    cycle_optimum: int
    states: int
    edges: int
    beliefs: int
    work_functions: int
    automorphisms: int
    states_bound: int | None
    status: Status
    seconds: float
    certificate: Certificate | None = field(default=None, compare=False)
    adaptive: AdaptiveBound | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        shown = "unbounded" if self.status == "unbounded" else str(self.fraction)
        sign = "" if self.status in ("exact", "unbounded") else ">= "
        return (
            f"Exact({self.policy}, B={self.capacity}, parents={list(self.parents)}: "
            f"{sign}{shown}, {self.states} states)"
        )

    def requests(self, cycles: int = 1) -> Iterator[int]:
        """The prefix and then the cycle ``cycles`` times: units at which the queries end."""
        return chain(self.prefix, *repeat(self.cycle, cycles))


def to_instance(result: Exact, cycles: int = 100) -> Instance:
    """The worst case as a request sequence for the driver.

    Parameters
    ----------
    result
        From `exact`.
    cycles
        How often the cycle is repeated after the prefix, at least once.

    Raises
    ------
    InputError
        If there is no cycle, or for less than one repetition.

    Examples
    --------
    >>> from kvtheory.ratio import exact
    >>> worst = exact("llru", "star:leaves=3", 2)
    >>> worst.prefix, worst.cycle
    ((0, 1), (2, 0, 1, 2, 0, 1))
    >>> to_instance(worst, cycles=1).sequences()
    [[0], [1], [2], [0], [1], [2], [0], [1]]
    """
    if cycles < 1:
        raise bad("cycles", cycles, "must be at least 1")
    if not result.cycle:
        raise bad("result", result, "has no cycle: nothing makes the algorithm miss for ever")
    parents = result.parents
    paths: list[list[int]] = []
    for u, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent >= 0 else []), u])
    return Instance.from_blocks(
        [paths[u] for u in result.requests(cycles)],
        ids="global",
        name="worst_cycle",
        parameters={
            "policy": result.policy,
            "parents": list(parents),
            "capacity": result.capacity,
            "cycles": cycles,
        },
    )
