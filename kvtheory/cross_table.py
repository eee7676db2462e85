"""Routers × eviction policies on one cluster: the cross table, one row per pair."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import jax
import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.cluster import Cluster, capacity_units
from kvtheory.cluster_result import ClusterResult
from kvtheory.dispatch import ViewName
from kvtheory.errors import InputError, bad, check_seed
from kvtheory.eviction import policy as parse_policy
from kvtheory.instance import Instance
from kvtheory.instances.runs import poisson_arrivals
from kvtheory.offline.optimum import Optimum
from kvtheory.oversize import Oversize
from kvtheory.parameters import label
from kvtheory.ratio.empirical import mean_interval
from kvtheory.router import RoutingPolicy
from kvtheory.routing import router as parse_router
from kvtheory.simulate import Batching
from kvtheory.simulate_cluster import simulate_cluster

QUANTILES = np.linspace(0, 1, 201)
MOMENTS = 241


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with a t-interval: a point if nothing is random, nan for one draw."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class CrossRow:
    """One router with one eviction policy on a cluster. Seconds, and means over the seeds.

    Parameters
    ----------
    source, router, eviction
        Where the requests come from, and the policies with their parameters.
    view, oversize
        How the router saw the caches; what was done with queries longer than a cache.
    workers, capacity_units, speed
        M, and for each worker its capacity B_i and speed.
    requests, units
        Queries, and the units that they ask for.
    rate
        Queries per second of the Poisson arrivals; None if they are the instance's own.
    seeds, random
        Lanes, and what differs between them: ``"arrivals and policies"``, ``"policies"``, or
        ``"nothing"`` where one lane says it all.
    hit_rate_units, hit_rate_tokens, hit_rate_requests
        As in `kvtheory.result.Result`.
    believed_hit_rate
        The unit hit rate that the router expected of its choices.
    makespan, last_completion
        The largest load of a worker; when the last query was completed.
    imbalance, jain
        Largest load over the mean; Jain's index of the loads.
    throughput
        Queries per second until the last completion.
    latency_mean, latency_p50, latency_p95, latency_p99
        From arrival to completion.
    ttft_mean, ttft_p50, ttft_p95, ttft_p99
        From arrival to the first token.
    load, share
        For each worker its seconds of service, and its share of the queries.
    optimum_low, optimum_high
        Bounds on the least makespan of the same queries on this cluster, known ahead, with forced
        admission; None if it was not asked for.
    ratio_low, ratio_high
        Of the mean makespan to that optimum: the interval over seeds divided by these bounds.
    confidence
        Level of the intervals.
    seconds
        Wall time of all lanes, compilation included.
    latency_quantiles
        float64[201]; latency at the quantiles 0, 0.005, …, 1.
    times, in_system
        float64[241]; moments, and the queries waiting or served then.
    """

    source: str
    router: str
    eviction: str
    view: ViewName
    oversize: Oversize
    workers: int
    capacity_units: tuple[int, ...]
    speed: tuple[float, ...]
    requests: int
    units: int
    rate: float | None
    seeds: int
    random: str
    hit_rate_units: Estimate
    hit_rate_tokens: Estimate
    hit_rate_requests: Estimate
    believed_hit_rate: Estimate
    makespan: Estimate
    last_completion: Estimate
    imbalance: Estimate
    jain: Estimate
    throughput: Estimate
    latency_mean: Estimate
    latency_p50: Estimate
    latency_p95: Estimate
    latency_p99: Estimate
    ttft_mean: Estimate
    ttft_p50: Estimate
    ttft_p95: Estimate
    ttft_p99: Estimate
    load: tuple[float, ...]
    share: tuple[float, ...]
    optimum_low: float | None
    optimum_high: float | None
    ratio_low: float | None
    ratio_high: float | None
    confidence: float
    seconds: float
    latency_quantiles: np.ndarray = field(repr=False, compare=False)
    times: np.ndarray = field(repr=False, compare=False)
    in_system: np.ndarray = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, object]:
        """The fields in order, curves left out; an estimate becomes x, x_low and x_high."""
        told: dict[str, object] = {}
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if isinstance(value, Estimate):
                told |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
            elif isinstance(value, tuple):
                told[name] = list(value)
            elif not isinstance(value, np.ndarray):
                told[name] = value
        return told


@dataclass(frozen=True)
class CrossFailure:
    """A pair that could not be run; the others went on."""

    router: str
    eviction: str
    error: Exception

    def __str__(self) -> str:
        kind = "" if isinstance(self.error, InputError) else f"{type(self.error).__name__}: "
        return f"{self.router} with {self.eviction}: {kind}{self.error}"


def cross_table(
    instance: Instance,
    cluster: Cluster,
    routers: Sequence[str | RoutingPolicy] = ("cache_aware", "lbgr", "exponential_potential"),
    evictions: Sequence[str | EvictionPolicy] = ("llru", "rlt"),
    *,
    rate: float | None = None,
    seeds: int = 16,
    seed: int = 0,
    view: ViewName = "routed",
    view_capacity: int | str | None = None,
    refresh: float | None = None,
    believed: Cluster | None = None,
    oversize: Oversize = "error",
    confidence: float = 0.95,
    optimum: Optimum | None = None,
    batching: Batching = "auto",
    failures: list[CrossFailure] | None = None,
    finished: Callable[[CrossRow], object] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> list[CrossRow]:
    """Run every router with every eviction policy on a cluster.

    Parameters
    ----------
    instance
        The request sequence.
    cluster
        Workers with their true costs, speeds and capacities.
    routers, evictions
        Names with parameters (``"lbgr:target=latency"``), or policies.
    rate
        Queries per second of Poisson arrivals, which replace those of the instance: lane s
        draws its own with seed ``seed + s``. Without it the instance must have arrival times.
    seeds
        Lanes. Where the arrivals are the instance's own, a pair without randomness runs once.
    seed
        Of the arrivals and, in other streams, of the policies.
    view, view_capacity, refresh, believed, oversize, batching
        As in `kvtheory.simulate_cluster.simulate_cluster`; ``view_capacity`` also as text, as
        `kvtheory.cluster.capacity_units` reads it.
    confidence
        Level of the intervals over the seeds (Student's t).
    optimum
        The optimum of the makespan on this cluster (`kvtheory.offline.joint.joint_optimum`), to
        set the rows beside.
    failures
        If given, what goes wrong with one pair is appended here and the rest goes on; otherwise
        it is raised.
    finished
        Called with each row as soon as it is there.
    progress
        Called with a description and the share just finished of a pair.

    Returns
    -------
    list of CrossRow
        Router by router, eviction policies in the order given.

    Raises
    ------
    InputError
        For bad arguments; names and numbers are checked before any work is done.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [3, 4], [1, 2], [3, 4]])
    >>> cluster = Cluster(capacity=[2, 2], alpha_miss=0.5)
    >>> for row in cross_table(instance, cluster, ["round_robin"], ["llru"], rate=1.0, seeds=2):
    ...     print(row.router, row.eviction, row.hit_rate_units.mean, row.makespan.mean)
    round_robin llru 0.5 1.0
    """
    for name, values in (("routers", routers), ("evictions", evictions)):
        if not values:
            raise bad(name, [], "name at least one")
    named = [(r, parse_router(r)) if isinstance(r, str) else (label(r), r) for r in routers]
    orders = [(e, parse_policy(e)) if isinstance(e, str) else (label(e), e) for e in evictions]
    check_seed(seed)
    if seeds < 1:
        raise bad("seeds", seeds, "must be at least 1")
    if not 0 < confidence < 1:
        raise bad("confidence", confidence, "must lie strictly between 0 and 1")
    if rate is not None and not (rate > 0 and math.isfinite(rate)):
        raise bad("rate", rate, "must be a positive number of queries per second")
    if instance.requests == 0:
        raise bad("instance", instance.name, "has no queries")
    if rate is None and instance.arrival is None:
        raise InputError(
            f"instance {instance.name!r} has no arrival times: pass rate=, queries per second"
        )
    if optimum is not None and (optimum.objective, optimum.admission) != ("makespan", "forced"):
        given = f"{optimum.objective}, {optimum.admission}"
        raise bad("optimum", given, "must be of the makespan, with forced admission")
    if isinstance(view_capacity, str):
        view_capacity = capacity_units(view_capacity, instance)
    tell = progress or (lambda what, done: None)
    key = jax.random.key(seed)

    def run(
        router: RoutingPolicy, eviction: EvictionPolicy, tell: Callable[[int], object]
    ) -> list[ClusterResult]:
        def lanes(instance: Instance, lanes: int, key: jax.Array) -> ClusterResult:
            return simulate_cluster(
                instance,
                cluster,
                router,
                eviction,
                view=view,
                view_capacity=view_capacity,
                refresh=refresh,
                believed=believed,
                seeds=lanes,
                key=key,
                oversize=oversize,
                batching=batching,
                progress=tell,
            )

        if rate is None:
            random = router.randomised or eviction.randomised
            return [lanes(instance, seeds if random else 1, key)]
        out = []
        for s in range(seeds):
            arrival = poisson_arrivals(rate, instance.requests, seed + s)
            out.append(lanes(replace(instance, arrival=arrival), 1, jax.random.fold_in(key, s)))
        return out

    rows = []
    for router_name, router in named:
        for eviction_name, eviction in orders:
            what = f"{router_name} with {eviction_name}"
            told = 0.0

            def step(lanes: int, what: str = what) -> None:
                nonlocal told
                told += lanes / seeds
                tell(what, lanes / seeds)

            tell(what, 0.0)
            begin = time.perf_counter()
            try:
                results = run(router, eviction, step)
                row = _row(
                    results,
                    router=router_name,
                    eviction=eviction_name,
                    view=view,
                    oversize=oversize,
                    rate=rate,
                    confidence=confidence,
                    random=_what_is_random(rate, router, eviction),
                    optimum=optimum,
                    begin=begin,
                )
            except Exception as error:
                if failures is None:
                    raise
                failures.append(CrossFailure(router_name, eviction_name, error))
            else:
                rows.append(row)
                if finished is not None:
                    finished(row)
            tell(what, 1.0 - told)
    return rows


def _what_is_random(rate: float | None, router: RoutingPolicy, eviction: EvictionPolicy) -> str:
    if rate is not None:
        return "arrivals and policies"
    return "policies" if router.randomised or eviction.randomised else "nothing"


def _row(
    results: Sequence[ClusterResult],
    *,
    router: str,
    eviction: str,
    view: ViewName,
    oversize: Oversize,
    rate: float | None,
    confidence: float,
    random: str,
    optimum: Optimum | None,
    begin: float,
) -> CrossRow:
    def lanes(number: Callable[[ClusterResult], np.ndarray]) -> np.ndarray:
        return np.concatenate([number(result) for result in results])

    def estimate(number: Callable[[ClusterResult], np.ndarray]) -> Estimate:
        values = lanes(number)
        mean = float(values.mean())
        if random == "nothing":
            return Estimate(mean, mean, mean)
        return Estimate(mean, *mean_interval(values, confidence, "normal"))

    def latency(percent: float) -> Estimate:
        return estimate(lambda r: np.percentile(r.latency, percent, axis=1))

    def ttft(percent: float) -> Estimate:
        return estimate(lambda r: np.percentile(r.ttft, percent, axis=1))

    def per_worker(number: Callable[[ClusterResult], np.ndarray]) -> tuple[float, ...]:
        return tuple(lanes(number).mean(axis=0).tolist())

    instance, cluster = results[0].instance, results[0].cluster
    last = lanes(lambda r: r.last_completion).max()
    times = np.linspace(0.0, last, MOMENTS)
    makespan = estimate(lambda r: r.makespan)
    best = (None, None) if optimum is None else (float(optimum.lower), float(optimum.upper))
    return CrossRow(
        source=instance.source or instance.name,
        router=router,
        eviction=eviction,
        view=view,
        oversize=oversize,
        workers=cluster.workers,
        capacity_units=tuple(cluster.capacity.tolist()),
        speed=tuple(cluster.speed.tolist()),
        requests=instance.requests,
        units=instance.units_requested,
        rate=rate,
        seeds=sum(result.seeds for result in results),
        random=random,
        hit_rate_units=estimate(lambda r: r.cached.hit_rate_units),
        hit_rate_tokens=estimate(lambda r: r.cached.hit_rate_tokens),
        hit_rate_requests=estimate(lambda r: r.cached.hit_rate_requests),
        believed_hit_rate=estimate(lambda r: r.believed_hit_rate),
        makespan=makespan,
        last_completion=estimate(lambda r: r.last_completion),
        imbalance=estimate(lambda r: r.imbalance),
        jain=estimate(lambda r: r.jain),
        throughput=estimate(lambda r: r.throughput),
        latency_mean=estimate(lambda r: r.latency.mean(axis=1)),
        latency_p50=latency(50),
        latency_p95=latency(95),
        latency_p99=latency(99),
        ttft_mean=estimate(lambda r: r.ttft.mean(axis=1)),
        ttft_p50=ttft(50),
        ttft_p95=ttft(95),
        ttft_p99=ttft(99),
        load=per_worker(lambda r: r.load),
        share=per_worker(lambda r: r.share),
        optimum_low=best[0],
        optimum_high=best[1],
        ratio_low=makespan.low / best[1] if best[1] else None,
        ratio_high=makespan.high / best[0] if best[0] else None,
        confidence=confidence,
        seconds=time.perf_counter() - begin,
        # the mean of the lanes' quantiles, so that a curve passes through its P50 in the table
        latency_quantiles=lanes(lambda r: np.quantile(r.latency, QUANTILES, axis=1).T).mean(axis=0),
        times=times,
        in_system=lanes(lambda r: r.in_system(times).sum(axis=1)).mean(axis=0),
    )
