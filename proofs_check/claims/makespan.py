"""Claims 10 and 10b: list scheduling, greedy and exponential potential."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.instances.greedy_trap import greedy_trap, greedy_trap_cluster, greedy_trap_makespan
from kvtheory.routing import router as parse
from proofs_check.claim import Claim, Counterexample, Mutant, Refuted, Task
from proofs_check.fixed_costs import route
from proofs_check.judge.machines import least_makespan, makespan

GREEDY = "lbgr:learner=none,decay=1"
TOLERANCE = 1e-9


def four_beta(workers: int) -> float:
    """4β = 4·log_1.5(2M), with γ = 2."""
    return 4 * math.log(2 * workers, 1.5)


@dataclass(frozen=True)
class Subject:
    """The routers, and what their makespans are at most, by M."""

    listing: str = "least_work_left"
    greedy: str = GREEDY
    potential: str = "exponential_potential"
    list_bound: Callable[[int], float] = lambda M: 2 - 1 / M
    greedy_bound: Callable[[int], float] = float
    potential_bound: Callable[[int], float] = four_beta


def check(subject: Subject, task: Task) -> str:
    """All small cost matrices against every assignment; the traps that are tight."""
    identical = unrelated = 0
    for workers in (2, 3):
        task.tell(f"identical machines, M = {workers}")
        sizes = np.array(list(product((1.0, 2.0, 3.0, 5.0), repeat=task.pick(5, 6))))
        costs = np.repeat(sizes[:, :, None], workers, axis=2)
        _at_most(subject.listing, costs, least_makespan(costs), subject.list_bound(workers))
        identical += len(costs)
        tight = np.ones((1, workers * (workers - 1) + 1, workers))
        tight[:, -1] = workers
        got = makespan(tight, route(parse(subject.listing), tight))[0]
        if got != (2 - 1 / workers) * workers:
            raise Refuted(f"{subject.listing}: {got} on the tight case of {workers} machines")
    for workers, jobs in ((2, 4), (3, 3)) if not task.full else ((2, 5), (3, 3)):
        task.tell(f"unrelated machines, M = {workers}")
        row = list(product((1.0, 2.0, 4.0), repeat=workers))
        costs = np.array(list(product(row, repeat=jobs)))
        least = least_makespan(costs)
        _at_most(subject.greedy, costs, least, subject.greedy_bound(workers))
        _at_most(subject.potential, costs, least, subject.potential_bound(workers))
        unrelated += len(costs)
    task.tell("equal jobs")
    many = np.ones((1, 512, 64))
    _at_most(subject.potential, many, np.array([8.0]), subject.potential_bound(64))
    for workers in (2, 8, 64):
        task.tell(f"greedy trap, M = {workers}")
        _trap(subject, workers)
    task.tell("greedy trap in the driver")
    _trap_in_driver(subject)
    return (
        f"{identical:,} cases of identical and {unrelated:,} of unrelated machines against all "
        "assignments; 512 equal jobs on 64; greedy traps with M = 2, 8, 64 (2u + 1 for the "
        "potential), one of 4 workers in the driver"
    )


def _at_most(router: str, costs: np.ndarray, least: np.ndarray, bound: float) -> None:
    got = makespan(costs, route(parse(router), costs))
    worst = int((got / least).argmax())
    if got[worst] > bound * least[worst] + TOLERANCE:
        raise Refuted(
            f"{router}: makespan {got[worst]:g} against {least[worst]:g}, more than {bound:g} "
            f"times, with costs {costs[worst].tolist()}"
        )


def _trap(subject: Subject, workers: int, unit: int = 100) -> None:
    """The costs of `greedy_trap` as a matrix; query j on worker j − 1 is best."""
    length = workers * unit + 1
    costs = np.full((1, workers, workers), float(length))
    for j in range(1, workers + 1):
        costs[0, j - 1, j % workers] = j * unit
        costs[0, j - 1, j - 1] = unit + 1
    least = makespan(costs, np.arange(workers))
    _at_most(subject.greedy, costs, least, subject.greedy_bound(workers))
    _at_most(subject.potential, costs, least, subject.potential_bound(workers))
    got = makespan(costs, route(parse(subject.potential), costs))[0]
    if workers <= 16 and got != 2 * unit + 1:
        raise Refuted(f"{subject.potential}: {got} on the trap of {workers} workers")
    got = makespan(costs, route(parse(subject.greedy), costs))[0]
    if got != workers * unit or least[0] != greedy_trap_makespan(workers, unit):
        raise Refuted(f"{subject.greedy}: {got} on the trap of {workers} workers, OPT {least[0]}")


def _trap_in_driver(subject: Subject) -> None:
    from kvtheory.eviction import policy
    from kvtheory.simulate_cluster import simulate_cluster

    result = simulate_cluster(
        greedy_trap(4, 100),
        greedy_trap_cluster(4, 100),
        parse(subject.greedy),
        policy("llru"),
        view="oracle",
    )
    got = float(np.asarray(result.end).max())
    if abs(got - 400) > 1e-6:
        raise Refuted(f"{subject.greedy} in the driver: {got}, not 400")


@dataclass(frozen=True)
class Shared:
    """Whether what is cached on a worker costs nothing there."""

    depends: bool = True


def with_caches(subject: Shared, task: Task) -> str:
    """Five pages in turn on two workers that hold two each; then what can be left out."""
    workers, capacity = 2, 2
    requests: list[int] = []
    for rounds in range(1, task.pick(8, 10)):
        requests = [t % 5 for t in range(5 * rounds)]
        task.tell(f"{len(requests)} queries")
        if _exceeds(subject, requests, workers, capacity):
            break
    else:
        return f"greedy is at most M·OPT on {len(requests)} queries for five pages in turn"
    at = 0
    while at < len(requests):  # leave out what is not needed
        task.tell(f"{len(requests)} queries, minimising")
        fewer = requests[:at] + requests[at + 1 :]
        if _exceeds(subject, fewer, workers, capacity):
            requests = fewer
        else:
            at += 1
    greedy, choice = _greedy(subject, requests, workers, capacity)
    least = _least(subject, requests, workers, capacity, greedy)
    _replay(requests, capacity, greedy, choice)
    shows = f"greedy has the makespan {greedy}, the optimum {least}: more than M = 2 times"
    raise Refuted(
        f"2 workers with B = 2, pages {requests}: {shows}",
        Counterexample(
            [[p] for p in requests],
            capacity,
            shows,
            {"greedy": greedy, "optimum": least, "routing of greedy": choice},
            cluster={"workers": workers, "alpha_miss": 1.0, "alpha_cached": 0.0},
        ),
    )


def _exceeds(subject: Shared, requests: Sequence[int], workers: int, capacity: int) -> bool:
    greedy, _ = _greedy(subject, requests, workers, capacity)
    return _least(subject, requests, workers, capacity, (greedy - 1) // workers) is not None


def _greedy(
    subject: Shared, requests: Sequence[int], workers: int, capacity: int
) -> tuple[int, list[int]]:
    """Makespan and choices of least load + cost, caches by LRU; ties to the smaller load."""
    load, caches = [0] * workers, [list[int]() for _ in range(workers)]
    choice = []
    for page in requests:
        cost = [int(page not in cache or not subject.depends) for cache in caches]
        i = min(range(workers), key=lambda i: (load[i] + cost[i], load[i], i))
        load[i] += cost[i]
        if page in caches[i]:
            caches[i].remove(page)
        caches[i] = [*caches[i], page][-capacity:]
        choice.append(i)
    return max(load), choice


def _least(
    subject: Shared, requests: Sequence[int], workers: int, capacity: int, most: int
) -> int | None:
    """The least makespan over all routings and evictions, if it is at most ``most``."""
    empty = frozenset[int]()
    states = {tuple((0, empty) for _ in range(workers))}
    for page in requests:
        then = set()
        for state in states:
            for i, (load, cache) in enumerate(state):
                hit = page in cache and subject.depends
                if load + (not hit) > most:
                    continue
                kept = [cache | {page}]
                if len(kept[0]) > capacity:
                    kept = [(cache - {gone}) | {page} for gone in cache]
                for after in kept:
                    moved = [*state[:i], (load + (not hit), after), *state[i + 1 :]]
                    then.add(tuple(sorted(moved, key=lambda w: (w[0], sorted(w[1])))))
        states = then
    return min((max(load for load, _ in state) for state in states), default=None)


def _replay(requests: list[int], capacity: int, makespan: int, choice: list[int]) -> None:
    """The driver's greedy makes the same choices."""
    from kvtheory.eviction import policy
    from kvtheory.simulate_cluster import simulate_cluster

    result = simulate_cluster(
        Instance.from_tokens([[p] for p in requests], arrival=np.zeros(len(requests))),
        Cluster([capacity] * 2, alpha_miss=1.0, alpha_cached=0.0),  # type: ignore[arg-type]
        parse(GREEDY),
        policy("llru"),
        view="oracle",
    )
    assert result.worker[0].tolist() == choice, "the driver routes otherwise"
    assert float(np.asarray(result.end).max()) == makespan, "the driver has another makespan"


