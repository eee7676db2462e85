"""Claim 6: clocks and thinning are RLT in law."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.eviction import RLT
from kvtheory.ratio.exact_engine import Forest
from kvtheory.ratio.exact_engine.rlt import TokenPhases
from kvtheory.testing import TWINS, law
from kvtheory.testing.driver_law import driver_law
from kvtheory.testing.small_cases import random_cases
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.judge.statistics import differ

DELTA = 1e-6
Law = dict[int, Fraction]


@dataclass(frozen=True)
class Subject:
    """How clocks run, and the policy of the driver.

    Parameters
    ----------
    after_children
        Whether the clock of a unit starts when those of its old children have run out.
    marked_too
        Whether marked units count among those that go.
    driver
        The policy.
    """

    after_children: bool = True
    marked_too: bool = False
    driver: Callable[[], EvictionPolicy] = RLT


def check(subject: Subject, task: Task) -> str:
    """Clocks against the literal rule, and the driver against it; then both on a large case."""
    beliefs = _clocks_on_small_trees(subject, task)
    cases = _driver_on_small_cases(subject, task)
    runs = _on_a_large_case(subject, task)
    return (
        f"{beliefs} pairs (O, T) reached, clocks integrated in rationals; the law of all hits of "
        f"{cases} small cases; {runs} runs each of driver, clocks and twin on 300 queries, "
        f"δ = {DELTA:g}"
    )


def _clocks_on_small_trees(subject: Subject, task: Task) -> int:
    seen = 0
    for parents, capacity in forests.small_pairs(task.pick(5, 6)):
        task.tell(f"clocks: parents {list(parents)}, B = {capacity}")
        paths = forests.paths_of(parents)
        model = TokenPhases(Forest(parents), capacity)
        todo: list[tuple[int, int, Law]] = [(0, 0, {0: Fraction(1)})]
        known = {(0, 0): todo[0][2]}
        for old, marked, caches in todo:
            seen += 1
            by_clocks = _law_by_clocks(subject, parents, old, marked)
            if by_clocks != caches:
                raise Refuted(
                    f"parents {list(parents)}, B = {capacity}, O = {forests.members(old)}, "
                    f"T = {forests.members(marked)}: clocks give {by_clocks}, RLT {caches}"
                )
            for q, path in enumerate(paths):
                cost, then = _served(parents, capacity, (old, marked), caches, path)
                expected, belief = model.belief_step((old, marked), q)
                if (expected, belief) != (cost, then[:2]):
                    raise Refuted(
                        f"parents {list(parents)}, B = {capacity}: {expected}, not {cost}"
                    )
                if belief not in known:
                    known[belief] = then[2]
                    todo.append(then)
                elif known[belief] != then[2]:
                    raise Refuted(
                        f"parents {list(parents)}, B = {capacity}: (O, T) does not give the law"
                    )
    return seen


def _served(
    parents: forests.Parents, capacity: int, at: tuple[int, int], law: Law, path: tuple[int, ...]
) -> tuple[Fraction, tuple[int, int, Law]]:
    """Expected misses and the law of the cache after a query, by the text."""
    (old, marked), above, cost = at, 0, Fraction(0)
    for v in path:
        bit = 1 << v
        if not marked & bit and marked.bit_count() == capacity:
            old, marked = marked, above
        marked |= bit
        above |= bit
        after: Law = defaultdict(Fraction)
        for cached, p in law.items():
            if cached & bit:
                after[cached] += p
                continue
            cost += p
            if cached.bit_count() < capacity:
                after[cached | bit] += p
                continue
            leaves = forests.members(forests.leaves_in(parents, cached) & ~marked)
            for u in leaves:
                after[cached & ~(1 << u) | bit] += p / len(leaves)
        law = dict(after)
    return cost, (old, marked, law)


def _law_by_clocks(subject: Subject, parents: forests.Parents, old: int, marked: int) -> Law:
    """The cache if the units of O \\ T with the smallest τ are gone, as many as are clean."""
    clean = (marked & ~old).bit_count()
    law: Law = defaultdict(Fraction)
    for order, p in _orders(subject, parents, forests.members(old)):
        going = [v for v in order if subject.marked_too or not marked >> v & 1]
        law[(old | marked) & ~sum(1 << v for v in going[:clean])] += p
    return dict(law)


def _orders(
    subject: Subject, parents: forests.Parents, units: list[int]
) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """The orders that the clocks may run out in, each with its probability.

    The density of the times is Π exp(−(τ_v − max τ_child)). Over t_1 < t_2 < … it is a product of
    exponentials of the differences, each to the power of the number of clocks that run then, and
    so its integral is the product of one over these numbers.
    """
    children = {v: [c for c in units if parents[c] == v] for v in units}

    def extend(order: tuple[int, ...], p: Fraction) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        left = [v for v in units if v not in order]
        if not left:
            yield order, p
            return
        running = [
            v for v in left if not subject.after_children or all(c in order for c in children[v])
        ]
        for v in running:
            yield from extend((*order, v), p / len(running))

    yield from extend((), Fraction(1))


def _driver_on_small_cases(subject: Subject, task: Task) -> int:
    cases = 0
    for i, case in enumerate(random_cases(task.pick(160, 800), 6, units=9, requests=13)):
        task.tell(f"law of the driver, case {cases}")
        literal = law(TWINS["rlt"], case.sequences, case.capacity)
        by_query = partial(TWINS["rlt"], phase="query")
        if i >= task.pick(10, 50) and literal == law(by_query, case.sequences, case.capacity):
            continue  # beyond the first ones, those where it matters when phases begin
        found = driver_law(subject.driver(), case.sequences, case.capacity)
        if found != literal:
            raise Refuted(
                f"the driver's law differs: {case}",
                Counterexample(case.sequences, case.capacity, "the laws of the hits differ"),
            )
        cases += 1
    return cases


def _on_a_large_case(subject: Subject, task: Task) -> int:
    """Mean misses of the driver and of clocks against the twin's; the number of runs of each."""
    import jax

    from kvtheory.instance import Instance
    from kvtheory.simulate import simulate

    task.tell("a large case")
    capacity, runs = 40, task.pick(200, 1000)
    rng = np.random.default_rng(3)
    requests = [
        [g, *range(10, 10 + g % 3), 100 + int(rng.integers(8))]
        for g in rng.integers(0, 12, 300).tolist()
    ]
    instance = Instance.from_tokens(requests)
    units = sum(map(len, requests))
    key = jax.random.key(task.seed)
    driver = units - simulate(instance, capacity, subject.driver(), seeds=runs, key=key).hits.sum(
        axis=1
    )
    twin = [
        units
        - sum(
            TWINS["rlt"](capacity, choose=random.Random(f"{task.seed} {s}").randrange).run(requests)
        )
        for s in range(runs)
    ]
    clocks = [
        misses_by_clocks(subject, requests, capacity, np.random.default_rng([task.seed, s]))
        for s in range(runs)
    ]
    for name, found in (("driver", driver), ("clocks", clocks)):
        if differ(found, twin, DELTA / 2):
            raise Refuted(
                f"{name}: {np.mean(found):.1f} misses on average, the twin {np.mean(twin):.1f}"
            )
    return runs


