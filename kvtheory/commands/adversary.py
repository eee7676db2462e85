"""``kvtheory adversary``: a hard request sequence for one policy, and how hard it is."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from kvtheory.commands.output import Progress, check_files, naming, print_json
from kvtheory.report.table import Column, count, decimal, duration, interval, table

if TYPE_CHECKING:
    from kvtheory.instance import Instance
    from kvtheory.ratio.empirical import Ratio


@dataclass(frozen=True, kw_only=True)
class Options:
    """Make a hard request sequence for a policy, and say how hard it is.

    NAME is a generator with parameters (kvtheory generators lists them), or search: an evolutionary
    search on a small tree. For eviction policies the ratio is that of misses to the optimum, cold
    start forgotten; for instances made for routers (greedy_trap, tournament, affinity_trap,
    load_trap, partition_gadget) that of the makespan to the least one, on the cluster that goes
    with them.

    Example: kvtheory adversary search --against rlt --tree chains:n=3,length=2 --capacity 4
    -o hard.jsonl
    """

    name: Annotated[str, Positional, arg(metavar="NAME|search")]
    """A generator with parameters, or search."""
    against: str | None = None
    """The policy: an eviction policy (llru by default), or for an instance made for routers a
    router (lbgr by default)."""
    out: Annotated[str | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Write the sequence into a .jsonl or .npz file."""
    force: bool = False
    """Replace an existing file."""
    capacity: str | None = None
    """Capacity; by default the one that the generator is told."""
    seeds: int = 256
    """Seeds of a randomised policy, one run each, on which the sequence is judged."""
    seed: int = 0
    """Seed of the policy, and of the search."""
    confidence: float = 0.95
    """Level of the interval over seeds."""
    tree: str = "star:leaves=4"
    """Of search: star:leaves=4, broom:L=2,leaves=3 (a path of L - 1 units with leaves below),
    chains:n=3,length=2 or parents:-1,0,0,1."""
    queries: tuple[str, ...] = ("all",)
    """Of search: where queries may end: all, leaves, or the numbers of some units."""
    length: int = 12
    """Of search: most queries of the sequence that is repeated."""
    population: int = 64
    """Of search: sequences in a generation."""
    generations: int = 150
    """Of search: generations."""
    budget: float | None = None
    """Of search: seconds after which no new generation begins."""
    checkpoint: Annotated[str | None, arg(metavar="FILE")] = None
    """Of search: a .npz file for its state after each generation; if it is there, the search goes
    on from it."""
    json: bool = False
    """Print a JSON object instead of the table."""


def run(options: Options) -> int:
    """Print how hard the sequence is, and write it."""
    from kvtheory.errors import InputError, bad, check_seed, unknown

    check_seed(options.seed)
    if options.seeds < 1:
        raise bad("seeds", options.seeds, "must be at least 1")
    check_files(out=options.out, checkpoint=options.checkpoint)
    if options.out is not None:
        if not options.out.removesuffix(".gz").removesuffix(".xz").endswith((".jsonl", ".npz")):
            raise bad("out", options.out, "must end in .jsonl or .npz (or these with .gz or .xz)")
        if Path(options.out).exists() and not options.force:
            raise InputError(f"{options.out} exists; pass --force to replace it")
    name = options.name.partition(":")[0].strip()
    began = time.perf_counter()
    if name == "search":
        row, instance = _searched(options)
    else:
        from kvtheory.instances import GENERATORS, TRAPS

        if name not in GENERATORS:
            raise unknown("generator", name, [*GENERATORS, "search"])
        row, instance = (_trap if name in TRAPS else _generated)(options)
    row["requests"] = instance.requests
    row["seconds"] = time.perf_counter() - began
    if options.json:
        print_json(row)
    else:
        print(describe(row))
    if options.out is not None:
        from kvtheory.traces import write

        with naming(options.out):
            write(instance, options.out)
        print(f"{options.out}: {instance.requests:,} requests", file=sys.stderr)
    return 0


def _searched(options: Options) -> "tuple[dict[str, Any], Instance]":
    from kvtheory.commands.exact import asked
    from kvtheory.errors import InputError
    from kvtheory.ratio.search import search

    if options.name.strip() != "search":
        raise InputError(f"{options.name!r}: search has options, such as --length, not parameters")
    with Progress(options.generations + 1) as progress:
        result = search(
            "llru" if options.against is None else options.against,
            options.tree,
            _whole(options.capacity),
            queries=asked(options.queries),
            length=options.length,
            population=options.population,
            generations=options.generations,
            seed=options.seed,
            budget=options.budget,
            checkpoint=options.checkpoint,
            final_seeds=options.seeds,
            confidence=options.confidence,
            progress=progress,
        )
    told = f"{result.generations} generations of {options.population} on {options.tree}"
    row = _row(f"search: {told}", result.policy, result.ratio, "misses", result.capacity)
    row["cycle"] = list(result.cycle)
    row["stopped"] = result.stopped
    return row, result.instance()


