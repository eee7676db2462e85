"""Claim 12: routing to minimise the makespan is PARTITION."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

from kvtheory.cluster import Cluster
from kvtheory.instances.partition_gadget import (
    partition_gadget,
    partition_gadget_cluster,
    partition_gadget_makespan,
)
from kvtheory.offline.joint import joint_optimum
from kvtheory.testing.exhaustive_joint import joint_by_search
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task

Numbers = tuple[int, ...]
Requests = list[list[int]]


def chains(numbers: Numbers) -> Requests:
    """A chain of its own for each number."""
    return [[100 * i + d for d in range(n)] for i, n in enumerate(numbers)]


def one_chain(numbers: Numbers) -> Requests:
    """Prefixes of one chain: what is loaded once serves all."""
    return [list(range(n)) for n in numbers]


def splits(numbers: Numbers) -> bool:
    """Whether some of the numbers have half of the total, by the set of all sums."""
    sums = {0}
    for n in numbers:
        sums |= {s + n for s in sums}
    return 2 * max(s for s in sums if 2 * s <= sum(numbers)) == sum(numbers)


@dataclass(frozen=True)
class Subject:
    """The queries for some numbers, the workers, and who can be split."""

    queries: Callable[[Numbers], Requests] = chains
    workers: int = 2
    splits: Callable[[Numbers], bool] = splits


def check(subject: Subject, task: Task) -> str:
    """The optimum by search over all routings and evictions, and by the integer program."""
    gadgets = programs = yes = 0
    for numbers in _multisets(5, task.pick(4, 5)):
        if gadgets % 10 == 0:
            task.tell(f"numbers {numbers}")
        total = sum(numbers)
        queries = subject.queries(numbers)
        cluster = Cluster([total] * subject.workers, alpha_miss=1.0)  # type: ignore[arg-type]
        least = joint_by_search(queries, cluster, "makespan")
        meets = 2 * least == total
        if meets != subject.splits(numbers):
            shows = f"the least makespan is {least:g} of {total}"
            raise Refuted(f"{numbers}: {shows}", Counterexample(queries, total, shows))
        gadgets += 1
        yes += meets
        if gadgets % task.pick(12, 4) == 0:
            found = joint_optimum(partition_gadget(numbers), partition_gadget_cluster(numbers))
            if not (found.lower == found.upper == least == partition_gadget_makespan(numbers)):
                raise Refuted(f"{numbers}: the program has {found.lower:g} … {found.upper:g}")
            programs += 1
    return f"{gadgets} multisets ({yes} can be split) by search, {programs} by the integer program"


def _multisets(most: int, largest: int) -> Iterator[Numbers]:
    for n in range(1, most + 1):
        yield from combinations_with_replacement(range(1, largest + 1), n)


CLAIM = Claim(
    id="12",
    title="Routing for makespan is PARTITION",
    statement=(
        "For queries on chains of their own, as long as some whole numbers, and two empty workers, "
        "the least makespan is half of the total if and only if the numbers can be split into two "
        "parts of equal sum. So routing to minimise the makespan is NP-hard."
    ),
    latex=r"\min_x \max_i P_i = \tfrac12 \textstyle\sum_j n_j \iff \exists\, J: "
    r"\sum_{j \in J} n_j = \sum_{j \notin J} n_j",
    source="Wu, Silwal and Zhang 2026 (NP-hardness); Karp 1972",
    assumptions="offline; α_miss = 1, no sharing, caches that hold everything; batch 1",
    method="exhaustive over routings and evictions, against a dynamic program over sums; MIP",
    scope=(
        "multisets of at most 5 numbers up to 4 (125); every 12th by the MIP",
        "multisets of at most 5 numbers up to 5 (251); every 4th by the MIP",
    ),
    seconds=(9, 60),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("prefixes of one chain", Subject(one_chain)),
        Mutant("three workers", Subject(workers=3)),
        Mutant("an even total is enough", Subject(splits=lambda numbers: sum(numbers) % 2 == 0)),
    ),
)
