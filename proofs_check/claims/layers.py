"""Claim 16: the offset function is layered, and layered policies are at most k."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kvtheory.instance import Instance
from kvtheory.layers import Layers
from kvtheory.offline.layers import optimum_over_time
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.ratios import unit_paths


class Frozen(Layers):
    """Layers that a query changes only if some unit of it is outside the support."""

    def serve(self, path: Sequence[int]) -> tuple[int, Self]:
        """Serve, and forget hits."""
        increase, after = super().serve(path)
        inside = all(self.support >> unit & 1 for unit in path)
        return increase, self if inside else after


class NoOutside(Layers):
    """Layers whose rank formula leaves out the units outside the support."""

    def _excess(self, closed: int) -> list[int]:
        return [0, *super()._excess(closed)[1:]]


@dataclass(frozen=True)
class Subject:
    """The layers, and what is taken off the width."""

    layers: type[Layers] = Layers
    less: int = 0
    first_over_full: bool = True


def check(subject: Subject, task: Task) -> str:
    """Every state that any sequence reaches: values, increases, and all moves of a policy."""
    pairs = states = moves = 0
    for parents, capacity in forests.small_pairs(task.pick(6, 7)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        where = f"parents {list(parents)}, B = {capacity}"
        work, masks = forests.WorkFunction(parents, capacity), forests.path_masks(parents)
        paths, k = forests.paths_of(parents), forests.width(parents, capacity) - subject.less
        start = (subject.layers.init(capacity), work.start)
        todo = [start]
        came: dict[tuple[Layers, tuple[int, ...]], tuple[int, ...]] = {start: ()}
        bases = {work.start: _bases(work.caches, work.start)}
        for layers, w in todo:
            queries = came[layers, w]
            if any(layers.offset(s) != x for s, x in zip(work.caches, w, strict=True)):
                raise _refuted(parents, capacity, queries, "the rank formula is not w − OPT")
            for q, path in enumerate(paths):
                increase, then = work.after(w, masks[q])
                raised, after = layers.serve(path)
                if raised != increase or layers.offset(masks[q]) != increase:
                    raise _refuted(
                        parents,
                        capacity,
                        (*queries, q),
                        f"OPT rises by {increase}, the layers say {raised}, the rank formula "
                        f"{layers.offset(masks[q])}",
                    )
                if (after, then) not in came:
                    came[after, then] = (*queries, q)
                    todo.append((after, then))
                if then not in bases:
                    bases[then] = _bases(work.caches, then)
                moves += _check_potential(
                    subject, parents, bases, (w, then), after, masks[q], k * increase, where
                )
        pairs += 1
        states += len(todo)
    on_traces = _online_optimum(task)
    return (
        f"{pairs} pairs, {states:,} states of layers and work function; {moves:,} moves of layered "
        f"policies; the online optimum of {on_traces} random sequences"
    )


def _check_potential(
    subject: Subject,
    parents: forests.Parents,
    bases: dict[tuple[int, ...], list[int]],
    function: tuple[tuple[int, ...], tuple[int, ...]],
    after: Layers,
    path: int,
    allowed: int,
    where: str,
) -> int:
    """Misses + ΔU <= |Rev \\ Rev'| <= k·ΔOPT on every move, U = B − |Rev|; and S' is valid."""
    before, later = (bases[w] for w in function)
    rev, rev_later = _meet(before), _meet(later)
    lost = (rev & ~rev_later).bit_count()
    if lost > allowed:
        raise Refuted(f"{where}: {lost} units are no longer in every valid cache, not {allowed}")
    valid, moves = set(later), 0
    for s in before:
        misses = (path & ~s).bit_count()
        if misses + rev.bit_count() - rev_later.bit_count() > lost:
            raise Refuted(f"{where}: {misses} misses are not paid for")
        for left in _evictions(subject, parents, after, s | path, path):
            moves += 1
            if left not in valid:
                raise Refuted(f"{where}: the cache {forests.members(left)} is not valid")
    return moves


def _bases(caches: list[int], w: tuple[int, ...]) -> list[int]:
    """The valid caches that hold as much as any: those that a policy can have."""
    valid = [s for s, x in zip(caches, w, strict=True) if x == 0]
    most = max(s.bit_count() for s in valid)
    return [s for s in valid if s.bit_count() == most]


def _meet(sets: list[int]) -> int:
    common = -1
    for s in sets:
        common &= s
    return common


def _evictions(
    subject: Subject, parents: forests.Parents, layers: Layers, held: int, path: int
) -> Iterator[int]:
    """All caches that leaves of the first over-full prefix, one after the other, may leave."""
    todo = {held}
    while todo:
        cached = todo.pop()
        if cached.bit_count() <= layers.capacity:
            yield cached
            continue
        i = layers.over_full(cached)
        assert i is not None, "more units than the cache holds are not valid"
        among = layers.prefix(i) if subject.first_over_full else -1
        leaves = forests.leaves_in(parents, cached) & among & ~path
        if not leaves:
            raise Refuted(f"parents {list(parents)}: the over-full prefix has no leaf")
        todo |= {cached & ~(1 << u) for u in forests.members(leaves)}


def _online_optimum(task: Task) -> int:
    """The pass on compressed edges, in the driver's arrays, against the dynamic program."""
    cases, rng = task.pick(40, 400), np.random.default_rng(16)
    pairs = [p for p in forests.small_pairs(6, 5) if max(map(len, forests.paths_of(p[0]))) > 1]
    for case in range(cases):
        task.tell(f"online optimum, case {case}")
        parents, capacity = pairs[rng.integers(len(pairs))]
        queries = rng.integers(0, len(parents), 30).tolist()
        work, masks = forests.WorkFunction(parents, capacity), forests.path_masks(parents)
        requests = [unit_paths(parents)[q] for q in queries]
        online = optimum_over_time(Instance.from_tokens(requests), capacity)
        w, least = work.start, 0
        for t, q in enumerate(queries):
            increase, w = work.after(w, masks[q])
            least += increase
            if online[t] != least:
                shows = f"the layers say {online[t]} after {t + 1} queries, the optimum is {least}"
                raise _refuted(parents, capacity, tuple(queries[: t + 1]), shows)
    return cases


