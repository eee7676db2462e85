"""Claim 18: what LBGR gains by learning service times, and loses by learning the latency."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.cross_table import CrossRow, Estimate, cross_table
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.instances.drift import drift
from proofs_check.claim import Claim, Mutant, Refuted, Task

DELTA = 1e-3
WORKERS, BLOCK = 4, 64


@dataclass(frozen=True)
class Workload:
    """Requests, and queries per second: with a slow worker, and near saturation."""

    name: str
    make: Callable[[int], Instance]
    rate: float
    saturated: float


WORKLOADS = (
    Workload(
        "drift",
        lambda requests: drift(
            documents=600,
            requests=requests,
            hot=48,
            period=requests // 8,
            popularity=0.8,
            levels=2,
            branching=8,
            length=48,
            block_size=BLOCK,
        ),
        rate=10.0,
        saturated=12.0,
    ),
    Workload(
        "shared prefixes",
        lambda requests: shared_prefix(groups=128, prompts=requests // 128, block_size=BLOCK),
        rate=8.0,
        saturated=12.0,
    ),
)


@dataclass(frozen=True)
class Subject:
    """The routers: without learning, with the service as target, and with the latency."""

    none: str = "lbgr:learner=none"
    service: str = "lbgr"
    latency: str = "lbgr:target=latency"


def check(subject: Subject, task: Task) -> str:
    """Intervals of the P95 and P50 latency and of the hit rate, which must not overlap."""
    told = []
    requests, seeds = task.pick(2048, 4096), task.pick(16, 32)
    for load in WORKLOADS:
        gains = []
        for when, share in (("slow", 0.0), ("slows midway", 0.5)):
            task.tell(f"{load.name}: a worker that {when}")
            rows = [
                _row(router, load, load.rate, requests, share, 0.25, seeds, task.seed)
                for router in (subject.none, subject.service)
            ]
            plain, learned = (row.latency_p95 for row in rows)
            if not plain.low > learned.high:
                raise Refuted(
                    f"{load.name}, one worker {when}: P95 {_told(plain)} s without learning, "
                    f"{_told(learned)} s with it"
                )
            gains.append(f"P95 {plain.mean:.0f} → {learned.mean:.1f} s ({when})")
        task.tell(f"{load.name}: near saturation")
        service, latency = (
            _row(router, load, load.saturated, requests, 0.0, 1.0, seeds, task.seed)
            for router in (subject.service, subject.latency)
        )
        hits = service.hit_rate_units, latency.hit_rate_units
        p50 = service.latency_p50, latency.latency_p50
        if not (hits[1].high < hits[0].low and p50[1].low > p50[0].high):
            raise Refuted(
                f"{load.name}, near saturation: hit rate {_told(hits[0])} and {_told(hits[1])}, "
                f"P50 {_told(p50[0])} and {_told(p50[1])} s"
            )
        gains.append(
            f"latency as target: hits {hits[0].mean:.2f} → {hits[1].mean:.2f}, P50 "
            f"{p50[0].mean:.1f} → {p50[1].mean:.0f} s"
        )
        told.append(f"{load.name}: {', '.join(gains)}")
    return f"{'; '.join(told)}; {seeds} seeds, intervals of 1 − {DELTA:g} apart"


@cache
def _row(
    router: str,
    load: Workload,
    rate: float,
    requests: int,
    share: float,
    speed: float,
    seeds: int,
    seed: int,
) -> CrossRow:
    """One worker changes speed when that share of the queries has come, and nobody says so."""
    instance = load.make(requests)
    believed = Cluster(
        capacity=np.full(WORKERS, 192_000 // BLOCK),
        block_size=BLOCK,
        alpha_miss=np.full(WORKERS, 0.16e-3 * BLOCK),
    )
    true = replace(believed, speed_changes=((share * requests / rate, 0, speed),))
    (row,) = cross_table(
        instance,
        true,
        [router],
        ["llru"],
        rate=rate,
        seeds=seeds,
        seed=seed * seeds,  # arrivals have seeds from here on, which no other seed shares
        believed=believed,
        confidence=1 - DELTA,
    )
    return row


def _told(estimate: Estimate) -> str:
    return f"{estimate.mean:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


CLAIM = Claim(
    id="18",
    title="LBGR: learn the service, not the latency",
    statement=(
        "With a worker that is slower than the router believes, from the beginning or from the "
        "middle on, LBGR that learns service times has a smaller P95 latency than without "
        "learning. Learning the latency on decayed load, the paper's target, has fewer hits and a "
        "larger median latency near saturation."
    ),
    latex=r"\mathrm{P95}(\text{service}) < \mathrm{P95}(\text{none}) \text{ with a slow worker};"
    r"\quad \mathrm{hits}(\text{latency}) < \mathrm{hits}(\text{service}) \text{ near saturation}",
    source="LBGR: Wu, Silwal and Zhang 2026; what to learn: new here",
    assumptions="Poisson arrivals; 4 workers, α_miss = 0.16 ms a token, α_cached = O = 0, leaf "
    "LRU, routed view; one query at a time",
    method="statistical: t-intervals over seeds that do not overlap, error probability 0.001 each",
    scope=(
        "drifting documents and shared prefixes, 2,048 queries, 16 seeds",
        "drifting documents and shared prefixes, 4,096 queries, 32 seeds",
    ),
    seconds=(20, 90),
    subject=Subject(),
    check=check,
    drawn=check,
    mutants=(
        Mutant("no learning", Subject(service="lbgr:learner=none")),
        Mutant("the latency as target", Subject(service="lbgr:target=latency")),
        Mutant("the service as target", Subject(latency="lbgr")),
    ),
)
