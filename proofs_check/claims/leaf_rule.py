"""Claim 7: the leaf rule costs the optimum nothing, if units cost the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from kvtheory.instance import Instance
from kvtheory.offline.belady import belady
from kvtheory.offline.interval_lp import solve_interval_lp
from kvtheory.offline.replay import replay
from kvtheory.testing.small_cases import random_cases
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.judge.caches import most_saved
from proofs_check.judge.intervals import proved_hits
from proofs_check.ratios import unit_paths

Requests = list[list[int]]


def hits_of_belady(requests: Requests, capacity: int) -> int:
    """Belady's rule of the package, its schedule replayed."""
    instance = Instance.from_tokens(requests)
    schedule, hits = belady(instance, capacity)
    if not np.array_equal(replay(schedule, instance, capacity), hits):
        raise Refuted("the replay of Belady's schedule has other hits")
    return int(hits.sum())


def hits_of_lp(requests: Requests, capacity: int) -> tuple[Fraction, Fraction]:
    """The interval LP of the package: hits of its solution, and the bound that its prices prove."""
    solution = solve_interval_lp(Instance.from_tokens(requests), capacity)
    kept = solution.certificate.kept
    assert kept is not None
    return Fraction(round(float(kept.sum()))), proved_hits(
        requests, capacity, solution.certificate.price.tolist()
    )


def nearest(requests: Requests, capacity: int) -> int:
    """Belady turned round: the unit whose next use is nearest goes."""
    cache: set[tuple[int, ...]] = set()
    hits = 0
    for t, tokens in enumerate(requests):
        path = _path(tokens)
        hits += len(cache & path)
        cache |= path
        while len(cache) > capacity:
            leaves = cache - {u[:-1] for u in cache} - path
            later = [
                (next((s for s in range(t + 1, len(requests)) if u in _path(requests[s])), 99), u)
                for u in leaves
            ]
            cache.remove(min(later)[1])
    return hits


def _path(tokens: list[int]) -> set[tuple[int, ...]]:
    return {tuple(tokens[:d]) for d in range(1, len(tokens) + 1)}


@dataclass(frozen=True)
class Subject:
    """The ways to the optimum: Belady's rule offline, in the driver, and the program."""

    belady: Callable[[Requests, int], int] = hits_of_belady
    lp: Callable[[Requests, int], tuple[Fraction, Fraction]] = hits_of_lp
    driver: str = "belady"


def check(subject: Subject, task: Task) -> str:
    """Dynamic programs with and without the rule, Belady's rule and the program."""
    exhaustive = programs = 0
    for requests, capacity in _all_small(task.pick(6, 7), task.pick(3, 4)):
        best = _both(requests, capacity)
        if exhaustive % 500 == 0:
            task.tell(f"{exhaustive:,} sequences")
        if subject.belady(requests, capacity) != best:
            raise _refuted(
                requests, capacity, f"Belady has {subject.belady(requests, capacity)}", best
            )
        exhaustive += 1
    for case in random_cases(task.pick(60, 400), 7, units=8, requests=12):
        task.tell(f"linear program {programs}")
        requests = [list(s) for s in case.sequences]
        best = _both(requests, case.capacity)
        by_lp, proved = subject.lp(requests, case.capacity)
        for name, hits in (
            ("Belady", subject.belady(requests, case.capacity)),
            ("Belady in the driver", _in_driver(subject.driver, requests, case.capacity)),
            ("the program", by_lp),
            ("the bound of its prices", proved),
        ):
            if hits != best:
                raise _refuted(requests, case.capacity, f"{name} has {hits}", best)
        programs += 1
    return (
        f"{exhaustive:,} sequences, all of them; {programs} random ones with the program, its "
        "prices in rationals, and the driver"
    )


def _all_small(requests: int, units: int) -> Iterator[tuple[Requests, int]]:
    for parents, capacity in forests.small_pairs(units):
        paths = unit_paths(parents)
        length = requests if len(parents) < 4 else requests - 2
        for queries in product(range(len(parents)), repeat=length):
            # who asks twice in a row tells nothing new
            if all(a != b for a, b in pairwise(queries)):
                yield [paths[q] for q in queries], capacity


def _both(requests: Requests, capacity: int) -> int:
    """Hits of the optimum, by search with and without the leaf rule."""
    rule = most_saved(requests, capacity, lambda depth: 1, leaf_rule=True)
    free = most_saved(requests, capacity, lambda depth: 1, leaf_rule=False)
    if rule != free:
        raise _refuted(requests, capacity, f"the leaf rule has {rule}", free)
    return rule


def _in_driver(policy: str, requests: Requests, capacity: int) -> int:
    from kvtheory.eviction import policy as parse
    from kvtheory.testing.small_driver import run_small

    run = run_small(parse(policy), Instance.from_tokens(requests), capacity, trusted=True)
    return int(run.hits.sum())


def _refuted(requests: Requests, capacity: int, what: str, best: int) -> Refuted:
    shows = f"{what} hits, the optimum {best}"
    return Refuted(
        f"B = {capacity}, {requests}: {shows}", Counterexample(requests, capacity, shows)
    )


CLAIM = Claim(
    id="7",
    title="The leaf rule is free with equal costs",
    statement=(
        "With equal miss costs the optimum that may evict any unit, and counts a hit on a unit "
        "whatever is cached above it, misses as much as the one that evicts leaves only; Belady's "
        "rule on leaf units and the interval LP have its value."
    ),
    latex=r"\mathrm{OPT}_{\text{any unit}} = \mathrm{OPT}_{\text{leaves}} = \text{Belady} "
    r"= \text{interval LP}",
    source="Belady 1966 on units; trees: new here",
    assumptions="offline; equal miss costs, forced admission, empty cache; batch 1",
    method="exhaustive: dynamic programs over all caches; LP with its prices checked in rationals",
    scope=(
        "every forest of at most 3 units, every B, all sequences of 6 queries without "
        "immediate repetition; 60 random cases "
        "of at most 8 units with the LP",
        "every forest of at most 4 units, every B, such sequences of 7 queries (5 with 4 units); "
        "400 random cases with the LP",
    ),
    seconds=(5, 120),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("the nearest next use goes", Subject(belady=nearest)),
        Mutant("the driver follows LRU", Subject(driver="llru")),
        Mutant("the program has one unit more", Subject(lp=lambda r, b: hits_of_lp(r, b + 1))),
    ),
)
