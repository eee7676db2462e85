"""Claim 1: the ratio of leaf LRU is the effective width."""

from collections.abc import Callable
from dataclasses import dataclass

from kvtheory.instance import Instance
from kvtheory.ratio.exact_engine import Forest
from kvtheory.ratio.width import effective_width
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.ratios import Parents, fraction, ratio, unit_paths


def by_knapsack(parents: Parents, capacity: int) -> int:
    """The effective width, by the package's knapsack."""
    return effective_width(Forest(parents).as_tree(), capacity)


def paper_length(parents: Parents, capacity: int) -> int:
    """B − L + 1 with L the longest query: too small on most trees."""
    return capacity - max(map(len, forests.paths_of(parents))) + 1


@dataclass(frozen=True)
class Subject:
    """A policy in the exact engine, the same in the driver, and what its ratio should be."""

    policy: str = "llru"
    driver: str = "llru"
    width: Callable[[Parents, int], int] = by_knapsack


def check(subject: Subject, task: Task) -> str:
    """The exact ratio, the knapsack and a search over closed sets, on every small forest."""
    pairs = brooms = replayed = 0
    for parents, capacity in forests.small_pairs(task.pick(6, 7)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        where = f"parents {list(parents)}, B = {capacity}"
        k, width = forests.width(parents, capacity), subject.width(parents, capacity)
        if width != k:
            raise Refuted(f"{where}: the width is {k}, not {width}")
        found = fraction(subject.policy, parents, capacity)
        if found != width:
            raise Refuted(f"{where}: {subject.policy} has ratio {found}, not {width}")
        pairs += 1
        replayed += _replay(subject, parents, capacity)
    for k in range(1, task.pick(4, 6)):
        for length in range(1, 4):
            parents = (*range(-1, length - 2), *[length - 2] * (k + 2))
            capacity = k + length - 1
            found = ratio(subject.policy, parents, capacity, "leaves").fraction
            if found != capacity - length + 1:
                raise Refuted(f"broom, L = {length}, B = {capacity}: the ratio is {found}")
            brooms += 1
    return (
        f"{pairs} pairs of a forest and B and {brooms} brooms, each proof checked by literal "
        f"rules; {replayed} worst cases replayed by the driver"
    )


def _replay(subject: Subject, parents: Parents, capacity: int) -> bool:
    """Whether the driver pays on the worst case what the engine says; False if it is too long."""
    from kvtheory.eviction import policy
    from kvtheory.testing.small_driver import SMALL, run_small

    worst = ratio(subject.policy, parents, capacity)
    paths = unit_paths(parents)
    requests = [paths[u] for u in (*worst.prefix, *worst.cycle)]
    if len(requests) > SMALL.requests or sum(map(len, requests)) > SMALL.positions:
        return False
    run = run_small(policy(subject.driver), Instance.from_blocks(requests), capacity, trusted=True)
    missed = sum(map(len, requests[len(worst.prefix) :])) - run.hits[len(worst.prefix) :].sum()
    if missed != worst.cycle_cost:
        shows = f"the driver misses {missed}, the engine {worst.cycle_cost}"
        raise Refuted(
            f"parents {list(parents)}, B = {capacity}: {shows}",
            Counterexample(requests, capacity, shows),
        )
    return True


CLAIM = Claim(
    id="1",
    title="L-LRU's ratio is the effective width",
    statement=(
        "On every tree and every capacity B the competitive ratio of leaf LRU is the effective "
        "width k = B − ι, one less than the most leaves of an ancestor-closed set of B + 1 units; "
        "B − L + 1 on brooms with queries of L units."
    ),
    latex=(
        r"\mathrm{ratio}(\text{L-LRU}) = k(\mathcal T, B) = "
        r"\max\{\#\mathrm{leaves}(C) : C \text{ ancestor-closed}, |C| = B + 1\} - 1"
    ),
    source="B − L + 1: Wu, Silwal and Zhang 2026; the width on trees: new here",
    assumptions="deterministic policy, any adversary; equal miss costs, forced admission; batch 1",
    method="exact rational: ratio with a potential, checked by literal rules; the width by search",
    scope=(
        "every forest of at most 6 units, every B (191 pairs); brooms with k <= 3",
        "every forest of at most 7 units, every B (571 pairs); brooms with k <= 5",
    ),
    seconds=(12, 60),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("evicts the newest leaf", Subject(policy="mru")),
        Mutant("the driver evicts the newest leaf", Subject(driver="mru")),
        Mutant("the width is B − (longest query) + 1", Subject(width=paper_length)),
    ),
)
