"""Literal states of policies for exact checks: what a twin is, detached from time.

A state is a hashable value. It is made from a twin and a twin from it, so that one query can be
served from any state by the rule as the text has it. Units are named by their last token.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, cast

from kvtheory.errors import unknown
from kvtheory.testing.law import Replay
from kvtheory.testing.twin_cache import Record, UnitTwin, path_of
from kvtheory.testing.twins_deterministic import FIFO, LFU, LLRU, MRU, SLRU, KeyTwin
from kvtheory.testing.twins_layered import Layered as LayeredTwin
from kvtheory.testing.twins_layered import Victim
from kvtheory.testing.twins_random import (
    Choose,
    PublishedPhases,
    QueryPhases,
    RandomLeaf,
    TokenPhases,
)

Paths = Sequence[Sequence[int]]  # the tokens of the query that ends at each unit
LATER = 1_000_000


class States(Protocol):
    """A policy as a rule on states."""

    start: Any

    def serve(self, state: Any, query: int, choose: Choose) -> tuple[int, Any]:
        """Misses and the state after serving a query; draws go through ``choose``."""
        ...

    def renamed(self, state: Any, permutation: Sequence[int]) -> Any:
        """The state with unit u renamed ``permutation[u]``."""
        ...


class CappedLFU(LFU):
    """LFU whose counts stop at ``cap``."""

    cap = 3

    def key(self, record: Record) -> int:
        """The count, capped."""
        return min(record.count, self.cap)


class Records:
    """States of the policies with a key per unit: (unit, rank in time, count) of what is cached.

    Parameters
    ----------
    twin
        Makes the twin at a capacity.
    paths, capacity
        The queries and B.
    by_load
        Whether the time is that of loading and not that of the last use. Units loaded together
        lie on one path, where the last uses never favour the deeper one: none is needed.
    cap
        Counts from here on are alike.
    """

    def __init__(
        self,
        twin: Callable[[int], KeyTwin],
        paths: Paths,
        capacity: int,
        *,
        by_load: bool = False,
        cap: int = 1,
    ) -> None:
        self.twin, self.paths, self.capacity = twin, paths, capacity
        self.by_load, self.cap = by_load, cap
        self.start = frozenset[tuple[int, int, int]]()

    def serve(
        self, state: frozenset[tuple[int, int, int]], query: int, choose: Choose
    ) -> tuple[int, frozenset[tuple[int, int, int]]]:
        """Serve from a state."""
        twin = self.twin(self.capacity)
        twin.now = LATER
        for u, time, count in sorted(state, key=lambda entry: len(self.paths[entry[0]])):
            twin.load(tuple(self.paths[u]))
            record = twin.records[tuple(self.paths[u])]
            record.loaded, record.last_use, record.count = time, time, count
        hits = twin.serve(self.paths[query])
        # the twins' ties go to the older, then to the deeper unit: one order
        oldest_first = sorted(
            twin.records.values(),
            key=lambda r: (r.loaded if self.by_load else r.last_use, -r.depth),
        )
        after = frozenset(
            (r.unit[-1], rank, min(r.count, self.cap)) for rank, r in enumerate(oldest_first)
        )
        return len(self.paths[query]) - hits, after

    def renamed(
        self, state: frozenset[tuple[int, int, int]], permutation: Sequence[int]
    ) -> frozenset[tuple[int, int, int]]:
        """Rename the units."""
        return frozenset((permutation[u], time, count) for u, time, count in state)


UnitSet = frozenset[int]


class Marked:
    """States of RLT: cached units and marked units.

    Parameters
    ----------
    phases
        Makes the twin, by the phase rule.
    paths, capacity
        The queries and B.
    """

    def __init__(
        self, phases: type[TokenPhases | QueryPhases], paths: Paths, capacity: int
    ) -> None:
        self.phases, self.paths, self.capacity = phases, paths, capacity
        self.start: tuple[UnitSet, UnitSet] = (frozenset(), frozenset())

    def serve(
        self, state: tuple[UnitSet, UnitSet], query: int, choose: Choose
    ) -> tuple[int, tuple[UnitSet, UnitSet]]:
        """Serve from a state."""
        twin = self.phases(self.capacity, choose=choose)
        fill(twin, state[0], self.paths)
        twin.marked = {tuple(self.paths[u]) for u in state[1]}
        hits = twin.serve(self.paths[query])
        marked = frozenset(unit[-1] for unit in twin.marked)
        return len(self.paths[query]) - hits, (contents(twin), marked)

    def renamed(
        self, state: tuple[UnitSet, UnitSet], permutation: Sequence[int]
    ) -> tuple[UnitSet, UnitSet]:
        """Rename the units."""
        return rename(state[0], permutation), rename(state[1], permutation)


class Unmarked(Marked):
    """States of random leaf eviction: cached units, and no marks."""

    def __init__(self, paths: Paths, capacity: int) -> None:
        super().__init__(TokenPhases, paths, capacity)

    def serve(
        self, state: tuple[UnitSet, UnitSet], query: int, choose: Choose
    ) -> tuple[int, tuple[UnitSet, UnitSet]]:
        """Serve from a state."""
        twin = RandomLeaf(self.capacity, choose=choose)
        fill(twin, state[0], self.paths)
        hits = twin.serve(self.paths[query])
        return len(self.paths[query]) - hits, (contents(twin), frozenset())


Order = tuple[int, ...]
LayeredState = tuple[UnitSet, tuple[UnitSet, ...], Order]


class Layered:
    """States of layered policies: cached units, layers, and an order of units if there is one.

    The order inside a layer makes no difference. The order of units is that of last use, the oldest
    first, or that of priority, drawn at the first query.
    """

    def __init__(self, paths: Paths, capacity: int, victim: str) -> None:
        self.paths, self.capacity, self.rule = paths, capacity, victim
        self.start: LayeredState = (frozenset(), (), ())

    def serve(self, state: LayeredState, query: int, choose: Choose) -> tuple[int, LayeredState]:
        """Serve from a state."""
        cached, layers, order = state
        victim: Victim = cast(Victim, self.rule)
        if self.rule == "priority":
            order = order or shuffled(len(self.paths), choose)
            rank = {u: i for i, u in enumerate(order)}
            victim = lambda record: rank[record.unit[-1]]  # noqa: E731
        twin = LayeredTwin(self.capacity, choose=choose, victim=victim)
        twin.now = LATER
        fill(twin, cached, self.paths)
        for record in twin.records.values():
            record.last_use = order.index(record.unit[-1]) if self.rule == "oldest" else 0
        for layer in layers:
            inside = sorted(layer, key=lambda u: (-len(self.paths[u]), u))
            twin.dividers.order += [tuple(self.paths[u]) for u in inside]
            twin.dividers.before.add(tuple(self.paths[inside[0]]))
        hits = twin.serve(self.paths[query])
        prefixes = [frozenset(unit[-1] for unit in prefix) for prefix in twin.dividers.prefixes()]
        layers = tuple(more - fewer for fewer, more in pairwise(prefixes))
        if self.rule == "oldest":
            by_use = sorted(twin.records.values(), key=lambda r: (r.last_use, -r.depth))
            order = tuple(record.unit[-1] for record in by_use)
        return len(self.paths[query]) - hits, (contents(twin), layers, order)

    def renamed(self, state: LayeredState, permutation: Sequence[int]) -> LayeredState:
        """Rename the units."""
        cached, layers, order = state
        return (
            rename(cached, permutation),
            tuple(rename(layer, permutation) for layer in layers),
            tuple(permutation[u] for u in order),
        )


class UniformCache(Layered):
    """States of the layered policy that draws one of the caches that its evictions may lead to."""

    def __init__(self, paths: Paths, capacity: int) -> None:
        super().__init__(paths, capacity, "uniform")

    def serve(self, state: LayeredState, query: int, choose: Choose) -> tuple[int, LayeredState]:
        """Serve from a state: follow every draw of a uniform victim, then draw a cache."""
        found, to_replay = set(), [list[int]()]
        while to_replay:
            replay = Replay(to_replay.pop())
            found.add(super().serve(state, query, replay.choose))
            to_replay += replay.others
        return sorted(found, key=lambda end: sorted(end[1][0]))[choose(len(found))]


def shuffled(n: int, choose: Choose) -> Order:
    """The numbers below ``n`` in an order drawn uniformly."""
    left, order = list(range(n)), []
    while left:
        order.append(left.pop(choose(len(left))))
    return tuple(order)


_PHASES: dict[str, type[TokenPhases | QueryPhases]] = {
    "token": TokenPhases,
    "query": QueryPhases,
    "published": PublishedPhases,
}


def states_of(policy: str, paths: Paths, capacity: int) -> States:
    """The literal states of a policy written as ``name`` or ``name:parameter=value``.

    Raises
    ------
    InputError
        For a policy that has none.
    """
    name, _, parameters = policy.partition(":")
    given = dict(item.split("=") for item in parameters.split(",") if item)
    cap = int(given.get("cap", 3))
    stem = given.get("stem", "").lower() == "true"
    kinds: dict[str, Callable[[], States]] = {
        "llru": lambda: Records(LLRU, paths, capacity),
        "mru": lambda: Records(MRU, paths, capacity),
        "fifo": lambda: Records(FIFO, paths, capacity, by_load=True),
        "slru": lambda: Records(SLRU, paths, capacity, cap=2),
        "lfu": lambda: Records(_capped(cap), paths, capacity, cap=cap),
        "rlt": lambda: Marked(_PHASES[given.get("phase", "token")], paths, capacity),
        "lrlt": lambda: Layered(paths, capacity, "stem" if stem else "uniform"),
        "layered": lambda: (
            UniformCache(paths, capacity)
            if given.get("victim") == "cache"
            else Layered(paths, capacity, given.get("victim", "uniform"))
        ),
        "random_leaf": lambda: Unmarked(paths, capacity),
    }
    if name not in kinds:
        raise unknown("policy with literal states", name, kinds)
    return kinds[name]()


def _capped(cap: int) -> Callable[[int], KeyTwin]:
    def make(capacity: int) -> KeyTwin:
        twin = CappedLFU(capacity)
        twin.cap = cap
        return twin

    return make


def fill(twin: UnitTwin, units: UnitSet, paths: Paths) -> None:
    """Put units into the cache of a twin."""
    for u in sorted(units, key=lambda u: len(paths[u])):
        twin.load(path_of(paths[u])[-1])


def contents(twin: UnitTwin) -> UnitSet:
    """The cached units by their last token."""
    return frozenset(unit[-1] for unit in twin.records)


def rename(units: UnitSet, permutation: Sequence[int]) -> UnitSet:
    """The image of a set of units."""
    return frozenset(permutation[u] for u in units)
