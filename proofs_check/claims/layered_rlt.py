"""Claims 17 to 17d: LRLT, with stems and without."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from kvtheory.eviction import LRLT
from kvtheory.ratio.best_randomised import best_randomised
from kvtheory.ratio.exact_engine import Beliefs
from kvtheory.testing import TWINS, law
from kvtheory.testing.driver_law import driver_law
from kvtheory.testing.small_cases import random_cases
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task, Undecided
from proofs_check.judge import forests
from proofs_check.ratios import Parents, fraction, ratio, unit_paths

STEMS = "lrlt:stem=true"
WORST_STEMS: tuple[Parents, int] = ((-1, -1, -1, -1, 0, 1, 2), 5)


@dataclass(frozen=True)
class Subject:
    """A policy, what the bound is multiplied by, and whether the driver's has stems."""

    policy: str | Beliefs = STEMS
    factor: Fraction = Fraction(1)
    stem: bool = True


def bound_of(subject: Subject, parents: Parents, capacity: int) -> Fraction:
    """The factor times H_k."""
    return subject.factor * forests.harmonic(forests.width(parents, capacity))


def table(subject: Subject, task: Task) -> str:
    """LRLT with stems has H_k everywhere; how LRLT, RLT and leaf LRU compare."""
    laws = _driver(subject, task)
    pairs, above, worst = 0, 0, (Fraction(0), ())
    for parents, capacity in forests.small_pairs(6):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        where = f"parents {list(parents)}, B = {capacity}"
        h = bound_of(subject, parents, capacity)
        literally = task.full or len(parents) < 6
        stems, plain = (
            fraction(p, parents, capacity, literally=literally) for p in (subject.policy, "lrlt")
        )
        if stems != h:
            raise Refuted(f"{where}: {subject.policy} has {stems}, not {h}")
        assert plain is not None
        for other in ("llru", "rlt"):
            theirs = fraction(other, parents, capacity, literally=literally)
            if theirs is None or plain > theirs or stems > theirs:
                raise Refuted(f"{where}: {other} has {theirs}, LRLT {plain} and {stems}")
        if plain > h:
            above += 1
            fraction("lrlt", parents, capacity)  # with its proof
            worst = max(worst, (plain / h, (parents, capacity)))
            task.tell(f"linear program: {where}")
            if best_randomised(parents, capacity, 2).ratio > h + Fraction(1, 10**6):
                raise Refuted(f"{where}: no algorithm has {h}")
        pairs += 1
    if (above, worst[0]) != (8, Fraction(25, 24)):
        raise Refuted(f"LRLT is above H_k on {above} pairs, at most {worst[0]} times")
    return (
        f"{pairs} pairs: with stems H_k on all, LRLT on {pairs - above} (elsewhere at most "
        f"{worst[0]}·H_k), neither above L-LRU or RLT; {laws} laws of the driver"
    )


def _driver(subject: Subject, task: Task) -> int:
    """The laws of the two policies in the driver against literal twins."""
    laws = 0
    plain, stems = (partial(TWINS["lrlt"], stem=stem) for stem in (False, True))
    for i, case in enumerate(random_cases(task.pick(120, 600), 17, units=10, requests=13)):
        task.tell(f"law of the driver, {laws}")
        literally = [law(twin, case.sequences, case.capacity) for twin in (plain, stems)]
        if i >= task.pick(15, 60) and literally[0] == literally[1]:
            continue  # beyond the first ones, those where stems matter
        for driver, literal in zip((LRLT(), LRLT(stem=subject.stem)), literally, strict=True):
            if driver_law(driver, case.sequences, case.capacity) != literal:
                shows = "the laws of the hits differ"
                raise Refuted(
                    f"{driver}: {shows}: {case}",
                    Counterexample(case.sequences, case.capacity, shows),
                )
            laws += 1
    return laws


def at_most(subject: Subject, task: Task) -> str:
    """Smallest forests first: is the ratio at most the bound?"""
    pairs = 0
    for parents, capacity in (*forests.small_pairs(task.pick(5, 6)), WORST_STEMS):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        found, h = fraction(subject.policy, parents, capacity), bound_of(subject, parents, capacity)
        if found is None or found > h:
            worst = ratio(subject.policy, parents, capacity)
            requests = [unit_paths(parents)[q] for q in (*worst.prefix, *worst.cycle)]
            shows = f"the ratio of {subject.policy} is {found}, above {h}"
            raise Refuted(
                f"parents {list(parents)}, B = {capacity}: {shows}",
                Counterexample(
                    requests,
                    capacity,
                    f"{shows}; the last {len(worst.cycle)} queries are a cycle",
                    {
                        "expected misses a cycle": worst.cycle_cost,
                        "optimum a cycle": worst.cycle_optimum,
                    },
                ),
            )
        pairs += 1
    return f"{pairs} pairs"


