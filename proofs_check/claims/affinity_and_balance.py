"""Claim 11: following the cache and balancing the load are at odds."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.instances.affinity_trap import (
    affinity_trap,
    affinity_trap_cluster,
    affinity_trap_makespan,
)
from kvtheory.instances.load_trap import load_trap, load_trap_cluster, load_trap_makespan
from kvtheory.testing.exhaustive_joint import joint_by_search
from proofs_check.claim import Claim, Mutant, Refuted, Task


@dataclass(frozen=True)
class Subject:
    """The routers, what hits and outputs cost, and the limits of the ratios.

    Parameters
    ----------
    affinity, load
        A router that follows the cache, and one that balances the load.
    hit, overhead
        α_cached, as a share of α_miss = 1, and the constant part of O.
    limits
        What the ratios tend to, given M and α_miss/α_cached.
    """

    affinity: str = "max_hit"
    load: str = "round_robin"
    hit: Fraction = Fraction(1, 4)
    overhead: Fraction = Fraction(1, 4)
    limits: Callable[[int, int], tuple[Fraction, Fraction]] = lambda M, saving: (
        Fraction(M),
        Fraction(saving),
    )


def check(subject: Subject, task: Task) -> str:
    """All routings of small instances; the traps at two sizes, in the driver."""
    for hit, overhead in ((subject.hit, Fraction(0)), (Fraction(0), subject.overhead)):
        for workers, queries in ((2, 4), (3, 6)) if not task.full else ((2, 8), (3, 7)):
            task.tell(f"{queries} equal queries on {workers} workers")
            _conflict(workers, queries, hit, overhead)
    ratios = []
    workers, saving = 4, 10
    most_hits, balance = subject.limits(workers, saving)
    for size in (60, task.pick(400, 2000)):
        task.tell(f"traps of size {size}")
        shape = (workers, size, 16, 4)
        got = _makespan(affinity_trap(*shape), affinity_trap_cluster(*shape), subject.affinity)
        if got != 16 + 4 * size:
            raise Refuted(f"{subject.affinity} has {got} on the affinity trap, not {16 + 4 * size}")
        ratios.append(got / Fraction(affinity_trap_makespan(*shape)))
        if not 0 <= most_hits - ratios[-1] <= most_hits * Fraction(16 * workers, 4 * size):
            raise Refuted(f"the ratio {float(ratios[-1]):.3f} does not tend to {most_hits}")
        rounds = size // 4
        shape = (workers, rounds, 16, saving)
        got = _makespan(load_trap(*shape), load_trap_cluster(*shape), subject.load)
        if got != 16 * rounds:
            raise Refuted(f"{subject.load} has {got} on the load trap, not {16 * rounds}")
        least = 16 * (1 + Fraction(rounds - 1, saving))
        if abs(float(least) - load_trap_makespan(*shape)) > 1e-9:
            raise Refuted(f"the least makespan of the load trap is {least}")
        ratios.append(got / least)
        if not 0 <= balance - ratios[-1] <= balance * Fraction(saving, rounds):
            raise Refuted(f"the ratio {float(ratios[-1]):.3f} does not tend to {balance}")
    return (
        f"in small instances no routing has both the most hits and the least makespan; traps of 4 "
        f"workers in the driver: {', '.join(f'{float(r):.3f}' for r in ratios)} towards 4 and 10"
    )


def _conflict(workers: int, queries: int, hit: Fraction, overhead: Fraction) -> None:
    """Equal queries of two units: the routings with most hits are not those with least makespan."""
    cluster = Cluster(
        np.full(workers, 2),
        alpha_miss=np.ones(workers),
        alpha_cached=np.full(workers, float(hit)),
        overhead=np.full(workers, float(overhead)),
    )
    requests = [[1, 2]] * queries
    routings = list(product(range(workers), repeat=queries))
    values = {}
    for objective in ("misses", "makespan"):
        values[objective] = [
            # workers are alike, and so are queries: only how many go where matters
            _value(requests, cluster, objective, tuple(sorted(map(routing.count, range(workers)))))
            for routing in routings
        ]
    hitting, balanced = (
        {r for r, v in zip(routings, of, strict=True) if v == min(of)} for of in values.values()
    )
    if hitting & balanced:
        raise Refuted(
            f"{queries} equal queries on {workers} workers, α_cached = {hit}, O = {overhead}: "
            f"routing {min(hitting & balanced)} has both the most hits and the least makespan"
        )


_known: dict[Any, float] = {}


def _value(
    requests: list[list[int]], cluster: Cluster, objective: str, shares: tuple[int, ...]
) -> float:
    costs = (float(cluster.alpha_cached[0]), float(cluster.overhead[0]))
    key = (len(requests), objective, shares, costs)
    if key not in _known:
        routing = [i for i, many in enumerate(shares) for _ in range(many)]
        _known[key] = joint_by_search(requests, cluster, objective, routings=[routing])
    return _known[key]


def _makespan(instance: Instance, cluster: Cluster, router: str) -> Fraction:
    """By the driver, to 1e-6 of a second."""
    from kvtheory.eviction import policy
    from kvtheory.routing import router as parse
    from kvtheory.simulate_cluster import simulate_cluster

    result = simulate_cluster(instance, cluster, parse(router), policy("llru"), view="oracle")
    return Fraction(round(float(np.asarray(result.end).max()) * 10**6), 10**6)


CLAIM = Claim(
    id="11",
    title="Affinity and balance conflict",
    statement=(
        "Where hits or outputs cost time (α_cached > 0 or O > 0) no routing need have both the "
        "most hits and the least makespan: for equal queries none has. Routing by hits alone is up "
        "to M times the optimum (in the limit, also with α_cached = O = 0 if queries end in units "
        "of their own), routing by load alone up to α_miss/α_cached times."
    ),
    latex=r"\sup \frac{\text{max-hit}}{\mathrm{OPT}} \ge M,\qquad "
    r"\sup \frac{\text{load only}}{\mathrm{OPT}} \ge \frac{\alpha_{\mathrm{miss}}}"
    r"{\alpha_{\mathrm{cached}}}",
    source="Wu, Silwal and Zhang 2026 (the conflict); the instances: new here",
    assumptions="all queries at time 0; caches that hold what they need, leaf LRU; batch 1",
    method="exhaustive over routings of equal queries; closed forms in rationals against the "
    "driver",
    scope=(
        "M = 2 and 3 with 4 and 6 equal queries; traps of 60 and 400 queries, M = 4",
        "M = 2 and 3 with 8 and 7 equal queries; traps of 60 and 2,000 queries, M = 4",
    ),
    seconds=(8, 40),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("hits cost nothing", Subject(hit=Fraction(0))),
        Mutant("outputs cost nothing", Subject(overhead=Fraction(0))),
        Mutant(
            "routing by hits is at most M − 1",
            Subject(limits=lambda M, s: (Fraction(M - 1), Fraction(s))),
        ),
        Mutant("routing by hits looks at the load too", Subject(affinity="least_work_left")),
    ),
)
