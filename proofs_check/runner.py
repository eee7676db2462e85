"""Runs checks and their mutants."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvtheory.errors import bad
from proofs_check.claim import Claim, Counterexample, Refuted, Task, Undecided, Verdict


@dataclass(frozen=True)
class Row:
    """What came out for one claim.

    Attributes
    ----------
    claim
        The claim.
    verdict
        What the check said.
    evidence
        What was checked, or what refutes the statement.
    counterexample
        Of a refuted statement.
    scope
        What this run covered.
    killed, survived
        Names of the mutants that the check rejected, and of those that it let pass.
    seconds
        Of the check and of all its mutants.
    """

    claim: Claim
    verdict: Verdict
    evidence: str
    counterexample: Counterexample | None
    scope: str
    killed: tuple[str, ...]
    survived: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the verdict is the one that is stated, and every mutant was rejected."""
        return self.verdict == self.claim.expected and not self.survived

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.claim.id,
            "title": self.claim.title,
            "verdict": self.verdict,
            "expected": self.claim.expected,
            "method": self.claim.method,
            "scope": self.scope,
            "evidence": self.evidence,
            "mutants": len(self.killed) + len(self.survived),
            "survived": len(self.survived),
            "survivors": list(self.survived),
            "seconds": round(self.seconds, 3),
        }


def run(
    claims: Sequence[Claim],
    *,
    full: bool = False,
    mutants: bool = True,
    seed: int = 0,
    tell: Callable[[str], object] = lambda what: None,
    finished: Callable[[Row], object] = lambda row: None,
) -> list[Row]:
    """Check claims, and that each check rejects its mutants.

    Parameters
    ----------
    claims
        Which ones.
    full
        Whether to spend the full budget. Mutants are always run on the quick scope.
    mutants
        Whether to run them.
    seed
        Of the statistical checks; all others do not depend on it.
    tell, finished
        Called with what is going on, and with each row when it is ready.

    Raises
    ------
    Exception
        Whatever a check raises that is neither `Refuted` nor `Undecided`: that is no verdict.
    """
    rows = []
    for claim in claims:
        begin = time.perf_counter()

        def say(what: str, claim: Claim = claim) -> None:
            tell(f"{claim.id}: {what}")

        say(claim.title)
        verdict, evidence, counterexample = judged(claim, claim.subject, Task(full, say, seed))
        killed, survived = [], []
        for mutant in claim.mutants if mutants else ():
            say(f"mutant: {mutant.name}")
            found, _, _ = judged(claim, mutant.subject, Task(False, say, seed))
            (survived if found == claim.expected else killed).append(mutant.name)
        row = Row(
            claim=claim,
            verdict=verdict,
            evidence=evidence,
            counterexample=counterexample,
            scope=claim.scope[full],
            killed=tuple(killed),
            survived=tuple(survived),
            seconds=time.perf_counter() - begin,
        )
        rows.append(row)
        finished(row)
    return rows


def repeated(
    claim: Claim,
    seeds: int,
    *,
    first: int = 0,
    full: bool = False,
    tell: Callable[[str], object] = lambda what: None,
    finished: Callable[[int, Verdict], object] = lambda seed, verdict: None,
) -> list[int]:
    """Run what a check draws with consecutive seeds, without mutants; the seeds that fail.

    As many are to be expected as its error probability says.

    Raises
    ------
    InputError
        If the check draws nothing.
    """
    if claim.drawn is None:
        raise bad("claim", claim.id, "has a check that draws nothing")
    drawn = claim.drawn
    part = replace(claim, check=lambda subject, task: str(drawn(subject, task)))
    failed = []
    for seed in range(first, first + seeds):
        tell(f"{claim.id}: seed {seed}")
        verdict, _, _ = judged(part, claim.subject, Task(full, tell, seed))
        if verdict != claim.expected:
            failed.append(seed)
        finished(seed, verdict)
    return failed


def judged(claim: Claim, subject: Any, task: Task) -> tuple[Verdict, str, Counterexample | None]:
    """What the check of a claim says of a subject."""
    try:
        return "holds", claim.check(subject, task), None
    except Refuted as refuted:
        return "refuted", str(refuted), refuted.counterexample
    except Undecided as undecided:
        return "open", str(undecided), None


def failures(rows: Sequence[Row]) -> list[str]:
    """What is not as the registry states, one line each."""
    lines = []
    for row in rows:
        if row.verdict != row.claim.expected:
            what = f"should be {row.claim.expected}, but is {row.verdict}: {row.evidence}"
            lines.append(f"claim {row.claim.id} {what}")
        lines += [f"claim {row.claim.id} lets a mutant pass: {name}" for name in row.survived]
    return lines