def stars(subject: Subject, task: Task) -> str:
    """Flat paging: every star whose states fit."""
    seen = []
    for leaves in range(2, task.pick(6, 7) + 1):
        for capacity in range(1, leaves):
            if leaves == 7 and capacity == 4:
                continue
            task.tell(f"{leaves} leaves, B = {capacity}")
            found = fraction(subject.policy, (-1,) * leaves, capacity)
            h = bound_of(subject, (-1,) * leaves, capacity)
            if found != h:
                raise Refuted(f"star of {leaves}, B = {capacity}: the ratio is {found}, not {h}")
            seen.append((leaves, capacity))
    raise Undecided(f"H_k on {len(seen)} stars of at most {seen[-1][0]} leaves; no proof known")


_ASSUMED = (
    "oblivious adversary, any node may be asked for; equal miss costs, forced admission; batch 1"
)

TABLE = Claim(
    id="17",
    title="LRLT with stems is H_k on small trees",
    statement=(
        "On all 191 pairs of a forest of at most 6 units and a capacity LRLT with stems has the "
        "ratio H_k, which no algorithm beats. LRLT has it on 183 and at most 25/24 of it on the 8 "
        "others; neither is ever above leaf LRU or RLT."
    ),
    latex=r"\mathrm{ratio}(\text{LRLT with stems}) = H_k \text{ on 191 of 191 pairs},\quad "
    r"\mathrm{ratio}(\mathrm{LRLT}) = H_k \text{ on 183}",
    source="new here",
    assumptions=_ASSUMED,
    method="exact rational: ratios with potentials, checked by literal rules; all draws of the "
    "driver enumerated; LP of two queries",
    scope=(
        "every forest of at most 6 units, every B (191 pairs), proofs checked literally up to 5 "
        "units and where LRLT is above; laws of the driver on 15 random cases and on those of 120 "
        "where stems matter",
        "the same, all proofs checked literally; the driver on 60 random cases and on those of "
        "600 where stems matter",
    ),
    seconds=(25, 60),
    subject=Subject(),
    check=table,
    mutants=(
        Mutant("no stems", Subject("lrlt")),
        Mutant("RLT", Subject("rlt")),
        Mutant("the driver has no stems", Subject(stem=False)),
    ),
)

PLAIN = Claim(
    id="17b",
    title="LRLT is at most H_k",
    statement="LRLT, without stems, has a ratio of at most H_k on every tree.",
    latex=r"\mathrm{ratio}(\mathrm{LRLT}) \le H_k",
    source="new here",
    assumptions=_ASSUMED,
    method="exact rational, smallest forests first; the cycle checked by literal rules",
    scope=("every forest of at most 5 units", "every forest of at most 6 units"),
    seconds=(3, 20),
    subject=Subject("lrlt"),
    check=at_most,
    mutants=(Mutant("a bound that is 25/24 of it", Subject("lrlt", Fraction(25, 24))),),
    expected="refuted",
)

ALL_STEMS = Claim(
    id="17c",
    title="LRLT with stems is at most H_k on every tree",
    statement="LRLT with stems has a ratio of at most H_k on every tree.",
    latex=r"\mathrm{ratio}(\text{LRLT with stems}) \le H_k",
    source="new here",
    assumptions=_ASSUMED,
    method="exact rational; the cycle checked by literal rules",
    scope=(
        "every forest of at most 5 units, and one of 7",
        "every forest of at most 6 units, and one of 7",
    ),
    seconds=(4, 30),
    subject=Subject(),
    check=at_most,
    mutants=(Mutant("a bound that is 91/88 of it", Subject(factor=Fraction(91, 88))),),
    expected="refuted",
)

STARS = Claim(
    id="17d",
    title="LRLT is H_k in flat paging",
    statement="On every star LRLT has the ratio H_k for k = B: uniform eviction from the first "
    "over-full prefix of layers is an optimal randomised paging algorithm.",
    latex=r"\mathrm{ratio}(\mathrm{LRLT}) = H_B \text{ on stars}",
    source="new here; with fixed priorities: Brodal, Moruz and Negoescu 2015",
    assumptions=_ASSUMED,
    method="exact rational on finitely many stars, each with a potential checked by literal rules",
    scope=("stars of at most 6 leaves, every B", "stars of at most 7 leaves, every B but (7, 4)"),
    seconds=(1, 120),
    subject=Subject("lrlt"),
    check=stars,
    mutants=(Mutant("RLT", Subject("rlt")), Mutant("leaf LRU", Subject("llru"))),
    expected="open",
)