def _generated(options: Options) -> "tuple[dict[str, Any], Instance]":
    import jax

    from kvtheory.cluster import capacity_units
    from kvtheory.errors import InputError
    from kvtheory.eviction import policy as parse_policy
    from kvtheory.instances import generate
    from kvtheory.offline.optimum import optimum
    from kvtheory.parameters import label
    from kvtheory.ratio.empirical import empirical_ratio
    from kvtheory.simulate import simulate

    against = "llru" if options.against is None else options.against
    policy = parse_policy(against)
    instance = generate(_told(options.name, "policy", against))
    capacity = options.capacity
    if capacity is None:
        capacity = instance.parameters.get("capacity")
    if capacity is None:
        raise InputError(f"{instance.name!r} is made for any capacity: pass --capacity")
    size = capacity_units(capacity, instance)  # type: ignore[arg-type]
    result = simulate(
        instance,
        size,
        policy,
        seeds=options.seeds if policy.randomised else 1,
        key=jax.random.fold_in(jax.random.key(options.seed), 1),  # not what it was made with
    )
    ratio = empirical_ratio(
        result,
        optimum(instance, size),
        kind="asymptotic",
        half=optimum(instance.prefix(instance.requests // 2), size),
        confidence=options.confidence,
        randomised=policy.randomised,
    )
    return _row(instance.source, label(policy), ratio, "misses", size), instance


def _trap(options: Options) -> "tuple[dict[str, Any], Instance]":
    import jax

    from kvtheory.eviction import policy
    from kvtheory.instances import least_makespan, with_cluster
    from kvtheory.parameters import label
    from kvtheory.ratio.empirical import ratio_of_means
    from kvtheory.routing import router as parse_router
    from kvtheory.simulate_cluster import simulate_cluster

    against = "lbgr" if options.against is None else options.against
    router = parse_router(against)
    instance, cluster = with_cluster(_told(options.name, "router", against))
    randomised = router.randomised
    result = simulate_cluster(
        instance,
        cluster,
        router,
        policy("llru"),
        view="oracle",
        seeds=options.seeds if randomised else 1,
        key=jax.random.key(options.seed),
    )
    ratio = ratio_of_means(
        result.makespan,
        least_makespan(instance),
        confidence=options.confidence,
        randomised=randomised,
    )
    size = int(cluster.capacity[0])
    row = _row(instance.source, label(router), ratio, "makespan", size)
    row["workers"] = cluster.workers
    return row, instance


def _told(name: str, key: str, against: str) -> str:
    """The generator's text; one that adapts to a policy is told which, unless it is already."""
    import inspect

    from kvtheory.instances import GENERATORS

    kind, _, rest = name.partition(":")
    wanted = inspect.signature(GENERATORS[kind]).parameters if kind in GENERATORS else {}
    if key not in wanted or any(part.strip().startswith(f"{key}=") for part in rest.split(",")):
        return name
    return f"{kind}:{rest}{',' if rest else ''}{key}=[{against}]"


def _whole(capacity: str | None) -> int:
    from kvtheory.errors import InputError, bad

    if capacity is None:
        raise InputError("search needs --capacity, in units")
    try:
        return int(capacity)
    except ValueError:
        raise bad("capacity", capacity, "must be a whole number of units") from None


def _row(source: str, policy: str, ratio: "Ratio", objective: str, capacity: int) -> dict[str, Any]:
    return {
        "source": source,
        "against": policy,
        "objective": objective,
        "capacity_units": capacity,
        "ratio": ratio.mean,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "kind": ratio.kind,
        "confidence": ratio.confidence,
        "seeds": ratio.seeds,
        "note": ratio.note,
    }


def describe(row: dict[str, Any]) -> str:
    """The row as text."""
    what = "makespan over the least makespan"
    if row["objective"] == "misses":
        what = "misses over those of the optimum, forced admission, cold start forgotten"
    lines = [row["source"], f"{what}; interval at {100 * row['confidence']:g} % over seeds", ""]
    columns = [
        Column("policy", right=False),
        Column("capacity", "units"),
        Column("length", "queries"),
        Column("ratio"),
        Column("interval"),
        Column("seeds"),
        Column("time", "s"),
    ]
    body = [
        row["against"],
        count(row["capacity_units"]),
        count(row["requests"]),
        decimal(row["ratio"]),
        interval(row["ratio_low"], row["ratio_high"]),
        count(row["seeds"]),
        duration(row["seconds"]),
    ]
    lines.append(table(columns, [body]))
    if "cycle" in row:
        cycle = " ".join(map(str, row["cycle"]))
        lines += ["", f"repeated for ever: queries that end at units {cycle}"]
        if row["stopped"] == "budget":
            lines.append("the budget ran out before the generations did")
    if row["note"]:
        lines += ["", row["note"]]
    return "\n".join(lines)
