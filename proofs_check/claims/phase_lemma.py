"""Claim 5: the optimum pays for half of the clean units."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from kvtheory.ratio.exact_engine import Forest
from kvtheory.ratio.exact_engine.rlt import TokenPhases
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.judge.longest import Move, most_gained
from proofs_check.ratios import unit_paths

Phase = tuple[int, int]  # cached when the phase began, and marked, as sets
State = tuple[Phase, tuple[int, ...]]


@dataclass(frozen=True)
class Subject:
    """How many clean units the optimum pays for, and how full T is when a phase ends."""

    share: Fraction = Fraction(1, 2)
    short: int = 0
    model: Callable[[Forest, int], TokenPhases] = TokenPhases


class EarlyPhases(TokenPhases):
    """A phase begins when one unit fewer is marked."""

    def __init__(self, forest: Forest, capacity: int) -> None:
        super().__init__(forest, max(1, capacity - 1))


def phases(capacity: int, at: Phase, path: tuple[int, ...]) -> tuple[int, Phase]:
    """Clean units that a query marks, and the phase after it, by the text."""
    old, marked = at
    clean, above = 0, 0
    for v in path:
        if not marked >> v & 1:
            if marked.bit_count() == capacity:
                old, marked = marked, above
            clean += not old >> v & 1
            marked |= 1 << v
        above |= 1 << v
    return clean, (old, marked)


def check(subject: Subject, task: Task) -> str:
    """share·Σ clean − OPT over request sequences of every length."""
    pairs = states = 0
    for parents, capacity in forests.small_pairs(task.pick(5, 6)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        start, moves = _graph(subject, parents, capacity)
        gained, sequence, size = most_gained(start, moves)
        if sequence is not None:
            requests = [unit_paths(parents)[q] for q in sequence]
            shows = f"OPT is {gained} less than {subject.share} of the clean units"
            raise Refuted(
                f"parents {list(parents)}, B = {capacity}, queries {sequence}: {shows}",
                Counterexample(requests, capacity, shows),
            )
        pairs += 1
        states += size
    return f"{pairs} pairs, {states:,} states of phase and work function, sequences of any length"


def _graph(
    subject: Subject, parents: forests.Parents, capacity: int
) -> tuple[State, Callable[[State], Iterator[Move]]]:
    """The start, and what each query gains: its share of clean units less the rise of OPT."""
    work, masks = forests.WorkFunction(parents, capacity), forests.path_masks(parents)
    paths = forests.paths_of(parents)
    model = subject.model(Forest(parents), capacity)

    def moves(at: State) -> Iterator[Move]:
        phase, w = at
        for q, path in enumerate(paths):
            clean, then = phases(capacity - subject.short, phase, path)
            if model.belief_step(phase, q)[1] != then:
                raise Refuted(f"parents {list(parents)}, B = {capacity}: the phases differ")
            increase, after = work.after(w, masks[q])
            yield q, subject.share * clean - increase, (then, after)

    return ((0, 0), work.start), moves


CLAIM = Claim(
    id="5",
    title="Phase lemma: OPT pays half the clean units",
    statement=(
        "On every request sequence from an empty cache the optimum is at least half of the number "
        "of clean units of all token phases, those that are asked for and were not cached when "
        "their phase began."
    ),
    latex=r"\mathrm{OPT} \ge \tfrac12 \sum_{\text{phases } i} |T_i \setminus O_i|",
    source="star: Fiat et al. 1991; trees: Wu, Silwal and Zhang 2026",
    assumptions="any adversary; equal miss costs, forced admission, empty caches; batch 1",
    method="exhaustive: longest paths in the graph of (phase, work function), in rationals",
    scope=(
        "every forest of at most 5 units, every B (61 pairs), sequences of any length",
        "every forest of at most 6 units, every B (191 pairs), sequences of any length",
    ),
    seconds=(1, 60),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("OPT pays for all clean units", Subject(share=Fraction(1))),
        Mutant("OPT pays for two thirds", Subject(share=Fraction(2, 3))),
        Mutant("a phase ends one unit early", Subject(short=1, model=EarlyPhases)),
    ),
)