def misses_by_clocks(
    subject: Subject, requests: list[list[int]], capacity: int, rng: np.random.Generator
) -> int:
    """Misses of RLT with clocks: the old units with the smallest τ are the ones that are gone."""
    Unit = tuple[int, ...]
    marked: set[Unit] = set()
    old: set[Unit] = set()
    order: list[Unit] = []
    misses = 0
    for tokens in requests:
        path = [tuple(tokens[:d]) for d in range(1, len(tokens) + 1)]
        for i, v in enumerate(path):
            if v in marked:
                continue
            if len(marked) == capacity:
                old, marked = marked, set(path[:i])
                tau: dict[Unit, float] = {}
                for u in sorted(old, key=lambda u: -len(u)):
                    below = max((t for c, t in tau.items() if c[:-1] == u), default=0.0)
                    tau[u] = rng.exponential() + (below if subject.after_children else 0.0)
                order = sorted(old, key=tau.__getitem__)
            clean = len(marked - old)
            gone = [u for u in order if subject.marked_too or u not in marked][:clean]
            misses += v not in old or v in gone
            marked.add(v)
    return misses


CLAIM = Claim(
    id="6",
    title="Clocks and thinning are RLT in law",
    statement=(
        "With an Exp(1) gap on every unit and τ_v the gap of v after the last τ of its old "
        "children, the old units that RLT has evicted are the c smallest τ of O \\ T, c the number "
        "of clean units since the phase began: their law depends on (O, T) only. The driver, which "
        "draws unmarked leaf edges from a list, has the law of RLT."
    ),
    latex=r"\tau_v = g_v + \max_{c \in \mathrm{children}(v) \cap O} \tau_c,\quad "
    r"O \setminus S = \text{the } |T \setminus O| \text{ smallest } \tau \text{ of } O \setminus T",
    source="new here; memorylessness",
    assumptions="oblivious adversary; equal miss costs, forced admission; token phases; batch 1",
    method="exact rational: the clocks' density integrated over every order, all draws of the "
    "driver enumerated; statistical on a large case, error probability 1e-6",
    scope=(
        "clocks: forests of at most 5 units; driver: 10 random cases and those of "
        "160 where it matters when phases begin; 200 runs of 300 queries",
        "clocks: forests of at most 6 units; driver: 50 random cases and those of "
        "800 where it matters when phases begin; 1,000 runs of 300 queries",
    ),
    seconds=(10, 120),
    subject=Subject(),
    check=check,
    drawn=_on_a_large_case,
    mutants=(
        Mutant("clocks of parents run at once", Subject(after_children=False)),
        Mutant("marked units go too", Subject(marked_too=True)),
        Mutant("the driver begins phases between queries", Subject(driver=lambda: RLT("query"))),
    ),
)
