"""Hit rates against capacity: policies, the optimum and the ceiling at the same capacities."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import jax
import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.cluster import capacity_units
from kvtheory.curve.hit_curve import largest_capacity, smallest_capacity
from kvtheory.curve.leaf_lru import leaf_lru_hits
from kvtheory.curve.optimum import optimum_hits
from kvtheory.errors import bad
from kvtheory.eviction import policy as parse_policy
from kvtheory.eviction.llru import LeafLRU
from kvtheory.instance import Instance
from kvtheory.offline.optimum import optimum as single_optimum
from kvtheory.oversize import Oversize, check_oversize
from kvtheory.parameters import label
from kvtheory.ratio.empirical import check_ratio_options, mean_interval
from kvtheory.result import Result
from kvtheory.rows import check_queries_alone
from kvtheory.simulate import Batching, simulate_capacities

OPTIMUM = "optimum"


@dataclass(frozen=True)
class CurvePoint:
    """One policy, or the optimum, at one capacity. Numbers are means over the seeds.

    Parameters
    ----------
    source, policy
        Where the requests come from, and the policy with its parameters or ``"optimum"``.
    oversize
        What was done with queries longer than the capacity.
    capacity_units, capacity_share
        B, and B over the distinct units.
    requests, units, units_distinct
        Queries, the units that they ask for, and the units of the tree.
    hits, misses
        Units; hits + misses = units.
    hit_rate_units, hit_rate_low, hit_rate_high
        Σh/Σ|q| and its interval over the seeds: a point where nothing is random, nan for one
        seed. For an optimum that is only known to lie between two bounds, these.
    hit_rate_tokens, hit_rate_requests
        As in `kvtheory.result.Result`; nan for the optimum, which is one of units.
    seeds
        Lanes: 1 for a deterministic policy.
    method
        ``"stack distances"`` (all capacities in one pass), ``"lanes"`` (a run for each),
        ``"layers"`` or ``"belady"``.
    seconds
        Wall time of all points of this policy and method over their number, compiling included.
    """

    source: str
    policy: str
    oversize: Oversize
    capacity_units: int
    capacity_share: float
    requests: int
    units: int
    units_distinct: int
    hits: float
    misses: float
    hit_rate_units: float
    hit_rate_low: float
    hit_rate_high: float
    hit_rate_tokens: float
    hit_rate_requests: float
    seeds: int
    method: str
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """The fields in order."""
        return asdict(self)


def spread(instance: Instance, points: int) -> list[int]:
    """At most so many capacities in units, from the longest path to all units, evenly in logarithm.

    Examples
    --------
    >>> spread(Instance.from_tokens([[1, 2], [3, 4], [5, 6], [7, 8]]), 3)
    [2, 4, 8]
    """
    if points < 1:
        raise bad("points", points, "must be at least 1")
    low, high = smallest_capacity(instance), largest_capacity(instance)
    return np.unique(np.geomspace(low, high, points).round().astype(np.int64)).tolist()


def curve(
    instance: Instance,
    policies: Sequence[str | EvictionPolicy] = ("llru",),
    capacities: Sequence[int | str] | int = 64,
    *,
    optimum: bool = False,
    seeds: int = 16,
    key: jax.Array | None = None,
    oversize: Oversize = "error",
    confidence: float = 0.95,
    batching: Batching = "auto",
    finished: Callable[[Sequence[CurvePoint]], object] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> list[CurvePoint]:
    """Hit rates of policies, and of the optimum, at several capacities.

    Leaf LRU and the optimum take one pass for all capacities, or one cheap pass each; other
    policies have no such property and are run at each capacity.

    Parameters
    ----------
    instance
        The request sequence.
    policies
        Names with parameters (``"rlt:phase=query"``), or policies.
    capacities
        Units (``64``), tokens (``"192000tok"``) or per cent of the distinct units (``"5%"``); or
        how many capacities to `spread`.
    optimum
        Whether to add the optimum, with forced admission.
    seeds
        Lanes of a randomised policy; lane s uses ``fold_in(key, s)``. Others run once.
    key
        Typed PRNG key; ``jax.random.key(0)`` if None.
    oversize
        ``"error"``, ``"truncate"`` or ``"skip"`` for queries longer than the capacity. Below the
        longest path every policy is run at each capacity.
    confidence
        Level of the intervals over seeds.
    batching
        As in `kvtheory.simulate.simulate`.
    finished
        Called with the points of each policy as soon as they are there.
    progress
        Called with the name of a policy and the share of it just finished.

    Returns
    -------
    list of CurvePoint
        Policy by policy, the optimum last; capacities in rising order.

    Raises
    ------
    InputError
        For bad arguments, before any work is done.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1], [2], [3], [1], [2], [3]])
    >>> for point in curve(instance, ["llru", "mru"], [1, 2, 3], optimum=True):
    ...     print(point.policy, point.capacity_units, point.hits, point.method)
    llru 1 0 stack distances
    llru 2 0 stack distances
    llru 3 3 stack distances
    mru 1 0 lanes
    mru 2 2 lanes
    mru 3 3 lanes
    optimum 1 0 layers
    optimum 2 2 layers
    optimum 3 3 layers
    """
    if not policies and not optimum:
        raise bad("policies", [], "name at least one, or ask for the optimum")
    if seeds < 1:
        raise bad("seeds", seeds, "must be at least 1")
    if instance.units_requested == 0:
        raise bad("instance", instance.name, "asks for no units, so there is nothing to cache")
    if optimum:
        check_queries_alone(instance, "the optimum")
    if isinstance(capacities, int):
        units = spread(instance, capacities)
    elif capacities:
        units = sorted({capacity_units(c, instance) for c in capacities})
    else:
        raise bad("capacities", [], "name at least one")
    named = [(p, parse_policy(p)) if isinstance(p, str) else (label(p), p) for p in policies]
    check_oversize(instance, units[0], oversize)
    check_ratio_options("strict", confidence, "bootstrap")
    job = _Job(
        instance,
        units,
        oversize,
        seeds,
        key,
        confidence,
        batching,
        progress or (lambda what, done: None),
    )
    out: list[CurvePoint] = []
    for name, policy in named:
        out += job.policy(name, policy)
        if finished is not None:
            finished(out[-len(units) :])
    if optimum:
        out += job.optimum()
        if finished is not None:
            finished(out[-len(units) :])
    return out


@dataclass(frozen=True)
class _Job:
    """What all points have in common."""

    instance: Instance
    units: list[int]
    oversize: Oversize
    seeds: int
    key: jax.Array | None
    confidence: float
    batching: Batching
    tell: Callable[[str, float], object]

    def policy(self, name: str, policy: EvictionPolicy) -> list[CurvePoint]:
        """The points of a policy."""
        self.tell(name, 0.0)
        split = self._split() if isinstance(policy, LeafLRU) else len(self.units)
        singly, together = self.units[:split], self.units[split:]
        lanes = self.seeds if policy.randomised else 1
        results = simulate_capacities(
            self.instance,
            singly,
            policy,
            seeds=lanes,
            key=self.key,
            oversize=self.oversize,
            batching=self.batching,
            progress=lambda done: self.tell(name, done / (lanes * len(self.units))),
        )
        out = [self._of(name, result, "lanes", policy.randomised) for result in results]
        if together:
            begin = time.perf_counter()
            hits = leaf_lru_hits(self.instance, together)
            seconds = (time.perf_counter() - begin) / len(together)
            for capacity, each in zip(together, hits, strict=True):
                result = Result(self.instance, name, capacity, each[None], seconds)
                out.append(self._of(name, result, "stack distances"))
            self.tell(name, len(together) / len(self.units))
        return out

    def optimum(self) -> list[CurvePoint]:
        """The points of the optimum."""
        self.tell(OPTIMUM, 0.0)
        split = self._split()
        singly, together = self.units[:split], self.units[split:]
        share = 1 / len(self.units)
        out = []
        for capacity in singly:
            best = single_optimum(self.instance, capacity, oversize=self.oversize)
            bounds = int(best.upper), int(best.lower)
            out.append(self._optimum_at(capacity, bounds, best.method, best.seconds))
            self.tell(OPTIMUM, share)
        begin = time.perf_counter()
        hits = optimum_hits(
            self.instance, together, progress=lambda done: self.tell(OPTIMUM, done * share)
        )
        seconds = (time.perf_counter() - begin) / max(1, len(together))
        for capacity, value in zip(together, hits.tolist(), strict=True):
            misses = self.instance.units_requested - value
            out.append(self._optimum_at(capacity, (misses, misses), "layers", seconds))
        return out

    def _of(self, name: str, result: Result, method: str, randomised: bool = False) -> CurvePoint:
        return policy_point(
            name,
            result,
            randomised=randomised,
            oversize=self.oversize,
            confidence=self.confidence,
            method=method,
        )

    def _optimum_at(
        self, capacity: int, misses: tuple[int, int], method: str, seconds: float
    ) -> CurvePoint:
        return optimum_point(
            self.instance,
            capacity,
            misses,
            oversize=self.oversize,
            method=method,
            seconds=seconds,
        )

    def _split(self) -> int:
        """How many of the capacities cannot serve the longest path."""
        return int(np.searchsorted(self.units, smallest_capacity(self.instance)))


def policy_point(
    name: str,
    result: Result,
    *,
    randomised: bool,
    oversize: Oversize,
    confidence: float,
    method: str = "lanes",
) -> CurvePoint:
    """The point of a run."""
    rates, hits = result.hit_rate_units, result.total_hits
    low = high = rates[0]
    if randomised:
        low, high = mean_interval(rates, confidence)
    return _point(
        result.instance,
        name,
        result.capacity,
        float(hits.mean()) if result.seeds > 1 else int(hits[0]),
        (float(low), float(high)),
        oversize=oversize,
        hit_rate_units=float(rates.mean()),
        hit_rate_tokens=float(result.hit_rate_tokens.mean()),
        hit_rate_requests=float(result.hit_rate_requests.mean()),
        seeds=result.seeds,
        method=method,
        seconds=result.seconds + result.compile_seconds,
    )


def optimum_point(
    instance: Instance,
    capacity: int,
    misses: tuple[int, int],
    *,
    oversize: Oversize,
    method: str,
    seconds: float,
) -> CurvePoint:
    """The point of an optimum of which ``misses`` are known to suffice, and to be needed."""
    units = instance.units_requested
    known, least = misses
    return _point(
        instance,
        OPTIMUM,
        capacity,
        units - known,
        ((units - known) / units, (units - least) / units),
        oversize=oversize,
        hit_rate_units=(units - known) / units,
        hit_rate_tokens=math.nan,
        hit_rate_requests=math.nan,
        seeds=1,
        method=method,
        seconds=seconds,
    )


def _point(
    instance: Instance,
    name: str,
    capacity: int,
    hits: float,
    interval: tuple[float, float],
    **more: object,
) -> CurvePoint:
    return CurvePoint(
        source=instance.source or instance.name,
        policy=name,
        capacity_units=capacity,
        capacity_share=capacity / instance.tree.units,
        requests=instance.requests,
        units=instance.units_requested,
        units_distinct=instance.tree.units,
        hits=hits,
        misses=instance.units_requested - hits,
        hit_rate_low=interval[0],
        hit_rate_high=interval[1],
        **more,  # type: ignore[arg-type]
    )
