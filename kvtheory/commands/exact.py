"""``kvtheory exact``: exact competitive ratios on small trees, with worst cases."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtheory.commands.output import Progress, print_json
from kvtheory.report.table import MISSING, Column, count, decimal, duration, table

if TYPE_CHECKING:
    from kvtheory.ratio.exact_engine import Exact

CYCLE_SHOWN = 24


@dataclass(frozen=True, kw_only=True)
class Options:
    """The exact competitive ratio of eviction policies on a small tree, and what reaches it.

    Example: kvtheory exact --tree broom:L=2,leaves=4 --capacity 4 --queries leaves
    --eviction rlt llru
    """

    tree: str
    """star:leaves=4, broom:L=2,leaves=4 (a path of L - 1 units with leaves below),
    chains:n=3,length=2 or parents:-1,0,0,1; at most 15 units."""
    capacity: tuple[int, ...]
    """Capacities in units."""
    queries: tuple[str, ...] = ("all",)
    """Where queries may end: all, leaves, or the numbers of some units."""
    eviction: tuple[str, ...] = ("llru", "rlt")
    """Policies: llru, fifo, mru, slru, lfu:cap=3, rlt, lrlt, lrlt:stem=true,
    layered:victim=priority; random_leaf and rlt:phase=query get bounds."""
    max_states: int = 2_000_000
    """States at which a search stops, with what it has."""
    time_limit: float | None = None
    """Seconds for each policy."""
    check: bool = False
    """Check each proof by literal means: about a millisecond a state and query."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""


def run(options: Options) -> int:
    """Print the ratios."""
    from kvtheory.ratio.exact_engine import exact, forest

    tree = forest(options.tree)
    queries = asked(options.queries)
    rows: list[Exact] = []
    pieces = len(options.capacity) * len(options.eviction)
    try:
        with Progress(pieces) as progress:
            for capacity in options.capacity:
                for policy in options.eviction:

                    def tell(what: str, done: float, policy: str = policy) -> None:
                        progress(f"{policy}: {what}", done)

                    result = exact(
                        policy,
                        tree,
                        capacity,
                        queries=queries,
                        max_states=options.max_states,
                        time_limit=options.time_limit,
                        progress=tell,
                    )
                    if options.check:
                        tell("checking the proof", 0.0)
                        check(result)
                    rows.append(result)
    finally:  # an interrupt keeps what is finished
        if rows:
            if options.json:
                print_json([as_dict(row, options.tree) for row in rows])
            else:
                print(describe(rows, options.tree, checked=options.check))
    for row in rows:
        if row.status in ("states", "time"):
            print(f"kvtheory: {row.policy} at {row.capacity} units: {why(row)}", file=sys.stderr)
    return 0


def check(result: "Exact") -> None:
    """Check whatever proofs a result has by literal means."""
    from kvtheory.testing.check_exact import check_adaptive_bound, check_exact_certificate

    if result.status in ("exact", "unbounded"):
        check_exact_certificate(result)
    if result.adaptive is not None:
        check_adaptive_bound(result)


def asked(queries: Sequence[str]) -> "str | list[int]":
    """The option ``--queries`` as the engine takes it."""
    from kvtheory.errors import bad

    if len(queries) == 1 and queries[0] in ("all", "leaves"):
        return queries[0]
    try:
        return [int(q) for q in queries]
    except ValueError:
        raise bad(
            "queries", " ".join(queries), "must be all, leaves, or numbers of units"
        ) from None


def why(row: "Exact") -> str:
    """What a stopped search has to say."""
    bound = "no bound on the states is known"
    if row.states_bound is not None:
        bound = f"at most {row.states_bound:,} states are needed"
    limit = "--max-states" if row.status == "states" else "--time-limit"
    return f"stopped at {row.states:,} states ({limit}): a lower bound; {bound}"


def as_dict(row: "Exact", tree: str) -> dict[str, Any]:
    """A row for JSON; fractions as text."""
    return {
        "policy": row.policy,
        "tree": tree,
        "capacity": row.capacity,
        "queries": list(row.queries),
        "ratio": row.ratio,
        "fraction": None if row.fraction is None else str(row.fraction),
        "states": row.states,
        "cycle": list(row.cycle),
        "seconds": row.seconds,
        "prefix": list(row.prefix),
        "cycle_cost": str(row.cycle_cost),
        "cycle_optimum": row.cycle_optimum,
        "status": row.status,
        "upper": None if row.upper is None else float(row.upper),
        "edges": row.edges,
        "automorphisms": row.automorphisms,
        "states_bound": row.states_bound,
        "parents": list(row.parents),
    }


def describe(rows: "Sequence[Exact]", tree: str, *, checked: bool) -> str:
    """The rows as text."""
    first = rows[0]
    lines = [
        f"{tree}: {count(len(first.parents))} units, queries end at {len(first.queries)} of them; "
        "forced admission, misses",
        "a cycle lists the units at which its queries end; repeated, it reaches the ratio"
        + ("; proofs checked" if checked else ""),
        "",
    ]
    columns = [
        Column("capacity", "units"),
        Column("policy", right=False),
        Column("ratio"),
        Column("exactly"),
        Column("upper"),
        Column("states"),
        Column("time", "s"),
        Column("worst cycle", right=False),
    ]
    body = [
        [
            count(row.capacity),
            row.policy,
            ("" if row.status in ("exact", "unbounded") else ">= ") + decimal(row.ratio),
            MISSING if row.fraction is None else short(str(row.fraction)),
            _upper(row),
            count(row.states),
            duration(row.seconds),
            _cycle(row.cycle),
        ]
        for row in rows
    ]
    return "\n".join([*lines, table(columns, body)])


def short(fraction: str) -> str:
    """A fraction, or a dash where its digits would fill the line."""
    return fraction if len(fraction) <= 16 else MISSING


def _upper(row: "Exact") -> str:
    if row.status == "unbounded":
        return decimal(math.inf)
    if row.upper is None:
        return MISSING
    # a bound that is no ratio is shown rounded up
    return decimal(float(row.upper) if row.adaptive is None else math.ceil(row.upper * 10**4) / 1e4)


def _cycle(cycle: Sequence[int]) -> str:
    shown = " ".join(map(str, cycle[:CYCLE_SHOWN]))
    return shown if len(cycle) <= CYCLE_SHOWN else f"{shown} … ({len(cycle)})"
