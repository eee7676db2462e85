"""Claims 13, 13b and 13c: queries served at once, with the assumption and without."""

from dataclasses import dataclass
from fractions import Fraction

from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.judge.batches import batches, exceeds
from proofs_check.ratios import unit_paths


@dataclass(frozen=True)
class Subject:
    """What LRU does, what is taken off its bound, and what batches may be."""

    oldest: bool = True
    less: int = 0
    distinct: bool = True
    long: bool = False


def with_batches(subject: Subject, task: Task) -> str:
    """No cycle of batches on which LRU pays more than the bound, on every small forest."""
    cases = 0
    for parents, capacity, size in _cases(subject, task):
        task.tell(f"parents {list(parents)}, B = {capacity}, β = {size}")
        asked, _ = batches(parents, capacity, size, distinct=subject.distinct)
        bound = capacity - size + 1 - subject.less
        cycle = exceeds(parents, capacity, asked, Fraction(bound), oldest=subject.oldest)
        if cycle is not None:
            requests = [[unit_paths(parents)[q] for q in _queries(parents, u)] for u in cycle]
            shows = f"LRU pays more than {bound} times what the optimum pays on this cycle"
            raise Refuted(
                f"parents {list(parents)}, B = {capacity}, β = {size}, batches {requests}: {shows}",
                Counterexample(
                    [tokens for batch in requests for tokens in batch],
                    capacity,
                    f"{shows}, batches of {size}",
                    {"batches": requests},
                ),
            )
        cases += 1
    return f"{cases} triples of a forest, B and β, sequences of batches of any length"


def _cases(subject: Subject, task: Task) -> list[tuple[forests.Parents, int, int]]:
    return [
        (parents, capacity, size)
        for parents, capacity in forests.small_pairs(task.pick(5, 6))
        for size in (1, 2, 3)
        if size <= len(parents)
        and (subject.long or size * max(map(len, forests.paths_of(parents))) <= capacity)
    ]


def _queries(parents: forests.Parents, union: int) -> list[int]:
    return forests.members(forests.leaves_in(parents, union))


def every_batch_fits(subject: Subject, task: Task) -> str:
    """Smallest forests first: is there a batch of distinct queries that no cache holds?"""
    cases = 0
    for parents, capacity, size in _cases(subject, task):
        _, too_long = batches(parents, capacity, size, distinct=True)
        if too_long:
            requests = [unit_paths(parents)[q] for q in _queries(parents, too_long[0])]
            units = too_long[0].bit_count()
            shows = f"{size} queries at once need {units} units, the cache holds {capacity}"
            raise Refuted(
                f"parents {list(parents)}, B = {capacity}, batch {requests}: {shows}",
                Counterexample(requests, capacity, shows),
            )
        cases += 1
    return f"{cases} triples of a forest, B and β"


_BOUND = r"\mathrm{ratio}(\text{L-LRU}) \le B - \beta + 1"
_METHOD = "exhaustive: cycles in the graph of (LRU order, work function), in rationals"
_SCOPE = (
    "every forest of at most 5 units, every B, β <= 3, sequences of any length",
    "every forest of at most 6 units, every B, β <= 3, sequences of any length",
)

CLAIM = Claim(
    id="13",
    title="β distinct queries at once: B − β + 1",
    statement=(
        "If β queries are served at once, all distinct and β·L_max <= B, leaf LRU is at most "
        "(B − β + 1)-competitive: a batch asks for at least β units, as a query of β units does."
    ),
    latex=_BOUND,
    source="batch assumption: Wu, Silwal and Zhang 2026; the bound: new here",
    assumptions="deterministic, any adversary; equal miss costs, a batch is in the cache as a "
    "whole when it is served, and each unit of it counts once; batch β",
    method=_METHOD,
    scope=_SCOPE,
    seconds=(2, 240),
    subject=Subject(),
    check=with_batches,
    mutants=(
        Mutant("the newest leaf goes", Subject(oldest=False)),
        Mutant("B − β", Subject(less=1)),
        Mutant("queries may be the same", Subject(distinct=False)),
    ),
)

SAME = Claim(
    id="13b",
    title="The same if queries may be equal",
    statement="The bound B − β + 1 holds also for batches in which the same query may occur twice.",
    latex=_BOUND + r" \text{ for multisets of } \beta \text{ queries}",
    source="new here",
    assumptions="as 13, without distinct queries",
    method=_METHOD,
    scope=_SCOPE,
    seconds=(1, 5),
    subject=Subject(distinct=False),
    check=with_batches,
    mutants=(Mutant("distinct queries", Subject()),),
    expected="refuted",
)

LONG = Claim(
    id="13c",
    title="Every batch fits without β·L_max <= B",
    statement="Batches of β distinct queries of at most B units each can always be served.",
    latex=r"\Big|\bigcup_{j \le \beta} \mathrm{path}(q_j)\Big| \le B",
    source="new here",
    assumptions="as 13, without β·L_max <= B",
    method="exhaustive search for the smallest counterexample",
    scope=(
        "every forest of at most 5 units, every B, β <= 3",
        "every forest of at most 6 units, every B, β <= 3",
    ),
    seconds=(1, 5),
    subject=Subject(long=True),
    check=every_batch_fits,
    mutants=(Mutant("β·L_max <= B", Subject()),),
    expected="refuted",
)
