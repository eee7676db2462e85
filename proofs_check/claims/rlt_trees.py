"""Claim 3: RLT is at most 2H_B − 1 on every small tree."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from kvtheory.ratio.bounds import harmonic
from kvtheory.ratio.exact_engine import Beliefs
from proofs_check.claim import Claim, Mutant, Refuted, Task
from proofs_check.claims.rlt_brooms import FirstLeaf
from proofs_check.judge import forests
from proofs_check.ratios import Parents, fraction

Bound = Callable[[Parents, int], Fraction]


def by_capacity(parents: Parents, capacity: int) -> Fraction:
    """2·H_B − 1."""
    return 2 * Fraction(harmonic(capacity)) - 1


def by_width(parents: Parents, capacity: int) -> Fraction:
    """2·H_k − 1 with k the effective width: too small on 3 chains of 2 units."""
    return 2 * Fraction(harmonic(forests.width(parents, capacity))) - 1


@dataclass(frozen=True)
class Subject:
    """A policy and its bound."""

    policy: str | Beliefs = "rlt"
    bound: Bound = by_capacity


def check(subject: Subject, task: Task) -> str:
    """The exact ratio against the bound, on every small forest."""
    pairs = 0
    largest: dict[str, tuple[Fraction, Parents, int]] = {}
    for parents, capacity in forests.small_pairs(task.pick(6, 7)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        found, bound = fraction(subject.policy, parents, capacity), subject.bound(parents, capacity)
        if found is None or found > bound:
            raise Refuted(
                f"parents {list(parents)}, B = {capacity}: the ratio {found} exceeds {bound}"
            )
        pairs += 1
        share = found / Fraction(harmonic(forests.width(parents, capacity)))
        best = largest.get(kind(parents), (Fraction(0), (), 0))
        largest[kind(parents)] = max(best, (share, parents, capacity))
    told = ", ".join(f"{name} {share[0]}" for name, share in sorted(largest.items()))
    return f"{pairs} pairs, proofs checked by literal rules; largest ratio/H_k: {told}"


def kind(parents: Parents) -> str:
    """The kind of a forest: star, broom, chains or other."""
    paths = forests.paths_of(parents)
    children = [parents.count(u) for u in range(-1, len(parents))]
    if max(map(len, paths)) == 1:
        return "stars"
    if all(c <= 1 for c in children[1:]):
        return "chains"
    branching = [u for u, c in enumerate(children) if c > 1]
    if len(branching) == 1 and branching[0] > 0:
        top = branching[0] - 1
        if all(p == top for u, p in enumerate(parents) if children[u + 1] == 0):
            return "brooms"
    return "others"


CLAIM = Claim(
    id="3",
    title="RLT is at most 2H_B − 1 on trees",
    statement=(
        "RLT with token phases has a competitive ratio of at most 2·H_B − 1 on every tree and for "
        "every capacity B."
    ),
    latex=r"\mathrm{ratio}(\mathrm{RLT}) \le 2H_B - 1",
    source="order of growth: Wu, Silwal and Zhang 2026; the constant: new here",
    assumptions="oblivious adversary, any node may be asked for; equal miss costs, forced "
    "admission; token phases; batch 1",
    method="exact rational: ratio with a potential, checked by literal rules",
    scope=(
        "every forest of at most 6 units, every B (191 pairs)",
        "every forest of at most 7 units, every B (571 pairs)",
    ),
    seconds=(12, 90),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("2·H_k − 1 with k the effective width", Subject(bound=by_width)),
        Mutant("H_B", Subject(bound=lambda parents, capacity: Fraction(harmonic(capacity)))),
        Mutant("the victim is the first unmarked leaf", Subject(FirstLeaf())),
    ),
)
