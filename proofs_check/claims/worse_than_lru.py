"""Claim 14: where RLT is worse than leaf LRU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from kvtheory.ratio.exact_engine import Beliefs
from proofs_check.claim import Claim, Mutant, Refuted, Task
from proofs_check.claims.rlt_brooms import FirstLeaf
from proofs_check.judge import forests
from proofs_check.ratios import fraction

Ratios = tuple[Fraction, Fraction]  # of RLT and of leaf LRU

# brackets of the forest, B: the ratios, on every pair up to 6 units where RLT is worse
WORSE: dict[tuple[str, int], Ratios] = {
    ("(())(())(())", 4): (Fraction(5, 2), Fraction(2)),
    ("(()())(())()", 3): (Fraction(25, 12), Fraction(2)),
}
WORSE_AT_7 = 15


@dataclass(frozen=True)
class Subject:
    """The policies to compare, and where the first one is said to be worse."""

    policy: str | Beliefs = "rlt"
    other: str = "llru"
    worse: Mapping[tuple[str, int], Ratios] = field(default_factory=lambda: WORSE)


def check(subject: Subject, task: Task) -> str:
    """All small forests; the pairs must be those that are listed."""
    pairs = 0
    found: dict[tuple[str, int], Ratios] = {}
    for parents, capacity in forests.small_pairs(task.pick(6, 7)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        mine = fraction(subject.policy, parents, capacity)
        theirs = fraction(subject.other, parents, capacity)
        pairs += 1
        if mine is None or theirs is None:
            raise Refuted(f"parents {list(parents)}, B = {capacity}: no finite ratio")
        if mine > theirs:
            found[forests.shape(parents), capacity] = (mine, theirs)
    small = {at: ratios for at, ratios in found.items() if at[0].count("(") <= 6}
    if small != dict(subject.worse):
        raise Refuted(f"worse on {_told(small)}, not on {_told(subject.worse)}")
    more = len(found) - len(small)
    if task.full and more != WORSE_AT_7:
        raise Refuted(f"worse on {more} pairs of 7 units, not {WORSE_AT_7}")
    beyond = f"; and on {more} pairs of 7 units" if task.full else ""
    return f"{pairs} pairs, both proofs checked by literal rules; worse on {_told(found)}{beyond}"


def _told(worse: Mapping[tuple[str, int], Ratios]) -> str:
    some = [
        f"{shape} at B = {capacity} ({mine} against {theirs})"
        for (shape, capacity), (mine, theirs) in sorted(worse.items())
        if shape.count("(") <= 6
    ]
    return " and ".join(some) or "none"


CLAIM = Claim(
    id="14",
    title="Where RLT is worse than L-LRU",
    statement=(
        "Of the 191 pairs of a forest of at most 6 units and a capacity, RLT's ratio exceeds that "
        "of leaf LRU on two: 5/2 against 2 on 3 chains of 2 units at B = 4, and 25/12 against 2 "
        "on a root with two children, a chain of 2 and a single unit at B = 3. Randomisation helps "
        "or does no harm on all others."
    ),
    latex=r"\mathrm{ratio}(\mathrm{RLT}) > \mathrm{ratio}(\text{L-LRU}) \text{ on 2 of 191 pairs}",
    source="new here",
    assumptions="oblivious adversary, any node may be asked for; equal miss costs, forced "
    "admission; token phases; batch 1",
    method="exact rational: ratios with potentials, checked by literal rules",
    scope=(
        "every forest of at most 6 units, every B (191 pairs)",
        "every forest of at most 7 units, every B (571 pairs)",
    ),
    seconds=(3, 120),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("RLT is never worse", Subject(worse={})),
        Mutant("the victim is the first unmarked leaf", Subject(FirstLeaf())),
        Mutant("the policies are exchanged", Subject("llru", "rlt")),
    ),
)
