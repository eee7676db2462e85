"""Claims 15 and 15b: the phase rule with the path kept, and as the paper has it."""

from collections.abc import Iterator
from dataclasses import dataclass

from kvtheory.instance import Instance
from kvtheory.testing.exact_states import Marked
from kvtheory.testing.law import Replay
from kvtheory.testing.twin_cache import Record, Unit
from kvtheory.testing.twins_random import TokenPhases
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.ratios import unit_paths


class Literal(TokenPhases):
    """The rule as the paper has it: a new phase keeps the most recent token only."""

    def begin_phase(self, above: list[Unit]) -> None:
        """Clear all marks; the unit that is visited gets its own."""
        self.marked = set()

    def victim_for(self, v: Unit) -> Record:
        """An unmarked leaf that the query does not need."""
        return self.draw([r for r in self.unmarked_leaves() if r.unit != v[: r.depth]])


class Root(TokenPhases):
    """A new phase keeps the first unit of the path only."""

    def begin_phase(self, above: list[Unit]) -> None:
        """Clear all marks but that of the root."""
        self.marked = set(above[:1])

    victim_for = Literal.victim_for


@dataclass(frozen=True)
class Subject:
    """The phase rule."""

    phases: type[TokenPhases] = TokenPhases


def check(subject: Subject, task: Task) -> str:
    """Every state that can be reached, whatever is asked for and whatever is drawn."""
    pairs = states = 0
    for parents, capacity in forests.small_pairs(task.pick(5, 6)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        paths = unit_paths(parents)
        kind = Marked(subject.phases, paths, capacity)
        todo: list[tuple[frozenset[int], frozenset[int]]] = [kind.start]
        came: dict[object, tuple[object, int] | None] = {kind.start: None}
        for state in todo:
            for q in range(len(parents)):
                try:
                    reached = list(_outcomes(kind, state, q))
                except RuntimeError as stall:
                    queries = [q]
                    at = came[state]
                    while at is not None:
                        queries.append(at[1])
                        at = came[at[0]]
                    requests = [paths[u] for u in reversed(queries)]
                    raise _stalls(requests, capacity, str(stall)) from None
                for after in reached:
                    if after not in came:
                        came[after] = (state, q)
                        todo.append(after)
                        _check_marks(parents, capacity, *after)
        pairs += 1
        states += len(todo)
    return f"{pairs} pairs, {states:,} states of cache and marks, every query and every draw"


def _outcomes(
    kind: Marked, state: tuple[frozenset[int], frozenset[int]], query: int
) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    scripts: list[list[int]] = [[]]
    while scripts:
        replay = Replay(scripts.pop())
        yield kind.serve(state, query, replay.choose)[1]
        scripts += replay.others


def _check_marks(
    parents: forests.Parents, capacity: int, cached: frozenset[int], marked: frozenset[int]
) -> None:
    closed = all(parents[u] < 0 or parents[u] in marked for u in marked)
    if not (closed and marked <= cached and len(cached) <= capacity):
        raise Refuted(
            f"parents {list(parents)}, B = {capacity}: marks {sorted(marked)} of the cache "
            f"{sorted(cached)} are not closed"
        )


def never_stalls(subject: Subject, task: Task) -> str:
    """Shortest sequences first, by rounds over the states of cache and marks."""
    pairs = 0
    for parents, capacity in forests.small_pairs(task.pick(4, 5)):
        paths = unit_paths(parents)
        kind = Marked(subject.phases, paths, capacity)
        level = {kind.start: ()}
        seen = set(level)
        while level:
            then: dict[tuple[frozenset[int], frozenset[int]], tuple[int, ...]] = {}
            for state, queries in level.items():
                for q in range(len(parents)):
                    try:
                        reached = list(_outcomes(kind, state, q))
                    except RuntimeError as stall:
                        requests = [paths[u] for u in (*queries, q)]
                        raise _stalls(requests, capacity, str(stall)) from None
                    for after in reached:
                        if after not in seen:
                            seen.add(after)
                            then[after] = (*queries, q)
            level = then
        pairs += 1
    return f"{pairs} pairs, every query and every draw"


def _stalls(requests: list[list[int]], capacity: int, why: str) -> Refuted:
    from kvtheory.eviction import policy
    from kvtheory.testing.small_driver import run_small

    replayed = {
        name: run_small(policy(name), Instance.from_tokens(requests), capacity).hits.tolist()
        for name in ("rlt",)
    }
    return Refuted(
        f"B = {capacity}, queries {requests}: {why}",
        Counterexample(requests, capacity, "no unmarked leaf unit is left", replayed=replayed),
    )


KEPT = Claim(
    id="15",
    title="With the path kept, RLT never stalls",
    statement=(
        "If a new phase keeps the marks of the path above the unit that begins it, then whenever "
        "RLT needs room there is an unmarked leaf unit, and the marked units are always cached "
        "and closed under ancestors. (Marked units are ancestor-closed, so what lies below an "
        "unmarked unit is unmarked; while |T| < B = |S| there is an unmarked unit, and below it "
        "an unmarked leaf.)"
    ),
    latex=r"|S| = B,\ v \notin S \;\Rightarrow\; \exists\, u \in S \setminus T "
    r"\text{ without a child in } S",
    source="repair of Wu, Silwal and Zhang 2026: new here",
    assumptions="any adversary, any coins; forced admission; token phases; batch 1",
    method="exhaustive: every state that any sequence and any draws reach",
    scope=(
        "every forest of at most 5 units, every B (61 pairs), sequences of any length",
        "every forest of at most 6 units, every B (191 pairs), sequences of any length",
    ),
    seconds=(1, 240),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("only the most recent token is kept", Subject(Literal)),
        Mutant("only the root of the path is kept", Subject(Root)),
    ),
)

LITERAL = Claim(
    id="15b",
    title="The paper's literal phase rule never stalls",
    statement=(
        "RLT that keeps only the most recent token at a phase change always finds an unmarked leaf "
        "unit when it needs room."
    ),
    latex=r"T \leftarrow \{v\} \text{ at a phase change} \;\Rightarrow\; \text{RLT never stalls}",
    source="Wu, Silwal and Zhang 2026, read literally",
    assumptions="any adversary, any coins; forced admission; batch 1",
    method="exhaustive search for the smallest counterexample",
    scope=(
        "every forest of at most 4 units, every B, sequences of any length",
        "every forest of at most 5 units, every B, sequences of any length",
    ),
    seconds=(2, 20),
    subject=Subject(Literal),
    check=never_stalls,
    mutants=(Mutant("the path is kept", Subject()),),
    expected="refuted",
)