def potential_with_caches(subject: Shared, task: Task) -> str:
    """2B + 1 pages in turn on two workers, until the potential pays more than 4β times."""
    from kvtheory.eviction import policy
    from kvtheory.offline.fixed_routing import routed_hits
    from kvtheory.simulate_cluster import simulate_cluster

    capacity, rounds = 32, 40
    pages = 2 * capacity + 1
    requests = [[t % pages] for t in range(pages * rounds)]
    instance = Instance.from_tokens(requests, arrival=np.zeros(len(requests)))
    cluster = Cluster(np.full(2, capacity), alpha_miss=np.ones(2))
    if not subject.depends:
        cluster = Cluster(np.full(2, capacity), alpha_miss=np.ones(2), alpha_cached=np.ones(2))
    router = parse("exponential_potential")
    result = simulate_cluster(instance, cluster, router, policy("llru"), view="oracle")
    got = result.worker[0]
    # each page on one worker, and Belady's rule there: what the optimum need not exceed
    fixed = np.array([int(page[0] >= capacity) for page in requests])
    paid, allowed = (1 - np.asarray(result.hits)[0]), 1 - routed_hits(instance, cluster, fixed)
    if not subject.depends:
        paid, allowed = np.ones_like(paid), np.ones_like(allowed)
    for n in range(pages, len(requests) + 1, pages):
        task.tell(f"{n} queries")
        mine = np.bincount(got[:n], paid[:n], 2).max()
        best = np.bincount(fixed[:n], allowed[:n], 2).max()
        if mine > four_beta(2) * best:
            shows = f"the potential has {mine:g}, a schedule {best:g}: more than {four_beta(2):.1f}"
            raise Refuted(
                f"2 workers with B = {capacity}, {pages} pages in turn, {n} queries: {shows} times",
                Counterexample(
                    requests[:n],
                    capacity,
                    f"{shows} times",
                    {"potential": int(mine), "optimum at most": int(best)},
                    cluster={"workers": 2, "alpha_miss": 1.0, "alpha_cached": 0.0},
                ),
            )
    return f"the potential is at most 4β times a schedule on {len(requests)} queries"


