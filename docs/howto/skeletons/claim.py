"""Skeleton of a claim: a statement, a check of it, and mutants that the check rejects.

Copy me to ``proofs_check/claims/my_claim.py`` and change the lines marked with "yours".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from kvtheory.testing import TWINS, distinct_units
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task


@dataclass(frozen=True)
class Subject:
    """What is checked; a mutant changes one field. Yours."""

    policy: str = "fifo"
    short: int = 0  # units that the cache lacks to hold the tree


def misses(subject: Subject, requests: Sequence[Sequence[int]], capacity: int) -> int:
    """By a slow twin: code that judges shares nothing with what it judges."""
    hits = TWINS[subject.policy](capacity).run(requests)
    return sum(map(len, requests)) - sum(hits)


def check(subject: Subject, task: Task) -> str:
    """Random sequences on small trees. Yours: exhaustive or exact, if it can be."""
    rng = Random(task.seed)
    cases = task.pick(200, 2_000)
    for case in range(cases):
        task.tell(f"case {case}")
        requests = [
            [rng.randrange(2) for _ in range(rng.randrange(1, 4))]
            for _ in range(rng.randrange(1, 9))
        ]
        units = len(distinct_units(requests))
        capacity = max(units - subject.short, *map(len, requests))
        found = misses(subject, requests, capacity)
        if found != units:
            shows = f"{found} misses, the tree has {units} units"
            raise Refuted(
                f"{requests}, B = {capacity}: {shows}", Counterexample(requests, capacity, shows)
            )
    return f"{cases} random sequences"


CLAIM = Claim(
    id="99",  # yours: the next free number
    title="A cache for the whole tree misses once",
    statement="If B is at least the number of units of the tree, FIFO misses each unit once.",
    latex=r"B \ge |\mathcal T| \;\Rightarrow\; \mathrm{FIFO} = |\mathcal T|",
    source="new here",
    assumptions="equal miss costs, forced admission, empty cache; batch 1",
    method="statistical: random sequences of at most 8 queries",
    scope=("200 sequences", "2,000 sequences"),
    seconds=(1, 2),
    subject=Subject(),
    check=check,
    mutants=(Mutant("the cache lacks two units", Subject(short=2)),),
)


if __name__ == "__main__":
    from proofs_check import failures, run

    print(failures(run([CLAIM])) or f"{CLAIM.title}: as stated, mutants rejected")
