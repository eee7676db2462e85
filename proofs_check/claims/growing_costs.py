"""Claims 7b and 7c: what becomes of the leaf rule and of Belady when costs grow with depth."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from kvtheory.instance import Instance
from kvtheory.offline.weighted import solve_weighted
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.claims.leaf_rule import Requests
from proofs_check.judge import forests
from proofs_check.judge.caches import most_saved
from proofs_check.ratios import unit_paths


def grows(depth: int) -> int:
    """What a miss costs: its depth."""
    return depth


def equal(depth: int) -> int:
    """What a miss costs: the same everywhere."""
    return 1


@dataclass(frozen=True)
class Subject:
    """What a hit on a unit saves, by its depth."""

    value: Callable[[int], int] = grows


def leaf_rule_is_free(subject: Subject, task: Task) -> str:
    """Shortest sequences first: what the optimum saves with the rule and without."""
    seen = 0
    for requests, capacity in smallest_first(task.pick(4, 5)):
        task.tell(f"{len(requests)} queries")
        with_rule = most_saved(requests, capacity, subject.value, leaf_rule=True)
        without = most_saved(requests, capacity, subject.value, leaf_rule=False)
        seen += 1
        if with_rule < without:
            instance = Instance.from_tokens(requests)
            value = np.array([subject.value(d) for d in instance.uncompressed().tree.depth])
            for rule, saved in ((True, with_rule), (False, without)):
                solved = solve_weighted(
                    instance, capacity, unit_value=value.astype(float), leaf_rule=rule
                )
                assert abs(solved.lower - saved) + abs(solved.upper - saved) < 1e-6, "the programs"
            raise _refuted(
                requests,
                capacity,
                f"the optimum saves {with_rule} with the leaf rule and {without} without it",
                {"with the rule": with_rule, "without": without},
            )
    return f"{seen:,} sequences"


def belady_is_optimal(subject: Subject, task: Task) -> str:
    """Shortest sequences first: what Belady's rule saves, and the optimum with the leaf rule."""
    from kvtheory.offline.belady import belady

    seen = 0
    for requests, capacity in smallest_first(task.pick(5, 6)):
        if seen % 200 == 0:
            task.tell(f"{len(requests)} queries")
        most = most_saved(requests, capacity, subject.value, leaf_rule=True)
        hits = belady(Instance.from_tokens(requests), capacity)[1].tolist()
        saved = sum(subject.value(d) for h in hits for d in range(1, h + 1))
        seen += 1
        if saved < most:
            raise _refuted(
                requests,
                capacity,
                f"Belady's rule saves {saved}, the optimum with the leaf rule {most}",
                {"Belady": saved, "optimum": most},
            )
    return f"{seen:,} sequences"


def smallest_first(most: int) -> Iterator[tuple[Requests, int]]:
    """Sequences by their length, then by the units asked for, then by B; each once up to names."""
    for length in range(2, most + 1):
        for parents, capacity in forests.small_pairs(4):
            paths = unit_paths(parents)
            for queries in product(range(len(parents)), repeat=length):
                asked = {u for q in queries for u in paths[q]}
                repeats = any(a == b for a, b in pairwise(queries))
                if len(asked) == len(parents) and not repeats:
                    yield [paths[q] for q in queries], capacity


def _refuted(requests: Requests, capacity: int, shows: str, numbers: dict[str, int]) -> Refuted:
    from kvtheory.eviction import policy
    from kvtheory.testing.small_driver import run_small

    instance = Instance.from_tokens(requests)
    replayed = {
        name: run_small(policy(name), instance, capacity, trusted=True).hits.tolist()
        for name in ("belady", "llru")
    }
    return Refuted(
        f"B = {capacity}, queries {requests}, costs = depth: {shows}",
        Counterexample(
            requests,
            capacity,
            shows,
            numbers,
            cluster={"alpha_miss": 0.0, "alpha_depth": 1.0},
            replayed=replayed,
        ),
    )


_COMMON = {
    "source": "new here",
    "assumptions": "offline; miss costs α_miss + α_depth·depth, forced admission, empty cache; "
    "batch 1",
    "expected": "refuted",
    "subject": Subject(),
    "mutants": (Mutant("costs do not grow", Subject(equal)),),
}

RULE = Claim(
    id="7b",
    title="The leaf rule is free with growing costs",
    statement="The leaf rule costs the optimum nothing also where miss costs grow with depth.",
    latex=r"\mathrm{OPT}_{\text{any unit}} = \mathrm{OPT}_{\text{leaves}} \text{ for costs } d(v)",
    method="exhaustive search for the smallest counterexample; dynamic programs, confirmed by the "
    "integer program",
    scope=("forests of at most 4 units, at most 4 queries", "the same, at most 5 queries"),
    seconds=(1, 20),
    check=leaf_rule_is_free,
    **_COMMON,  # type: ignore[arg-type]
)

BELADY = Claim(
    id="7c",
    title="Belady is optimal with growing costs",
    statement="Belady's rule on leaf units is optimal also where miss costs grow with depth.",
    latex=r"\text{Belady} = \mathrm{OPT}_{\text{leaves}} \text{ for costs } d(v)",
    method="exhaustive search for the smallest counterexample; dynamic program",
    scope=("forests of at most 4 units, at most 5 queries", "the same, at most 6 queries"),
    seconds=(6, 60),
    check=belady_is_optimal,
    **_COMMON,  # type: ignore[arg-type]
)
