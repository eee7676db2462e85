"""The tree of all request histories of a length, up to symmetry, with laws of the cache on it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kvtheory.ratio.exact_engine.forest import Forest, moved
from kvtheory.ratio.exact_engine.symmetry import Symmetry
from kvtheory.ratio.exact_engine.work_function import WorkFunctions


class Kind:
    """What histories have in common that have the same caches and the same symmetries.

    Parameters
    ----------
    caches
        The caches that may be there, as sets.
    group
        Numbers of the permutations that keep the start and the history.
    symmetry
        What the numbers mean.

    Attributes
    ----------
    orbit_of
        Orbit of each cache under the group: by averaging, the best law is even on each.
    size
        Caches in each orbit.
    """

    def __init__(self, caches: tuple[int, ...], group: np.ndarray, symmetry: Symmetry) -> None:
        self.caches, self.group = caches, group
        orbits = {s: min(moved(s, symmetry.as_tuples[g]) for g in group) for s in caches}
        names = {first: i for i, first in enumerate(sorted(set(orbits.values())))}
        self.orbit_of = {s: names[first] for s, first in orbits.items()}
        self.size = np.bincount(list(self.orbit_of.values()))

    @property
    def orbits(self) -> int:
        """Number of orbits of caches."""
        return len(self.size)


@dataclass(frozen=True)
class Step:
    """A query after histories of one kind, and what may be done about it.

    Attributes
    ----------
    query
        Place of the query; one of each orbit under the group of the kind.
    child
        Number of the kind afterwards.
    miss
        float64[orbits]; misses per unit of probability of each orbit of caches.
    source
        (row, orbit before, share) of what flows out: a row for each orbit of caches under the
        group that keeps the query too.
    flow
        (row, orbit after) of each way to go: mass that leaves a row and enters an orbit.
    """

    query: int
    child: int
    miss: np.ndarray
    source: tuple[np.ndarray, np.ndarray, np.ndarray]
    flow: tuple[np.ndarray, np.ndarray]


class Kinds:
    """All kinds that histories from a start have, found as they are asked for."""

    def __init__(
        self, forest: Forest, capacity: int, queries: Sequence[int], start: int, fold: bool
    ) -> None:
        self.forest, self.capacity, self.queries = forest, capacity, queries
        self.symmetry = Symmetry(forest, queries, **({} if fold else {"most": 1}))
        self.kinds: list[Kind] = []
        self._number: dict[tuple[tuple[int, ...], bytes], int] = {}
        self._steps: dict[int, list[Step]] = {}
        self._closed = set(forest.closed_sets(capacity))
        keeps = [moved(start, p) == start for p in self.symmetry.as_tuples]
        self.number((start,), np.flatnonzero(keeps))

    def number(self, caches: tuple[int, ...], group: np.ndarray) -> int:
        """The number of a kind."""
        key = (caches, group.tobytes())
        number = self._number.setdefault(key, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(Kind(caches, group, self.symmetry))
        return number

    def steps(self, number: int) -> list[Step]:
        """One step for each orbit of queries after histories of a kind."""
        if number not in self._steps:
            group = self.symmetry.permutations[self.kinds[number].group]
            firsts = sorted({int(group[:, q].min()) for q in self.queries})
            self._steps[number] = [self._step(number, q) for q in firsts]
        return self._steps[number]

    def _step(self, number: int, query: int) -> Step:
        kind, path = self.kinds[number], self.forest.path_mask(query)
        ways = [(s, then) for s in kind.caches for then in self._after(s | path, path)]
        group = kind.group[self.symmetry.permutations[kind.group, query] == query]
        child = self.number(tuple(sorted({then for _, then in ways})), group)
        after, before = self.kinds[child], Kind(kind.caches, group, self.symmetry)
        miss = np.zeros(kind.orbits)
        for s, o in kind.orbit_of.items():
            miss[o] += (path & ~s).bit_count() / kind.size[o]
        row, orbit = zip(
            *((before.orbit_of[s], kind.orbit_of[s]) for s in kind.caches), strict=True
        )
        source, share = np.unique(np.array([row, orbit]), axis=1, return_counts=True)
        # ways that a permutation maps to each other carry the same mass; more of them between the
        # same two orbits are no more than one
        flow = np.unique([(before.orbit_of[s], after.orbit_of[then]) for s, then in ways], axis=0)
        return Step(
            query=self.queries.index(query),
            child=child,
            miss=miss,
            source=(source[0], source[1], share / kind.size[source[1]]),
            flow=(flow[:, 0], flow[:, 1]),
        )

    def _after(self, union: int, path: int) -> list[int]:
        # what is dropped without need can be dropped later, so nothing is
        size = min(self.capacity, union.bit_count())
        return [
            s for s in self._closed if s.bit_count() == size and s & ~union == 0 and path & ~s == 0
        ]


@dataclass(frozen=True)
class Level:
    """The histories of one length.

    Attributes
    ----------
    kind
        The kind of each.
    before
        Its place in the level above, one query shorter.
    step
        Which of the steps of the kind before led here.
    query
        Place of its last query.
    optimum
        OPT of it.
    """

    kind: np.ndarray
    before: np.ndarray
    step: np.ndarray
    query: np.ndarray
    optimum: np.ndarray

    def groups(self, above: "Level") -> Iterator[tuple[int, int, np.ndarray]]:
        """Kind before, step, and the histories that were reached by it, for each step."""
        steps = np.int64(1 << 20)
        code = above.kind[self.before] * steps + self.step
        order = np.argsort(code, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            kind, step = divmod(int(code[some[0]]), int(steps))
            yield kind, step, some


def count_histories(kinds: Kinds, horizon: int) -> int:
    """Histories of all lengths up to T, one of each orbit, without listing them."""
    now = {0: 1}
    total = 1
    for _ in range(horizon):
        then: dict[int, int] = {}
        for kind, many in now.items():
            for step in kinds.steps(kind):
                then[step.child] = then.get(step.child, 0) + many
        now = then
        total += sum(now.values())
    return total


def levels_of(kinds: Kinds, horizon: int) -> list[Level]:
    """All histories of up to T queries, one of each orbit, by length."""
    zero = np.zeros(1, np.int64)
    levels = [Level(zero, zero - 1, zero - 1, zero - 1, zero)]
    work = WorkFunctions(kinds.forest, kinds.capacity, kinds.queries)
    start = kinds.kinds[0].caches[0]
    w = work.number(np.array([[(s & ~start).bit_count() for s in work.sets]]))
    for _ in range(horizon):
        last = levels[-1]
        parts = []
        for k in np.unique(last.kind).tolist():
            before = np.flatnonzero(last.kind == k)
            for i, step in enumerate(kinds.steps(k)):
                same = [np.full(len(before), v) for v in (step.child, i, step.query)]
                parts.append(np.stack([before, *same]))
        before, kind, place, query = np.concatenate(parts, axis=1)
        after, increase = work.after(w[before])
        every = np.arange(len(before))
        optimum = last.optimum[before] + increase[every, query]
        levels.append(Level(kind, before, place, query, optimum))
        w = after[every, query]
    return levels
