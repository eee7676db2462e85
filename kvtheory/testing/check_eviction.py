"""`check_eviction`: what every eviction policy has to satisfy, on many tiny random instances.

For authors of policies. Nothing beyond the package itself is needed.
"""

import dataclasses
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.step import FAULTS, OK
from kvtheory.testing.driver_law import TooManyRuns, check_scriptable, driver_law
from kvtheory.testing.exhaustive import optimum_by_search
from kvtheory.testing.law import law
from kvtheory.testing.small_cases import Case, random_cases, smallest_failing
from kvtheory.testing.small_driver import (
    WIDE,
    Run,
    compilations,
    run_eagerly,
    run_lanes,
    run_small,
    small_tape,
)
from kvtheory.tree import PrefixTree

__all__ = ["CheckFailed", "Report", "check_eviction"]

TwinFactory = Callable[..., Any]
"""``twin(capacity)`` for a deterministic policy, ``twin(capacity, choose=…)`` for another one."""

Problem = Callable[[Case], str | None]


class CheckFailed(AssertionError):
    """A policy does not satisfy a check; the message holds the smallest failing case found.

    Attributes
    ----------
    check
        Name of the check, as in `Report.ran`.
    case
        The smallest failing case.
    """

    def __init__(self, policy: str, check: str, problem: str, case: Case) -> None:
        super().__init__(f"{policy!r} fails the check {check!r}: {problem}; smallest case: {case}")
        self.check = check
        self.case = case


@dataclass(frozen=True)
class Report:
    """What `check_eviction` did.

    Parameters
    ----------
    policy
        Name of the policy.
    ran
        The checks that it passed, and on how many instances each.
    skipped
        The checks that do not apply, and why.
    seconds
        Wall time.
    """

    policy: str
    ran: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def check_eviction(
    policy: EvictionPolicy,
    *,
    twin: TwinFactory | None = None,
    examples: int = 60,
    seed: int = 0,
) -> Report:
    """Check a policy on seeded random instances of at most 12 units and 16 queries.

    Parameters
    ----------
    policy
        The policy. One that overrides `EvictionPolicy.unfinished` frees whole nodes, any other
        must evict no more than is needed.
    twin
        What makes a plain-Python twin of it (`kvtheory.testing.TWINS`), to be compared query by
        query; if the policy is randomised, by the exact law of its hits.
    examples, seed
        How many instances, and of which stream. Dear checks look at fewer of them.

    Returns
    -------
    Report
        Which checks ran:

        ``rules``
            The driver finds no fault, no policy state holds a NaN, and after every query the
            cache is ancestor-closed, within the capacity, holds the query that was served (with
            forced admission) and nothing that was neither there nor asked for. Nothing goes
            without need. A query that does not fit changes nothing.
        ``labels``
            Other token ids change nothing, nor does (if deterministic) another numbering of the
            edges.
        ``future``
            Later requests do not change earlier caches; for policies that are online.
        ``twin``
            The hits are those of the twin.
        ``optimum``
            No fewer misses than the optimum.
        ``compilation``
            Other instances, capacities, keys and hyper-parameters of equal shape and type compile
            nothing anew.
        ``padding``
            Longer arrays change nothing.
        ``lanes``
            Lanes do not see one another, by ``map`` and by ``vmap``.
        ``eager``
            The compiled driver does what its operations do one by one.

    Raises
    ------
    CheckFailed
        An `AssertionError` with the name of the check and the smallest failing case found.

    Examples
    --------
    >>> from kvtheory.eviction import LeafLRU
    >>> from kvtheory.testing import TWINS
    >>> report = check_eviction(LeafLRU(), twin=TWINS["llru"], examples=5)
    >>> report.ran["twin"], report.skipped
    (5, {})
    """
    begin = time.perf_counter()
    ran: dict[str, int] = {}
    skipped: dict[str, str] = {}

    def check(
        name: str, problem: Problem, share: float, *, most: int | None = None, **bounds: Any
    ) -> None:
        ran.setdefault(name, 0)
        size = max(1, round(share * examples))
        for case in random_cases(size, zlib.crc32(f"{name} {seed}".encode()), **bounds):
            found = problem(case)
            if found:
                case = smallest_failing(case, problem)
                raise CheckFailed(policy.name, name, problem(case) or found, case)
            ran[name] += found is not None
            if ran[name] == most:
                break

    check("rules", partial(_broken_rules, policy), 1)
    check("rules", partial(_broken_rules, policy), 0.5, skip=True)
    check("labels", partial(_reads_labels, policy), 0.3)
    if policy.online:
        check("future", partial(_sees_ahead, policy), 0.5)
    else:
        skipped["future"] = "the policy is offline"
    if twin is None:
        skipped["twin"] = "no twin given"
    elif not policy.randomised:
        check("twin", partial(_unlike_twin, policy, twin), 1)
    elif reason := _not_scriptable(policy):
        skipped["twin"] = reason
    else:
        check("twin", partial(_unlike_law, policy, twin), 1)
    check("optimum", partial(_below_the_optimum, policy), 0.5, units=6, requests=9)
    # the checks up to here share one program, each of the others needs its own
    check("compilation", partial(_compiles, policy), 0.1)
    check("padding", partial(_feels_padding, policy), 0.3)
    check("lanes", partial(_mixes_lanes, policy), 0.1)
    check("eager", partial(_differs_eagerly, policy), 1, most=1, requests=10)
    return Report(policy.name, ran, skipped, time.perf_counter() - begin)


