"""The main job in one call: policies, capacities, the optimum, and the ratios between them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import get_args

import jax
import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.cluster import capacity_units
from kvtheory.errors import InputError, bad
from kvtheory.eviction import policy as parse_policy
from kvtheory.instance import Instance
from kvtheory.offline.optimum import Method, Optimum, optimum
from kvtheory.offline.schedule import Admission
from kvtheory.offline.window import window_optimum
from kvtheory.oversize import Oversize, check_oversize
from kvtheory.parameters import label
from kvtheory.ratio.bounds import bound_of
from kvtheory.ratio.empirical import (
    Interval,
    Kind,
    Ratio,
    check_ratio_options,
    empirical_ratio,
)
from kvtheory.result import Result
from kvtheory.simulate import Batching, simulate


@dataclass(frozen=True)
class Comparison:
    """One policy at one capacity beside the optimum. Numbers are means over the seeds.

    Parameters
    ----------
    source, policy
        Where the requests come from, and the policy with its parameters.
    admission
        That of the optimum; policies are always forced to admit what they serve.
    oversize
        What was done with queries longer than the capacity.
    capacity_units
        B, in units.
    requests, units
        Queries, and the units that they ask for, Σ|q|: hits + misses = units.
    hits, misses
        Units; integers for a deterministic policy.
    hit_rate_units, hit_rate_tokens, hit_rate_requests
        Σh/Σ|q|; Σ min(block·h, input length)/Σ input length; share of the non-empty queries
        that are hit in full.
    seeds
        Lanes: 1 for a deterministic policy.
    ratio, ratio_low, ratio_high
        Competitive ratio with its interval; nan where there is none (``note`` says why).
    optimum_low, optimum_high, method
        Misses of the optimum on the same queries, equal if exact, nan if it failed; and how
        it was computed.
    seconds
        Wall time of all lanes.
    units_distinct
        Units of the tree.
    warmup
        Queries before the ones that all of this is about.
    kind, confidence, interval
        Which ratio, the level of its interval over seeds and how that was made.
    bound
        Closed-form bound on the ratio of the policy, None if none is known.
    note
        What a reader should know about the ratio; empty if nothing.
    compile_seconds, optimum_seconds
        Wall time of compiling the lanes, and of the optimum, which all policies share.
    """

    source: str
    policy: str
    admission: Admission
    oversize: Oversize
    capacity_units: int
    requests: int
    units: int
    hits: float
    misses: float
    hit_rate_units: float
    hit_rate_tokens: float
    hit_rate_requests: float
    seeds: int
    ratio: float
    ratio_low: float
    ratio_high: float
    optimum_low: float
    optimum_high: float
    method: str
    seconds: float
    units_distinct: int
    warmup: int
    kind: Kind
    confidence: float
    interval: str
    bound: float | None
    note: str
    compile_seconds: float
    optimum_seconds: float

    def as_dict(self) -> dict[str, object]:
        """The fields in order."""
        return asdict(self)


@dataclass(frozen=True)
class Failure:
    """Something that could not be computed; the rest went on."""

    policy: str
    capacity_units: int
    error: Exception

    def __str__(self) -> str:
        kind = "" if isinstance(self.error, InputError) else f"{type(self.error).__name__}: "
        return f"{self.policy} at {self.capacity_units} units: {kind}{self.error}"


def compare(
    instance: Instance,
    policies: Sequence[str | EvictionPolicy] = ("llru", "rlt"),
    capacities: Sequence[int | str] | int | str = ("5%",),
    *,
    seeds: int = 16,
    key: jax.Array | None = None,
    admission: Admission = "forced",
    oversize: Oversize = "error",
    method: Method = "belady",
    solver: str | None = None,
    time_limit: float | None = None,
    kind: Kind = "strict",
    confidence: float = 0.95,
    interval: Interval = "bootstrap",
    warmup: int = 0,
    batching: Batching = "auto",
    failures: list[Failure] | None = None,
    finished: Callable[[Comparison], object] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> list[Comparison]:
    """Run eviction policies on a request sequence and compare each with the offline optimum.

    Parameters
    ----------
    instance
        The request sequence.
    policies
        Names with parameters (``"rlt:phase=query"``), or policies.
    capacities
        Units (``64``), tokens (``"192000tok"``) or per cent of the distinct units (``"5%"``).
    seeds
        Lanes of a randomised policy; lane s uses ``fold_in(key, s)``. Others run once.
    key
        Typed PRNG key; ``jax.random.key(0)`` if None.
    admission
        Of the optimum: ``"forced"`` as the policies, or ``"bypass"``, a bound on every policy.
    oversize
        ``"error"``, ``"truncate"`` or ``"skip"`` for queries longer than the capacity.
    method, solver, time_limit
        ``"belady"``, or ``"lp"`` for the interval linear program, with a cvxpy solver (HiGHS by
        default) and its seconds; if they run out, the optimum and the ratio are intervals.
    kind, confidence, interval
        As in `empirical_ratio` (``interval`` is its ``method``).
    warmup
        Queries that are served but not counted. The optimum of the others starts with whatever
        cache is best for them, so that it bounds every policy (`kvtheory.offline.window`).
    batching
        As in `simulate`.
    failures
        If given, what goes wrong with one policy or capacity is appended here and the rest
        goes on; otherwise it is raised.
    finished
        Called with each row as soon as it is there.
    progress
        Called with a description and the share just finished of a piece of work. The pieces are,
        for every capacity, the optimum (twice for asymptotic ratios) and each policy.

    Returns
    -------
    list of Comparison
        Capacity by capacity, policies in the order given.

    Raises
    ------
    InputError
        For bad arguments: before any work is done where possible.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1], [2], [3], [1], [2], [3]])
    >>> rows = compare(instance, ["llru", "fifo"], 2)
    >>> [(row.policy, row.misses, row.optimum_low, row.ratio) for row in rows]
    [('llru', 6, 4, 1.5), ('fifo', 6, 4, 1.5)]
    """
    if isinstance(capacities, int | str):
        capacities = [capacities]
    for name, values in (("policies", policies), ("capacities", capacities)):
        if not values:
            raise bad(name, [], "name at least one")
    job = _Job(
        instance,
        admission,
        oversize,
        method,
        solver,
        time_limit,
        kind,
        confidence,
        interval,
        warmup,
        seeds,
        key,
        batching,
        progress or (lambda what, done: None),
    )
    named = [(p, parse_policy(p)) if isinstance(p, str) else (label(p), p) for p in policies]
    units = list(dict.fromkeys(capacity_units(c, instance) for c in capacities))

    def attempt[**P, T](
        what: str, capacity: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        try:
            return work(*args, **kwargs)
        except Exception as error:
            if failures is None:
                raise
            failures.append(Failure(what, capacity, error))
            return None

    fitting = [b for b in units if attempt("all", b, check_oversize, instance, b, oversize)]
    rows = []
    for capacity in fitting:
        known = attempt("optimum", capacity, job.optimum, capacity)
        for name, policy in named:
            row = attempt(name, capacity, job.run, name, policy, capacity, known)
            if row is not None:
                rows.append(row)
                if finished is not None:
                    finished(row)
    return rows


@dataclass(frozen=True)
class _Job:
    """What all rows have in common."""

    instance: Instance
    admission: Admission
    oversize: Oversize
    method: Method
    solver: str | None
    time_limit: float | None
    kind: Kind
    confidence: float
    interval: Interval
    warmup: int
    seeds: int
    key: jax.Array | None
    batching: Batching
    tell: Callable[[str, float], object]

    def __post_init__(self) -> None:
        check_ratio_options(self.kind, self.confidence, self.interval)
        _check("admission", self.admission, get_args(Admission))
        _check("oversize", self.oversize, get_args(Oversize))
        _check("method", self.method, get_args(Method))
        if self.seeds < 1:
            raise bad("seeds", self.seeds, "must be at least 1")
        if not 0 <= self.warmup < max(1, self.instance.requests):
            rule = f"must be a number of queries below {self.instance.requests}"
            raise bad("warmup", self.warmup, rule)
        if self.warmup and (self.kind, self.method, self.oversize) != ("strict", "belady", "error"):
            rule = "goes with strict ratios, Belady's rule and queries that fit the cache"
            raise bad("warmup", self.warmup, rule)
        if self.instance.after(self.warmup).units_requested == 0:
            rule = "asks for no units, so there is nothing to cache"
            raise bad("instance", self.instance.name, rule)

    def optimum(self, capacity: int) -> tuple[Optimum, ...]:
        """The optimum of the whole sequence and, for asymptotic ratios, of its first half."""
        if self.warmup:
            self.tell(f"optimum, {capacity} units", 0.0)
            window = window_optimum(self.instance, capacity, self.warmup, admission=self.admission)
            self.tell(f"optimum, {capacity} units", 1.0)
            return (replace(window.optimum, lower=window.lower, upper=window.upper),)
        parts = [self.instance]
        if self.kind == "asymptotic":
            parts.append(self.instance.prefix(self.instance.requests // 2))
        out = []
        for part in parts:
            self.tell(f"optimum, {capacity} units", 0.0)
            out.append(
                optimum(
                    part,
                    capacity,
                    admission=self.admission,
                    method=self.method,
                    oversize=self.oversize,
                    solver=self.solver,
                    time_limit=self.time_limit,
                )
            )
            self.tell(f"optimum, {capacity} units", 1.0)
        return tuple(out)

    def run(
        self,
        name: str,
        policy: EvictionPolicy,
        capacity: int,
        known: tuple[Optimum, ...] | None,
    ) -> Comparison:
        """One policy beside the optimum."""
        what = f"{name}, {capacity} units"
        lanes = self.seeds if policy.randomised else 1
        self.tell(what, 0.0)
        result = simulate(
            self.instance,
            capacity,
            policy,
            seeds=lanes,
            key=self.key,
            oversize=self.oversize,
            batching=self.batching,
            keep="totals",
            cuts=[self.warmup, self.instance.requests // 2],
            progress=lambda done: self.tell(what, done / lanes),
        )
        if self.warmup:
            result = result.after(self.warmup)
        return comparison_row(
            name,
            policy,
            result,
            known,
            admission=self.admission,
            oversize=self.oversize,
            method=self.method,
            kind=self.kind,
            confidence=self.confidence,
            interval=self.interval,
            warmup=self.warmup,
        )


def comparison_row(
    name: str,
    policy: EvictionPolicy,
    result: Result,
    known: tuple[Optimum, ...] | None,
    *,
    admission: Admission,
    oversize: Oversize,
    method: str = "belady",
    kind: Kind = "strict",
    confidence: float = 0.95,
    interval: Interval = "bootstrap",
    warmup: int = 0,
) -> Comparison:
    """What a run comes to beside the optimum.

    Parameters
    ----------
    name, policy, result
        How the policy was written, the policy, and its run.
    known
        The optimum, last that of the first half if the ratio is asymptotic; None if it failed.
    method
        How the optimum was to be computed.
    admission, oversize, kind, confidence, interval, warmup
        As for `compare`.
    """
    instance, capacity = result.instance, result.capacity
    if known is None:
        nan = math.nan
        ratio = Ratio(nan, nan, nan, kind, confidence, "exact", result.seeds)
        ratio = replace(ratio, note="the optimum could not be computed")
    else:
        ratio = empirical_ratio(
            result,
            known[0],
            kind=kind,
            half=known[-1],
            confidence=confidence,
            method=interval,
            randomised=policy.randomised,
        )
    # the closed forms are for caches that start empty, on both sides
    limit = None
    if not warmup:
        limit = bound_of(label(policy), instance, capacity, admission=admission, oversize=oversize)

    def mean(values: np.ndarray) -> float:
        # equal lanes are one number: an integer stays one
        return values[0].item() if not policy.randomised else float(values.mean())

    return Comparison(
        source=instance.source or instance.name,
        policy=name,
        admission=admission,
        oversize=oversize,
        capacity_units=capacity,
        requests=instance.requests,
        units=instance.units_requested,
        units_distinct=instance.tree.units,
        hits=mean(result.total_hits),
        misses=mean(result.misses),
        hit_rate_units=mean(result.hit_rate_units),
        hit_rate_tokens=mean(result.hit_rate_tokens),
        hit_rate_requests=mean(result.hit_rate_requests),
        seeds=result.seeds,
        warmup=warmup,
        kind=kind,
        confidence=confidence,
        interval=ratio.method,
        ratio=ratio.mean,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        bound=limit,
        optimum_low=known[0].lower if known else math.nan,
        optimum_high=known[0].upper if known else math.nan,
        method=known[0].method if known else method,
        seconds=result.seconds,
        compile_seconds=result.compile_seconds,
        optimum_seconds=sum(part.seconds for part in known) if known else math.nan,
        note="; ".join(text for text in (ratio.note, *_troubles(known or ())) if text),
    )


def _troubles(known: Iterable[Optimum]) -> Iterable[str]:
    return dict.fromkeys(f"optimum: {o.status}" for o in known if o.status != "optimal")


def _check(name: str, value: str, options: Iterable[str]) -> str:
    if value not in options:
        raise bad(name, value, f"must be one of {', '.join(options)}")
    return value