CLAIM = Claim(
    id="10",
    title="List scheduling, greedy, potential",
    statement=(
        "List scheduling has a makespan of at most (2 − 1/M)·OPT on identical machines. For costs "
        "that do not depend on earlier routing greedy has at most M·OPT, tight on a KV instance "
        "(M·u against u + 1), and exponential potential at most 4β·OPT, β = log_1.5(2M)."
    ),
    latex=r"\mathrm{LS} \le (2 - \tfrac1M)\,\mathrm{OPT},\quad \mathrm{greedy} \le M\,\mathrm{OPT},"
    r"\quad \mathrm{potential} \le 4 \log_{3/2}(2M)\,\mathrm{OPT}",
    source="Graham 1966; Aspnes, Azar, Fiat, Plotkin and Waarts 1997; the KV instance: new here",
    assumptions="online, any adversary; costs fixed in advance, all queries at time 0; batch 1",
    method="exhaustive over cost matrices and assignments, to 1e-9",
    scope=(
        "M = 2, 3; 5 jobs of sizes 1, 2, 3, 5; 4 or 3 jobs with costs 1, 2, 4; traps to M = 64",
        "M = 2, 3; 6 jobs of sizes 1, 2, 3, 5; 5 or 3 jobs with costs 1, 2, 4; traps to M = 64",
    ),
    seconds=(12, 60),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("list scheduling is at most 3/2", Subject(list_bound=lambda M: 1.5)),
        Mutant("greedy is at most M/2", Subject(greedy_bound=lambda M: M / 2)),
        Mutant("greedy in place of the potential", Subject(potential=GREEDY)),
        Mutant("jobs in turn, whatever their size", Subject(listing="round_robin")),
    ),
)

CACHES = Claim(
    id="10b",
    title="Greedy is M·OPT also with caches",
    statement="Greedy routing has at most M times the least makespan also where costs depend on "
    "what earlier queries have left in the caches.",
    latex=r"\mathrm{greedy} \le M\,\mathrm{OPT} \text{ for costs that depend on routing}",
    source="new here",
    assumptions="online; α_miss = 1, α_cached = 0, leaf LRU on 2 workers with B = 2; OPT chooses "
    "routing and evictions; batch 1",
    method="search, then minimised by leaving out queries; dynamic program over routings and "
    "caches",
    scope=("five pages in turn, at most 35 queries", "five pages in turn, at most 45 queries"),
    seconds=(2, 20),
    subject=Shared(),
    check=with_caches,
    mutants=(Mutant("hits cost as much as misses", Shared(depends=False)),),
    expected="refuted",
)

POTENTIAL = Claim(
    id="10c",
    title="Exponential potential is 4β·OPT with caches",
    statement="Exponential potential has at most 4β times the least makespan also where costs "
    "depend on what earlier queries have left in the caches.",
    latex=r"\mathrm{potential} \le 4 \log_{3/2}(2M)\,\mathrm{OPT} "
    r"\text{ for costs that depend on routing}",
    source="new here",
    assumptions="online; α_miss = 1, α_cached = 0, leaf LRU on 2 workers with B = 32; batch 1",
    method="search over the number of rounds; the driver against a schedule of Belady's rule",
    scope=("65 pages in turn, at most 40 rounds", "the same"),
    seconds=(2, 5),
    subject=Shared(),
    check=potential_with_caches,
    mutants=(Mutant("hits cost as much as misses", Shared(depends=False)),),
    expected="refuted",
)