# Each of these returns what is wrong, an empty text, or None if the case says nothing.


def _broken_rules(policy: EvictionPolicy, case: Case) -> str:
    run = run_small(policy, case.instance, case.capacity, case.key)
    if run.fault != OK:
        return f"the policy {FAULTS[run.fault]}"
    if run.nan:
        return "the state of the policy holds a NaN"
    tree = run.instance.tree
    length, above = tree.length, np.append(tree.parent, -1)
    before = np.zeros(tree.edges, np.int32)
    for t, end in enumerate(run.instance.query.tolist()):
        slots = run.cache.cached[t]
        cached = slots[: tree.edges]
        on_path = np.isin(np.arange(tree.edges), tree.path(end))
        asked = np.where(on_path, length, 0)
        fits = asked.sum() <= case.capacity
        if run.hits[t] != before[on_path].sum():
            return f"query {t} has {run.hits[t]} hits with {before[on_path].sum()} units cached"
        if (cached < 0).any() or (cached > length).any() or slots[tree.edges :].any():
            return f"after query {t} an edge holds more units than it has, or fewer than none"
        held = np.flatnonzero((cached > 0) & (above[:-1] >= 0))
        if (cached[above[held]] < length[above[held]]).any():
            return f"after query {t} a unit is cached without its ancestors"
        if cached.sum() > case.capacity or cached.sum() != run.cache.used[t, 0]:
            return (
                f"{cached.sum()} units are cached after query {t}, {run.cache.used[t, 0]} counted"
            )
        if not fits:
            if (cached != before).any():
                return f"query {t} does not fit but changes the cache"
            continue
        most = np.maximum(before, asked)
        if (cached > most).any():
            return f"query {t} loads units that it does not contain"
        if policy.admission == "forced" and (cached < asked).any():
            return f"query {t} is not cached when it has been served"
        lazy = type(policy).unfinished is EvictionPolicy.unfinished
        if lazy and cached.sum() != min(case.capacity, most.sum()):
            return f"query {t} evicts more than it needs"
        before = cached
    return ""


def _unlike_twin(policy: EvictionPolicy, twin: TwinFactory, case: Case) -> str:
    hits = _hits(policy, case)
    expected = twin(case.capacity).run([list(s) for s in case.sequences])
    return "" if hits == expected else f"hits {hits}, the twin has {expected}"


def _not_scriptable(policy: EvictionPolicy) -> str:
    case = next(random_cases(1, 0))
    seen = case.instance.uncompressed() if policy.per_unit else case.instance
    try:
        check_scriptable(policy, small_tape(policy, seen, case.capacity))
    except InputError as error:
        return str(error)
    return ""


def _unlike_law(policy: EvictionPolicy, twin: TwinFactory, case: Case) -> str | None:
    sequences = [list(s) for s in case.sequences]
    try:
        mine = driver_law(policy, sequences, case.capacity, most_runs=1_000)
    except TooManyRuns:
        return None
    expected = law(twin, sequences, case.capacity)
    return "" if mine == expected else f"law of the hits {mine}, that of the twin {expected}"


def _below_the_optimum(policy: EvictionPolicy, case: Case) -> str:
    misses = sum(map(len, case.sequences)) - sum(_hits(policy, case))
    least = optimum_by_search(case.sequences, case.capacity, policy.admission)
    return "" if misses >= least else f"{misses} misses, but the optimum has {least}"


