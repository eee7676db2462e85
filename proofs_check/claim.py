"""What a claim is made of, and what its check may say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kvtheory.instance import Instance

Verdict = Literal["holds", "refuted", "open"]


@dataclass(frozen=True)
class Counterexample:
    """A request sequence on which a statement fails, as small as the search found it.

    Parameters
    ----------
    requests
        Queries as token lists.
    capacity
        B of every worker, in units.
    shows
        What it shows, in one line.
    numbers
        The numbers that do not fit the statement.
    cluster
        Further parameters of the workers, as `kvtheory.cluster.Cluster` takes them.
    replayed
        Policies, and the hits of each query that the driver has with them.
    """

    requests: Sequence[Sequence[int]]
    capacity: int
    shows: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    cluster: Mapping[str, Any] = field(default_factory=dict)
    replayed: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def instance(self, name: str) -> Instance:
        """The sequence for the driver; all else is among its parameters."""
        return Instance.from_tokens(
            [list(tokens) for tokens in self.requests],
            name=name,
            parameters={
                "capacity": self.capacity,
                "shows": self.shows,
                "numbers": {key: str(value) for key, value in self.numbers.items()},
                "cluster": dict(self.cluster),
                "replayed": {policy: list(hits) for policy, hits in self.replayed.items()},
            },
        )


class Refuted(Exception):
    """The statement is false: what shows it, and a counterexample where it is a sequence."""

    def __init__(self, why: str, counterexample: Counterexample | None = None) -> None:
        super().__init__(why)
        self.counterexample = counterexample


class Undecided(Exception):
    """Nothing was found against the statement, and what was checked is not all of it."""


@dataclass(frozen=True)
class Task:
    """How far to go, and whom to tell.

    Parameters
    ----------
    full
        Whether to spend the full budget.
    tell
        Called with what is going on.
    seed
        Of all that a statistical check draws.
    """

    full: bool = False
    tell: Callable[[str], object] = lambda what: None
    seed: int = 0

    def pick[T](self, quick: T, full: T) -> T:
        """One of the two, as the budget has it."""
        return full if self.full else quick


@dataclass(frozen=True)
class Mutant:
    """Something broken that the check of a claim has to reject.

    Parameters
    ----------
    name
        What is broken.
    subject
        Takes the place of the claim's own subject.
    """

    name: str
    subject: Any


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement, how it is checked, and what the check must not let pass.

    Parameters
    ----------
    id
        A number, with a letter for what goes with another claim.
    title
        The statement in a few words.
    statement, latex
        The statement in plain text, and as LaTeX.
    source
        Who claims it, or "new here".
    assumptions
        Adversary, costs, batch.
    method
        Exhaustive, exact rational, certificate, dynamic programming or statistical with its error
        probability.
    scope
        What the quick and the full run cover.
    seconds
        The budgets of the quick and the full run on one core, mutants included.
    subject
        What is checked: an algorithm, a bound, or both.
    check
        Takes a subject and a `Task`; returns the evidence in one line, or raises `Refuted` or
        `Undecided`.
    mutants
        At least one.
    expected
        The verdict that the registry states.
    drawn
        The part of a statistical check that depends on the seed; it raises as the check does.
    """

    id: str
    title: str
    statement: str
    latex: str
    source: str
    assumptions: str
    method: str
    scope: tuple[str, str]
    seconds: tuple[float, float]
    subject: Any
    check: Callable[[Any, Task], str]
    mutants: tuple[Mutant, ...]
    expected: Verdict = "holds"
    drawn: Callable[[Any, Task], object] | None = None
