"""Claim 2: RLT on brooms."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar

from kvtheory.ratio.bounds import harmonic
from kvtheory.ratio.exact_engine import Beliefs, Forest
from kvtheory.ratio.exact_engine.rlt import TokenPhases
from proofs_check.claim import Claim, Mutant, Refuted, Task
from proofs_check.ratios import ratio


def exactly(k: int, leaves: int) -> Fraction:
    """H_k if one leaf more than fits is asked for, 2·H_k − 1 if more are."""
    h = Fraction(harmonic(k))
    return h if leaves == k + 1 else 2 * h - 1


@dataclass(frozen=True)
class Subject:
    """A policy, and its ratio by k and the number of leaves."""

    policy: str | Beliefs = "rlt"
    formula: Callable[[int, int], Fraction] = exactly


@dataclass(frozen=True)
class FirstLeaf:
    """RLT whose victim is not drawn: the unmarked leaf with the lowest number goes."""

    name: ClassVar[str] = "rlt, first leaf"

    def on(self, forest: Forest, capacity: int) -> "FirstLeafPhases":
        """On a forest."""
        return FirstLeafPhases(forest, capacity)


class FirstLeafPhases(TokenPhases):
    """The beliefs of `FirstLeaf`."""

    def __init__(self, forest: Forest, capacity: int) -> None:
        super().__init__(forest, capacity)
        self._gone = cache(self._first)

    def _first(self, stale: int, clean: int, v: int) -> Fraction:
        for _ in range(clean):
            first = self.forest.leaves_of(stale)[0]
            if first == v:
                return Fraction(1)
            stale &= ~(1 << first)
        return Fraction(0)


def check(subject: Subject, task: Task) -> str:
    """The exact ratio on brooms of every length of handle."""
    brooms = 0
    for k in range(1, task.pick(4, 6)):
        for length in range(1, task.pick(3, 4) + 1):
            for leaves in range(k + 1, k + task.pick(3, 4) + 1):
                parents = (*range(-1, length - 2), *[length - 2] * leaves)
                capacity = k + length - 1
                task.tell(f"L = {length}, B = {capacity}, {leaves} leaves")
                if leaves > 7:
                    continue
                found = ratio(subject.policy, parents, capacity, "leaves").fraction
                want = subject.formula(k, leaves)
                if found != want:
                    raise Refuted(
                        f"broom, L = {length}, B = {capacity}, {leaves} leaves: the ratio is "
                        f"{found}, not {want}"
                    )
                brooms += 1
    return f"{brooms} brooms, each ratio with a proof that was checked by literal rules"


CLAIM = Claim(
    id="2",
    title="RLT on brooms: H and 2H − 1",
    statement=(
        "On a broom (a path of L − 1 units with leaves below it) with k = B − L + 1, RLT has the "
        "ratio H_k with k + 1 leaves, and 2·H_k − 1 with more: Θ(log(B − L))."
    ),
    latex=(
        r"\mathrm{ratio}(\mathrm{RLT}) = H_{B-L+1} \text{ with } B-L+2 \text{ leaves},\quad "
        r"2H_{B-L+1} - 1 \text{ with more}"
    ),
    source="Θ: Wu, Silwal and Zhang 2026; the constants as marking on a star: Fiat et al. 1991, "
    "Achlioptas, Chrobak and Noga 2000",
    assumptions="oblivious adversary, queries end at leaves; equal miss costs, forced admission; "
    "token phases; batch 1",
    method="exact rational: ratio with a potential, checked by literal rules",
    scope=("k <= 3, L <= 3, up to k + 3 leaves", "k <= 5, L <= 4, up to 7 leaves"),
    seconds=(2, 60),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("the victim is the first unmarked leaf", Subject(FirstLeaf())),
        Mutant("H_k on every broom", Subject(formula=lambda k, leaves: exactly(k, k + 1))),
        Mutant("follow LRU", Subject("llru")),
    ),
)