def _refuted(
    parents: forests.Parents, capacity: int, queries: tuple[int, ...], shows: str
) -> Refuted:
    requests = [unit_paths(parents)[q] for q in queries]
    return Refuted(
        f"parents {list(parents)}, B = {capacity}, queries {list(queries)}: {shows}",
        Counterexample(requests, capacity, shows),
    )


CLAIM = Claim(
    id="16",
    title="The offset function is layered",
    statement=(
        "w_t(S) − OPT_t = max over i of |S ∩ (L_0 ∪ … ∪ L_i)| − i for the layers of section 2, and "
        "a query raises OPT by that of its path. Whatever leaf of the first over-full prefix a "
        "policy evicts, its cache stays valid, and with U = B − |Rev|, Rev the units of every "
        "valid cache, misses + ΔU <= |Rev \\ Rev'| <= k·ΔOPT: it is at most k-competitive."
    ),
    latex=r"w_t(S) - \mathrm{OPT}_t = \max_{0 \le i \le B} |S \cap (L_0 \cup \dots \cup L_i)| - i,"
    r"\qquad \mathrm{misses} + \Delta U \le |\mathrm{Rev} \setminus \mathrm{Rev}'| \le k\,"
    r"\Delta\mathrm{OPT}",
    source="paging: Koutsoupias and Papadimitriou 2000; trees: new here",
    assumptions="any adversary; equal miss costs, forced admission; batch 1",
    method="exhaustive against the dynamic program over caches; potential on every transition",
    scope=(
        "every forest of at most 6 units, every B (191 pairs), sequences of any length",
        "every forest of at most 7 units, every B (571 pairs), sequences of any length",
    ),
    seconds=(10, 600),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("hits do not move to the newest layers", Subject(Frozen)),
        Mutant("units outside the support do not count", Subject(NoOutside)),
        Mutant("k − 1", Subject(less=1)),
        Mutant("victims from anywhere", Subject(first_over_full=False)),
    ),
)
