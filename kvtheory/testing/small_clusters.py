"""Seeded random tiny clusters with traffic, and a slow router made to follow a fast one.

All costs, speeds and times are small multiples of powers of two, so that sums of them are exact and
a fast and a slow program that agree do so to the last bit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.testing.twin_cluster import ClusterTwin, Served
from kvtheory.testing.twin_router import RouterTwin, ScriptedDraws, outcomes
from kvtheory.testing.twin_view import Query, View
from kvtheory.testing.twins_deterministic import LLRU

REQUESTS = 16
LONGEST = 4
VIEWS: dict[str, dict[str, Any]] = {
    "oracle": {"view": "oracle"},
    "routed": {"view": "routed", "view_capacity": 6},
    "stale": {"view": "stale", "refresh": 1.5},
    "own_dispatches": {"view": "stale", "refresh": 1.5, "own_dispatches": True},
}


@dataclass(frozen=True)
class ClusterCase:
    """Queries with arrival times and output tokens, workers, and what the router believes."""

    sequences: tuple[tuple[int, ...], ...]
    arrival: tuple[float, ...]
    output: tuple[int, ...]
    cluster: Cluster
    believed: Cluster | None
    seed: int = 0
    ends: tuple[tuple[int, ...], ...] | None = None
    warm: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def instance(self) -> Instance:
        """The queries as an instance."""
        return Instance.from_tokens(
            [list(tokens) for tokens in self.sequences],
            ends=self.ends,
            warm=self.warm,
            arrival=np.array(self.arrival, np.float64),
            output_length=np.array(self.output, np.int64),
        )

    def cut(self, stop: int) -> "ClusterCase":
        """The first ``stop`` queries alone."""
        return replace(
            self,
            sequences=self.sequences[:stop],
            arrival=self.arrival[:stop],
            output=self.output[:stop],
            ends=None if self.ends is None else self.ends[:stop],
        )

    def __str__(self) -> str:
        c = self.cluster
        known = "" if self.believed is None else f" (believed: {_costs(self.believed)})"
        return (
            f"{c.workers} workers, capacity {c.capacity.tolist()}, {_costs(c)}{known}; requests "
            f"{[list(s) for s in self.sequences]} at {list(self.arrival)} s with "
            f"{list(self.output)} output tokens; ends {self.ends}, warm {self.warm}"
        )


def _costs(c: Cluster) -> str:
    return (
        f"alpha_cached {c.alpha_cached.tolist()}, alpha_miss {c.alpha_miss.tolist()}, "
        f"alpha_out {c.alpha_out.tolist()}, speed {c.speed.tolist()}, "
        f"alpha_depth {c.alpha_depth.tolist()}, speed changes {c.speed_changes}"
    )


def random_clusters(
    examples: int, seed: int, workers: int, *, free: bool = True
) -> Iterator[ClusterCase]:
    """Cases that all have one padded shape: 16 requests, at most 15 edges, 17 to 32 path edges.

    Workers differ in capacity, costs and speed; in half of the cases the router believes other
    costs. Some queries arrive at the same time, and some at the time of a completion.

    Parameters
    ----------
    examples, seed, workers
        How many, of which stream, and M.
    free
        Whether queries may cost nothing, so that a router compares nothing but past loads; with
        loads that decay those of idle workers differ by rounding alone.
    """
    rng = np.random.default_rng([seed, workers])
    made = 0
    while made < examples:
        pool = [tuple(rng.integers(3, size=rng.integers(LONGEST + 1)).tolist()) for _ in range(6)]
        pool.append(tuple(rng.integers(3, size=LONGEST).tolist()))
        # weight on few queries gives hits
        weight = rng.exponential(size=len(pool))
        ends = rng.choice(len(pool), REQUESTS, p=weight / weight.sum())
        sequences = tuple(pool[end] for end in ends)
        instance = Instance.from_tokens([list(tokens) for tokens in sequences])
        path_edges = len(instance.log.edge)
        longest = max(map(len, sequences))
        if longest < LONGEST or instance.tree.edges > 15 or not 16 < path_edges <= 32:
            continue
        gaps = rng.choice([0.0, 0.0, 1.0, 2.0, 4.0], REQUESTS) * rng.choice([0.5, 1.0, 1.5])
        cluster = Cluster(
            rng.integers(LONGEST, 2 * LONGEST, workers),
            alpha_cached=np.full(workers, rng.choice([0.0, 0.25])),
            alpha_miss=rng.choice([0.5, 1.0, 2.0], workers),
            alpha_out=np.full(workers, rng.choice([0.0, 0.5]) if free else 0.5),
            speed=rng.choice([0.5, 1.0, 2.0], workers),
        )
        believed = Cluster(
            cluster.capacity, alpha_miss=np.ones(workers), alpha_out=np.ones(workers)
        )
        yield ClusterCase(
            sequences,
            tuple(np.cumsum(gaps).tolist()),
            tuple(rng.integers(0 if free else 1, 3, size=REQUESTS).tolist()),
            cluster,
            believed if rng.random() < 0.5 else None,
            int(rng.integers(2**31)),
        )
        made += 1


def with_everything(case: ClusterCase) -> ClusterCase:
    """The case with warm caches, output units, costs that grow with the depth, changing speeds."""
    rng = np.random.default_rng(case.seed)
    cluster, sequences = case.cluster, case.sequences
    workers = cluster.workers
    ends = tuple(q + tuple(rng.integers(3, size=rng.integers(3)).tolist()) for q in sequences)
    warm = tuple(
        (int(rng.integers(workers)), tuple(rng.integers(3, size=LONGEST).tolist()))
        for _ in range(2)
    )
    changed = replace(
        cluster,
        capacity=cluster.capacity + 2,
        alpha_depth=rng.choice([0.0, 0.25], workers),
        speed_changes=tuple(
            (float(rng.integers(20)), int(rng.integers(workers)), float(rng.choice([0.5, 4.0])))
            for _ in range(2)
        ),
    )
    return replace(case, cluster=changed, ends=ends, warm=warm)


class Unlike(AssertionError):
    """A decision that the slow router would not have made."""


@dataclass
class Follower:
    """A slow router that takes given decisions, and refuses one that its rule could not draw.

    ``laws`` holds, for each query, the probability of each worker by the rule, given what had been
    done before.
    """

    twin: RouterTwin
    workers: Sequence[int]
    laws: list[dict[int, float]] = field(default_factory=list)

    def route(self, query: Query, view: View, now: float) -> int:
        """The given worker for ``query``."""

        def propose(draws: ScriptedDraws) -> tuple[int, tuple[int, ...]]:
            self.twin.given_draws = draws
            return self.twin.propose(query, view, now), tuple(draws.taken)

        law: dict[int, float] = {}
        script: dict[int, tuple[int, ...]] = {}
        for (named, taken), p in outcomes(propose).items():
            law[named] = law.get(named, 0.0) + p
            script.setdefault(named, taken)
        worker = self.workers[query.index]
        if worker not in law:
            raise Unlike(
                f"query {query.index} goes to worker {worker}, by the twin to {sorted(law)}"
            )
        # the twin may note what it draws
        propose(ScriptedDraws(script[worker]))
        self.twin.dispatch(query, view, now, worker)
        self.laws.append(law)
        return worker

    def first_token(self, query: Query, worker: int, now: float) -> None:
        """Tell the twin."""
        self.twin.first_token(query, worker, now)

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Tell the twin."""
        self.twin.complete(query, worker, now)


def followed(
    twin: Callable[[], RouterTwin], workers: Sequence[int], case: ClusterCase, view: dict[str, Any]
) -> tuple[list[Served], list[dict[int, float]]]:
    """What the slow cluster serves when its router takes the decisions ``workers``, and their laws.

    Raises
    ------
    Unlike
        For the first decision that the slow router would not have made.
    """
    router = Follower(twin(), workers)
    cluster = ClusterTwin(
        case.cluster,
        router,
        lambda i, b: LLRU(b),
        believed=case.believed,
        warm=case.warm,
        **view,
    )
    log = cluster.run(case.sequences, case.arrival, output=case.output, ends=case.ends)
    return log, router.laws
