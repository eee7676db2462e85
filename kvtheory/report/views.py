"""The tables of a report: cells with the text that is shown and the value that sorts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvtheory.cross_table import CrossRow, Estimate
from kvtheory.ratio.comparison import Comparison
from kvtheory.report.data import Lane
from kvtheory.report.table import MISSING, count, decimal, duration


@dataclass(frozen=True)
class Heading:
    """A column: its title, the unit below it, and whether it holds numbers."""

    title: str
    unit: str = ""
    number: bool = True


@dataclass(frozen=True)
class Cell:
    """What is shown, a number to sort by if it is one, and a note in small print below."""

    text: str
    value: float | None = None
    note: str = ""
    code: bool = False


@dataclass(frozen=True)
class TableView:
    """A table of the page; rows of the policy ``optimum`` are set apart."""

    name: str
    caption: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]


def headline(rows: Sequence[Comparison], name: str) -> TableView:
    """Every policy at every capacity beside the optimum, ratios with their intervals."""
    body: list[tuple[Cell, ...]] = []
    seen: set[int] = set()
    for row in rows:
        # of an asymptotic ratio only the optimum of the second half is known
        if row.capacity_units not in seen and row.kind == "strict":
            seen.add(row.capacity_units)
            body.append(_optimum(row))
        body.append(
            (
                Cell(row.policy),
                _count(row.capacity_units),
                _number(row.ratio),
                _interval(row.ratio_low, row.ratio_high),
                _number(row.hit_rate_units),
                _number(row.hit_rate_tokens),
                _number(row.hit_rate_requests),
                _count(row.misses),
                _bound(row.bound),
                _count(row.seeds),
            )
        )
    first = rows[0]
    return TableView(
        f"{name}-headline",
        f"Policies and the optimum ({first.method.replace('_', ' ')}, {first.admission} "
        f"admission); {first.kind} ratios, intervals at {100 * first.confidence:g} % over the "
        "seeds of a policy",
        (
            Heading("policy", number=False),
            Heading("capacity", "units"),
            Heading("ratio", "to the optimum"),
            Heading("interval", f"at {100 * first.confidence:g} %"),
            Heading("hit rate", "units"),
            Heading("hit rate", "tokens"),
            Heading("hit rate", "requests"),
            Heading("misses", "units"),
            Heading("bound", "on the ratio"),
            Heading("seeds"),
        ),
        tuple(body),
    )


def cluster(rows: Sequence[CrossRow], name: str) -> TableView:
    """Routers × eviction policies; the columns that tell clusters apart only if they differ."""
    varying = [
        (Heading("workers"), lambda r: _count(r.workers)),
        (Heading("capacity", "units each"), lambda r: _count(r.capacity_units[0])),
        (
            Heading("rate", "queries/s"),
            lambda r: Cell(MISSING) if r.rate is None else _plain(r.rate),
        ),
        (Heading("view", number=False), lambda r: Cell(r.view)),
        (Heading("speeds", number=False), lambda r: Cell(_speeds(r.speed))),
    ]
    shown = [(head, of) for head, of in varying if len({of(row) for row in rows}) > 1]
    estimates = [
        (Heading("hit rate", "units"), "hit_rate_units", 4),
        (Heading("makespan", "s"), "makespan", None),
        (Heading("imbalance", "max/mean"), "imbalance", 3),
        (Heading("throughput", "queries/s"), "throughput", None),
        (Heading("latency", "P50 s"), "latency_p50", None),
        (Heading("latency", "P95 s"), "latency_p95", None),
        (Heading("latency", "P99 s"), "latency_p99", None),
    ]
    prompts_only = all(
        (r.ttft_p50, r.ttft_p95) == (r.latency_p50, r.latency_p95) for r in rows
    )  # nothing is put out, so that the first token is the end
    if not prompts_only:
        estimates += [
            (Heading("TTFT", "P50 s"), "ttft_p50", None),
            (Heading("TTFT", "P95 s"), "ttft_p95", None),
        ]
    first = rows[0]
    rate = "arrivals of the source" if first.rate is None else f"{first.rate:g} queries/s (Poisson)"
    same = len({(r.workers, r.capacity_units, r.rate, r.view) for r in rows}) == 1
    about = (
        f": {first.workers} workers of {count(first.capacity_units[0])} units, {rate}, "
        f"view {first.view}"
        if same
        else ""
    )
    return TableView(
        f"{name}-cluster",
        f"Routers and eviction policies{about}; intervals at {100 * first.confidence:g} % over "
        "the seeds" + ("; TTFT is the latency" if prompts_only else ""),
        (
            Heading("router", number=False),
            Heading("eviction", number=False),
            *(head for head, _ in shown),
            *(head for head, _, _ in estimates),
            Heading("seeds"),
        ),
        tuple(
            (
                Cell(row.router),
                Cell(row.eviction),
                *(of(row) for _, of in shown),
                *(_estimate(getattr(row, field), places) for _, field, places in estimates),
                _count(row.seeds),
            )
            for row in rows
        ),
    )


def worst(lanes: Sequence[Lane], name: str) -> TableView:
    """The worst seeds, and how to run each again."""
    return TableView(
        f"{name}-worst",
        "The seeds with most misses; seed s draws from jax.random.fold_in(key, s)",
        (
            Heading("policy", number=False),
            Heading("capacity", "units"),
            Heading("seed s"),
            Heading("ratio", "of this seed"),
            Heading("ratio", "mean"),
            Heading("misses", "units"),
            Heading("again", number=False),
        ),
        tuple(
            (
                Cell(lane.policy),
                _count(lane.capacity_units),
                Cell(str(lane.lane), lane.lane),
                _number(lane.ratio),
                _number(lane.mean_ratio),
                _count(lane.misses),
                Cell(lane.replay, code=True),
            )
            for lane in lanes
        ),
    )


def _speeds(speeds: Sequence[float]) -> str:
    return ", ".join(f"{s:g}" for s in (speeds[:1] if len(set(speeds)) == 1 else speeds))


def _optimum(row: Comparison) -> tuple[Cell, ...]:
    exact = row.optimum_low == row.optimum_high
    rate = 1 - row.optimum_high / row.units
    misses = _count(row.optimum_low)
    if not exact and math.isfinite(row.optimum_low):
        low, high = count(row.optimum_low), count(row.optimum_high)
        misses = Cell(f"{low}–{high}", row.optimum_high)
    ratio = _number(1.0) if exact else Cell(MISSING)
    nothing = Cell("")
    return (
        Cell("optimum"),
        _count(row.capacity_units),
        ratio,
        nothing,
        _number(rate),
        nothing,
        nothing,
        misses,
        nothing,
        nothing,
    )


def _number(value: float, places: int = 4) -> Cell:
    return Cell(decimal(value, places), value if math.isfinite(value) else None)


def _interval(low: float, high: float) -> Cell:
    if low == high:
        return Cell("")
    told = [decimal(end) for end in (low, high)]
    return Cell(
        MISSING if MISSING in told else " … ".join(told), low if math.isfinite(low) else None
    )


def _count(value: float) -> Cell:
    return Cell(count(value), value if math.isfinite(value) else None)


def _plain(value: float) -> Cell:
    return Cell(f"{value:g}", value)


def _bound(value: float | None) -> Cell:
    if value is None:
        return Cell(MISSING)
    return _count(value) if value % 1 == 0 else _number(value, 2)


def _estimate(value: Estimate, places: int | None) -> Cell:
    show = duration if places is None else lambda x: decimal(x, places)
    ends = dict.fromkeys([show(value.low), show(value.mean), show(value.high)])
    note = f"{show(value.low)} … {show(value.high)}" if len(ends) > 1 else ""
    if MISSING in ends:  # one draw has no interval
        note = ""
    return Cell(show(value.mean), value.mean if math.isfinite(value.mean) else None, note)
