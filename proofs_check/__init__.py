"""Theory that runs: every claim with its check, its evidence, and mutants that the check rejects.

``python -m proofs_check`` or ``kvtheory check`` runs all of them. A claim is a file of
`proofs_check.claims`: its statement, where it comes from, what it assumes, how and on what scope it
is checked, and mutants (a broken algorithm or a bound that is too tight) that the same check must
reject. Code that judges is in `proofs_check.judge` and `kvtheory.testing`; it shares nothing with
what it judges.

A finite check is no proof of a statement about all trees, and is never called one: its verdict is
"holds" with the scope behind it.
"""

from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task, Undecided
from proofs_check.registry import CLAIMS
from proofs_check.runner import Row, failures, run

__all__ = [
    "CLAIMS",
    "Claim",
    "Counterexample",
    "Mutant",
    "Refuted",
    "Row",
    "Task",
    "Undecided",
    "failures",
    "run",
]