def _sees_ahead(policy: EvictionPolicy, case: Case) -> str:
    instance, rng = case.instance, case.rng
    held = _contents(run_small(policy, instance, case.capacity, case.key))
    for stop in {len(held) // 2, len(held) - 1}:
        # On the same tree a randomised policy has the same draws to make.
        query = instance.query.copy()
        query[stop:] = rng.integers(-1, max(0, instance.tree.edges), len(query) - stop)
        changed = dataclasses.replace(instance, query=query)
        others = [("change", changed)]
        if not policy.randomised:
            alone = dataclasses.replace(case, sequences=case.sequences[:stop])
            others.append(("are cut off", alone.instance))
        for what, other in others:
            got = _contents(run_small(policy, other, case.capacity, case.key))
            for t, (mine, theirs) in enumerate(zip(held[:stop], got, strict=False)):
                if mine != theirs:
                    return (
                        f"the cache after query {t} holds {sorted(mine)}, but {sorted(theirs)} "
                        f"if the requests from {stop} on {what}"
                    )
    return ""


def _contents(run: Run) -> list[set[tuple[int, ...]]]:
    """The cached units after each query, as tokens from the root down."""
    tree = run.instance.tree
    ids = [tree.ids_of(e).tolist() for e in range(tree.edges)]
    top = (tree.depth - tree.length).tolist()
    return [
        {
            tuple(ids[e][:depth])
            for e, units in enumerate(cached)
            for depth in range(top[e] + 1, top[e] + units + 1)
        }
        for cached in run.cache.cached[:, : tree.edges].tolist()
    ]


def _reads_labels(policy: EvictionPolicy, case: Case) -> str:
    hits, rng = _hits(policy, case), case.rng
    other = rng.permutation(10_000)
    renamed = tuple(tuple(int(other[token]) for token in s) for s in case.sequences)
    if (got := _hits(policy, dataclasses.replace(case, sequences=renamed))) != hits:
        return f"hits {hits} become {got} with other token ids"
    if not policy.randomised:
        renumbered = _renumbered(case.instance, rng)
        got = run_small(policy, renumbered, case.capacity, case.key).hits.tolist()
        if got != hits:
            return f"hits {hits} become {got} with edges numbered {renumbered.query.tolist()}"
    return ""


def _renumbered(instance: Instance, rng: np.random.Generator) -> Instance:
    tree = instance.tree
    assert tree.labels is not None
    order: list[int] = []
    ready = np.flatnonzero(tree.parent < 0).tolist()
    while ready:
        order.append(ready.pop(int(rng.integers(len(ready)))))
        ready.extend(np.flatnonzero(tree.parent == order[-1]).tolist())
    rank = np.full(tree.edges + 1, -1)
    rank[order] = np.arange(tree.edges)
    labels = [tree.labels[tree.offset[e] : tree.offset[e + 1]] for e in order]
    other = PrefixTree(rank[tree.parent[order]], tree.length[order], np.concatenate(labels))
    return dataclasses.replace(instance, tree=other, query=rank[instance.query])


def _feels_padding(policy: EvictionPolicy, case: Case) -> str:
    hits = _hits(policy, case)
    wide = run_small(policy, case.instance, case.capacity, case.key, shape=WIDE).hits.tolist()
    return "" if wide == hits else f"hits {hits} become {wide} in longer arrays"


def _mixes_lanes(policy: EvictionPolicy, case: Case) -> str:
    sizes = [case.capacity + extra for extra in (0, 1, 3, 0)]
    keys = [dataclasses.replace(case, seed=case.seed + i).key for i in (0, 1, 2, 0)]
    lanes = run_lanes(policy, case.instance, sizes, keys, batching="vmap")
    for size, key, lane in zip(sizes, keys, lanes, strict=True):
        alone = run_small(policy, case.instance, size, key)
        if alone.hits.tolist() != lane.hits.tolist():
            return f"at capacity {size} hits {alone.hits} become {lane.hits} beside other lanes"
    return ""


def _differs_eagerly(policy: EvictionPolicy, case: Case) -> str | None:
    hits = _hits(policy, case)
    evicted = sum(map(len, case.sequences)) - sum(hits) - case.capacity
    if evicted < 3:
        return None  # too dear to spend on a case that shows little
    eager = run_eagerly(policy, case.instance, case.capacity, case.key).tolist()
    return "" if eager == hits else f"hits {hits} compiled, {eager} operation by operation"


def _compiles(policy: EvictionPolicy, case: Case) -> str:
    run_small(policy, case.instance, case.capacity, case.key)
    before = compilations()
    other = next(random_cases(1, case.seed))
    run_small(policy, other.instance, other.capacity, other.key)
    if compilations() != before:
        return "another instance, capacity and key compile anew"
    for name, changed in _other_parameters(policy):
        run_small(changed, case.instance, case.capacity, case.key)
        if compilations() != before:
            return f"another value of {name!r} compiles anew: the field must not be static"
    return ""


def _other_parameters(policy: EvictionPolicy) -> Iterator[tuple[str, EvictionPolicy]]:
    for f in dataclasses.fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, f.name)
        if not f.init or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        near = (value + 1, value - 1) if isinstance(value, int) else (value * 0.99, 0.01)
        for other in near:
            try:
                yield f.name, dataclasses.replace(policy, **{f.name: other})
            except ValueError:
                continue
            break


def _hits(policy: EvictionPolicy, case: Case) -> list[int]:
    run: Run = run_small(policy, case.instance, case.capacity, case.key)
    return run.hits.tolist()
