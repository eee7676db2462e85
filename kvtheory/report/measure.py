"""A report of one comparison: runs the policies once and keeps what the page needs of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax

from kvtheory.cluster import capacity_units
from kvtheory.curve.points import CurvePoint, curve, optimum_point, policy_point, spread
from kvtheory.errors import InputError, bad, check_seed
from kvtheory.eviction import policy as parse_policy
from kvtheory.instance import Instance
from kvtheory.offline.optimum import Optimum, optimum
from kvtheory.offline.schedule import Admission
from kvtheory.oversize import Oversize, check_oversize
from kvtheory.ratio.comparison import Comparison, comparison_row
from kvtheory.ratio.empirical import Interval, check_ratio_options
from kvtheory.report.data import SourceReport, methods_of
from kvtheory.report.inside import look_inside
from kvtheory.report.worst import LaneRun, worst_lanes
from kvtheory.rows import check_queries_alone
from kvtheory.simulate import simulate_capacities
from kvtheory.sweep.source import digest

POINTS = 32  # capacities of the curves that take one pass


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is compared.

    Parameters
    ----------
    policies, capacities
        As for `kvtheory.ratio.compare`.
    detail
        Capacity at which the cache is looked into; by default the middle one of those given.
    seeds, seed
        Lanes of a randomised policy; lane s uses ``fold_in(jax.random.key(seed), s)``.
    admission, oversize, confidence, interval
        As for `kvtheory.ratio.compare`.
    """

    policies: tuple[str, ...] = ("llru", "rlt")
    capacities: tuple[str, ...] = ("5%",)
    detail: str | None = None
    seeds: int = 16
    seed: int = 0
    admission: Admission = "forced"
    oversize: Oversize = "error"
    confidence: float = 0.95
    interval: Interval = "bootstrap"

    def __post_init__(self) -> None:
        for name in ("policies", "capacities"):
            if not getattr(self, name):
                raise bad(name, [], "name at least one")
        for name in self.policies:
            parse_policy(name)
        if self.seeds < 1:
            raise bad("seeds", self.seeds, "must be at least 1")
        check_seed(self.seed)
        check_ratio_options("strict", self.confidence, self.interval)


def measure(
    instance: Instance,
    question: Question,
    *,
    name: str = "",
    call: str = "",
    failures: list[str] | None = None,
    progress: Callable[[str, float], object] | None = None,
) -> SourceReport:
    """Compare policies with the optimum on one sequence, and look into the cache.

    The rows are those of `kvtheory.ratio.compare`, times apart; here every policy runs at all
    capacities in one call, and its lanes are kept for the worst of them.

    Parameters
    ----------
    instance
        The request sequence.
    question
        What is compared.
    name
        What the source is called on the page; its own name by default.
    call
        Python that makes the instance, for who wants to run a lane again.
    failures
        If given, what goes wrong with one policy is appended here as text and the rest goes on;
        otherwise it is raised.
    progress
        Called with a description and the share just finished of a piece of work: of each
        capacity's optimum, each policy, the curves, and the look into the cache.

    Raises
    ------
    InputError
        For bad input, before any work is done where possible.
    """
    if instance.units_requested == 0:
        raise bad("instance", instance.name, "asks for no units, so there is nothing to cache")
    check_queries_alone(instance, "the optimum")
    units = sorted({capacity_units(c, instance) for c in question.capacities})
    detail = units[(len(units) - 1) // 2]
    if question.detail is not None:
        detail = capacity_units(question.detail, instance)
    for capacity in sorted({*units, detail}):
        check_oversize(instance, capacity, question.oversize)
    tell = progress or (lambda what, done: None)
    name = name or instance.source or instance.name
    key = jax.random.key(question.seed)

    best: dict[int, Optimum] = {}
    for capacity in sorted({*units, detail}):
        tell(f"optimum, {capacity} units", 0.0)
        best[capacity] = optimum(
            instance, capacity, admission=question.admission, oversize=question.oversize
        )
        tell(f"optimum, {capacity} units", 1.0)
    rows: list[Comparison] = []
    points: list[CurvePoint] = []
    runs: list[LaneRun] = []
    working = []
    for policy in dict.fromkeys(question.policies):
        tell(policy, 0.0)
        lanes = question.seeds if parse_policy(policy).randomised else 1
        pieces = lanes * len(units)
        told = 0

        def step(done: int, policy: str = policy, pieces: int = pieces) -> None:
            nonlocal told
            told += done
            tell(policy, done / pieces)

        try:
            results = simulate_capacities(
                instance,
                units,
                parse_policy(policy),
                seeds=lanes,
                key=key,
                oversize=question.oversize,
                keep="totals",
                progress=step,
            )
        except Exception as error:
            if failures is None:
                raise
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            failures.append(f"{policy}: {kind}{error}")
        else:
            working.append(policy)
            rule = parse_policy(policy)
            mine = [
                comparison_row(
                    policy,
                    rule,
                    result,
                    (best[result.capacity],),
                    admission=question.admission,
                    oversize=question.oversize,
                    confidence=question.confidence,
                    interval=question.interval,
                )
                for result in results
            ]
            rows += mine
            points += [
                policy_point(
                    policy,
                    result,
                    randomised=rule.randomised,
                    oversize=question.oversize,
                    confidence=question.confidence,
                )
                for result in results
            ]
            for row, result in zip(mine, results, strict=True):
                runs.append(LaneRun(row, question.seed, result.misses))
        tell(policy, 1 - told / pieces)
    if not rows:
        return SourceReport(name=name, call=call)
    tell("curves", 0.0)
    points = _curves(instance, question, working, points, {b: best[b] for b in units})
    tell("curves", 1.0)
    tell("inside the cache", 0.0)
    inside = look_inside(
        instance,
        detail,
        working,
        key=key,
        optimum=best[detail],
        oversize=question.oversize,
    )
    tell("inside the cache", 1.0)
    rows.sort(key=lambda row: row.capacity_units)  # stable: policies stay in the order given
    return SourceReport(
        name=name,
        call=call,
        digest=digest(instance),
        rows=tuple(rows),
        points=tuple(points),
        worst=worst_lanes(runs),
        methods=methods_of(instance),
        inside=inside,
    )


def _curves(
    instance: Instance,
    question: Question,
    working: Sequence[str],
    points: list[CurvePoint],
    best: Mapping[int, Optimum],
) -> list[CurvePoint]:
    """Leaf LRU and the optimum at many capacities, what has no such pass where it was run."""
    every = sorted({*spread(instance, POINTS), *best})
    if question.oversize != "error":  # below the longest query there is no single pass
        every = list(best)
    whole = ["llru"] if "llru" in working else []
    forced = question.admission == "forced"
    dense = []
    if whole or forced:
        dense = curve(
            instance,
            whole,
            every,
            optimum=forced,
            oversize=question.oversize,
            confidence=question.confidence,
        )
    if not forced:
        dense += [
            optimum_point(
                instance,
                capacity,
                (int(known.upper), int(known.lower)),
                oversize=question.oversize,
                method=known.method,
                seconds=known.seconds,
            )
            for capacity, known in best.items()
        ]
    by_policy: dict[str, list[CurvePoint]] = {name: [] for name in working}
    for point in [*(p for p in points if p.policy not in whole), *dense]:
        by_policy.setdefault(point.policy, []).append(point)
    return [point for some in by_policy.values() for point in some]
