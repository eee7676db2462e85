"""Instances that are made to defeat something: each by as much as it says."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise

import jax
import numpy as np
import pytest

from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instances import (
    TRAPS,
    affinity_trap,
    agentic,
    distribution_aware,
    documents,
    drift,
    generate,
    greedy_trap,
    least_makespan,
    load_trap,
    markov,
    partition_gadget,
    timed,
    tournament,
    with_cluster,
)
from kvtheory.offline.optimum import optimum
from kvtheory.ratio import compare, harmonic
from kvtheory.routing import router
from kvtheory.rows import rows_of
from kvtheory.simulate import simulate
from kvtheory.simulate_cluster import simulate_cluster


def makespan(text: str, against: str, **options: object) -> float:
    instance, cluster = with_cluster(text)
    view = {"view": "oracle", **options}
    result = simulate_cluster(instance, cluster, router(against), policy("llru"), **view)
    return float(result.makespan.max())


def costs(text: str) -> list[list[int]]:
    """What each query costs on each worker while the caches are as at the beginning."""
    instance, cluster = with_cluster(text)
    held = [set() for _ in range(cluster.workers)]
    for worker, edge in instance.warm.tolist() if instance.warm is not None else []:
        held[worker] |= set(instance.tree.ids_of(edge).tolist())
    return [[len(set(q) - h) for h in held] for q in instance.sequences()]


def greedy(rows: list[list[int]]) -> list[int]:
    """Loads of list scheduling: least load + cost, ties to the lower index."""
    load = [0] * len(rows[0])
    for row in rows:
        best = min(range(len(row)), key=lambda i: load[i] + row[i])
        load[best] += row[best]
    return load


def best_assignment(rows: list[list[int]]) -> int:
    """The least makespan of costs fixed in advance, by trying everything."""
    loads = {(0,) * len(rows[0])}
    for row in rows:
        loads = {
            tuple(x + (row[i] if i == k else 0) for k, x in enumerate(load))
            for load in loads
            for i in range(len(row))
        }
    return min(map(max, loads))


# -- greedy_trap -------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_greedy_trap_has_the_known_figures(workers):
    rows = costs(f"greedy_trap:workers={workers},unit=100")
    assert max(greedy(rows)) == 100 * workers  # 200, 400, 800, 1600
    assert least_makespan(greedy_trap(workers, 100)) == 101
    for j, row in enumerate(rows, 1):
        want = [100 * workers + 1] * workers
        want[j % workers], want[j - 1] = 100 * j, 101
        assert row == want


def test_greedy_trap_by_the_driver():
    assert makespan("greedy_trap:workers=4,unit=100", "lbgr") == 400


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_greedy_trap_by_the_driver_at_every_size(workers):
    text = f"greedy_trap:workers={workers},unit=100"
    assert makespan(text, "lbgr") == 100 * workers
    assert makespan(text, "lbgr", view="routed") == 100 * workers  # its trees are warm too
    assert makespan(text, "exponential_potential") == 201


@pytest.mark.parametrize(("workers", "unit"), [(2, 2), (3, 4), (4, 3)])
def test_the_least_makespan_of_greedy_trap(workers, unit):
    rows = costs(f"greedy_trap:workers={workers},unit={unit}")
    assert best_assignment(rows) == least_makespan(greedy_trap(workers, unit)) == unit + 1
    # a mutant: without the last warm unit of each chain greedy is as good as can be
    spared = [[c - 2 if c == unit + 1 else c for c in row] for row in rows]
    assert max(greedy(spared)) < unit * workers


# -- tournament --------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [2, 4, 16, 64])
def test_the_champion_has_served_every_round(workers):
    one = tournament(workers)
    rows = costs(f"tournament:workers={workers}")
    assert len(rows) == workers - 1
    rounds = int(math.log2(workers))
    assert max(greedy(rows)) == rounds
    for row in rows:
        assert Counter(row) == Counter({1: 2, rounds + 2: workers - 2})
    # each query on the player who does not play again
    players = one.warm[:, 0].reshape(-1, 2).tolist()
    losers = [
        next(p for p in pair if not any(p in later for later in players[i + 1 :]))
        for i, pair in enumerate(players[:-1])
    ]
    assert len(set(losers)) == len(losers)
    assert least_makespan(one) == 1


def test_a_tournament_is_played_by_its_router():
    # max_hit ties as greedy does, round robin does not: it is made a tournament of its own
    one = tournament(8, "round_robin")
    assert one == tournament(8, "round_robin") != tournament(8)
    assert makespan(one.source, "round_robin") >= 3


@pytest.mark.slow
@pytest.mark.parametrize("against", ["lbgr", "join_shortest_queue", "exponential_potential"])
def test_no_router_escapes_its_tournament(against):
    assert makespan(f"tournament:workers=8,router={against}", against) >= 3


# -- affinity, load ----------------------------------------------------------------------


def test_affinity_sends_everything_to_one_worker():
    text = "affinity_trap:workers=4,queries=256,shared=16,own=4"
    assert makespan(text, "max_hit") == 16 + 256 * 4
    assert least_makespan(generate(text)) == 16 + 64 * 4
    small = affinity_trap(workers=3, queries=5, shared=4, own=1)
    # by hand: two, two and one
    assert least_makespan(small) == 6


@pytest.mark.parametrize("against", ["round_robin", "join_shortest_queue", "least_work_left"])
def test_load_alone_never_hits(against):
    instance, cluster = with_cluster("load_trap:workers=4,rounds=20,length=16,saving=10")
    result = simulate_cluster(instance, cluster, router(against), policy("llru"), view="oracle")
    assert int(result.hits.sum()) == 0
    assert float(result.makespan[0]) == 20 * 16
    assert least_makespan(instance) == pytest.approx(16 * (1 + 19 / 10))


def test_affinity_has_the_least_makespan_where_load_never_hits():
    text = "load_trap:workers=4,rounds=20,length=16,saving=10"
    assert makespan(text, "max_hit") == pytest.approx(least_makespan(generate(text)))
    # the mutant: the same rounds without the shift are met by any balanced router
    one, cluster = with_cluster(text)
    straight = type(one)(one.tree, np.tile(np.arange(4), 20), arrival=one.arrival)
    result = simulate_cluster(straight, cluster, router("round_robin"), policy("llru"))
    assert float(result.makespan[0]) == pytest.approx(least_makespan(one))


# -- partition ---------------------------------------------------------------------------


def test_the_makespan_is_half_if_and_only_if_the_numbers_split():
    rng = np.random.default_rng(0)
    split = 0
    for _ in range(200):
        numbers = tuple(rng.integers(1, 12, int(rng.integers(1, 9))).tolist())
        total = sum(numbers)
        best = min(
            max(sum(some), total - sum(some))
            for k in range(len(numbers) + 1)
            for some in combinations(numbers, k)
        )
        least = least_makespan(partition_gadget(numbers))
        assert least == best
        split += 2 * least == total
    assert 30 < split < 150


def test_partition_gadget_is_the_instance_it_says():
    rows = costs("partition_gadget:numbers=2/2/2/3/3")
    assert rows == [[n, n] for n in (2, 2, 2, 3, 3)]
    assert max(greedy(rows)) == 7
    assert best_assignment(rows) == 6
    assert makespan("partition_gadget", "lbgr") == 7


def test_every_trap_knows_its_cluster():
    for name in TRAPS:
        instance, cluster = with_cluster(name)
        assert instance.name == name
        assert instance.block_size == cluster.block_size
        assert least_makespan(instance) > 0
    with pytest.raises(
        InputError, match="'zipf' comes without a cluster; those that have one: aff"
    ):
        with_cluster("zipf")
    with pytest.raises(InputError, match="'zipf' is none of affinity_trap"):
        least_makespan(generate("zipf:requests=5"))


# -- distribution_aware ------------------------------------------------------------------


def reached(one, text: str, capacity: int) -> float:
    (row,) = compare(one, [text], capacity, seeds=256, kind="asymptotic", key=jax.random.key(77))
    return row.ratio


@pytest.mark.parametrize(
    ("against", "tree", "queries", "known"),
    [
        ("llru", "star:leaves=4", "all", 3),
        ("fifo", "star:leaves=4", "all", 3),
        ("rlt", "star:leaves=4", "all", harmonic(3)),
        pytest.param("rlt", "broom:L=2,leaves=3", "leaves", harmonic(2), marks=pytest.mark.slow),
    ],
)
def test_distribution_aware_reaches_what_is_known(against, tree, queries, known):
    one = distribution_aware(against, tree, 3, queries, requests=400)
    assert reached(one, against, 3) == pytest.approx(float(known), rel=0.03)


@pytest.mark.slow
def test_distribution_aware_reaches_more():
    one = distribution_aware("random_leaf", "star:leaves=4", 3, requests=400)
    assert reached(one, "random_leaf", 3) == pytest.approx(3, rel=0.05)
    wide = distribution_aware("rlt", "star:leaves=9", 8, requests=400)
    assert reached(wide, "rlt", 8) == pytest.approx(float(harmonic(8)), rel=0.03)
    # one query of look-ahead is not enough here: 5/2 is the truth
    chains = distribution_aware("rlt", "chains:n=3,length=2", 4, requests=400)
    assert reached(chains, "rlt", 4) == pytest.approx(1.5, rel=0.03)


def test_distribution_aware_is_made_for_one_policy():
    """The mutant: what is made for leaf LRU is no worse for RLT than for chance."""
    one = distribution_aware("llru", "star:leaves=4", 3, requests=400)
    assert reached(one, "llru", 3) > 1.5 * reached(one, "rlt", 3)
    assert reached(one, "mru", 3) < 1.2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("distribution_aware:policy=belady", "policy = 'belady': sees the future"),
        ("distribution_aware:policy=marking", "policy = 'marking'"),
        ("distribution_aware:policy=lru", "unknown eviction policy 'lru'"),
        ("distribution_aware:tree=start", "unknown tree 'start': did you mean star"),
        ("distribution_aware:tree=[broom:L=2]", "leaves is missing; write broom:L=…,leaves=…"),
        ("distribution_aware:tree=[star:leaves=x]", "leaves = 'x': must be whole numbers"),
        ("distribution_aware:tree=[parents:0]", r"parent\[0\] = 0: must be −1"),
        ("distribution_aware:queries=some", "queries = 'some': must be 'all', 'leaves'"),
        ("distribution_aware:tree=[chains:n=1,length=4]", "the longest of the queries has 4 units"),
        ("distribution_aware:tree=[star:leaves=4", "brackets = .*must be closed"),
        ("greedy_trap:workers=1", "workers = 1: must be at least 2"),
        ("greedy_trap:unit=1", "unit = 1: must be at least 2"),
        ("tournament:workers=6", "workers = 6: must be a power of two"),
        ("tournament:workers=4,router=nope", "unknown router 'nope'"),
        ("load_trap:saving=0.5", "saving = 0.5: must be at least 1"),
        ("affinity_trap:own=0", "own = 0: must be at least 1"),
        ("partition_gadget:numbers=3/0", "numbers = 0: must be at least 1"),
        ("markov:follow=1.5", "follow = 1.5: must be a share from 0 to 1"),
        ("drift:documents=10,hot=6", "documents = 10: must be at least twice the hot ones, 12"),
        ("drift:keep=-1", "keep = -1.0: must be a share"),
        ("documents:question_tokens=0.5", "question_tokens = 0.5: is a mean of at least 1"),
        ("documents:order=any", "order = 'any': must be one of random, grouped, round_robin"),
        ("agentic:steps=0.5", "steps = 0.5: is a mean of at least 1"),
        ("agentic:agents=0", "agents = 0: must be at least 1"),
    ],
)
def test_bad_parameters_are_named(text, problem):
    with pytest.raises(InputError, match=problem):
        generate(text)


# -- markov, drift -----------------------------------------------------------------------


def test_a_ring_of_one_more_than_fits_defeats_leaf_lru():
    one = markov(documents=9, requests=900, follow=1.0)
    assert one.query.tolist() == [t % 9 for t in range(900)]
    assert int(simulate(one, 8, policy("llru")).total_hits[0]) == 0
    (row,) = compare(one.prefix(864), ["llru"], 8, kind="asymptotic")
    assert row.ratio == 8


def test_markov_runs_are_geometric():
    n, requests, follow = 500, 40_000, 0.8
    one = markov(n, requests, follow, seed=4)
    ring = {}  # what follows most often is the next on the ring
    pairs = Counter(zip(one.query[:-1].tolist(), one.query[1:].tolist(), strict=True))
    for (a, b), k in pairs.items():
        if k > ring.get(a, (0, 0))[1]:
            ring[a] = (b, k)
    went_on = [ring[a][0] == b for a, b in zip(one.query[:-1], one.query[1:], strict=True)]
    assert np.mean(went_on) == pytest.approx(follow, abs=0.02)
    alone = markov(n, requests, 0.0, exponent=0.0)
    counts = np.bincount(alone.query, minlength=n)
    assert ((counts - 80) ** 2 / 80).sum() < 650  # 499 degrees


def test_what_was_popular_defeats_lfu():
    hot, period, periods = 16, 800, 6
    one = drift(1000, periods * period, hot, period, popularity=1.0, seed=2)
    later = slice(period, None)

    def hits(text: str) -> float:
        return float(simulate(one, hot, policy(text)).hits[0, later].mean())

    assert hits("lfu") == pytest.approx(1 / hot, abs=0.02)
    best = optimum(one, hot).hits[later].mean()
    assert best == pytest.approx(1 - hot / period)
    assert hits("llru") > 0.9
    # a set that stays is no trouble for it
    still = drift(1000, periods * period, hot, period, popularity=1.0, keep=1.0, seed=2)
    assert int(simulate(still, hot, policy("lfu")).total_hits[0]) == still.requests - hot


def test_drift_keeps_what_it_is_told():
    one = drift(100, 3000, 10, 1000, popularity=1.0, keep=0.35, seed=1)
    sets = [set(one.query[i : i + 1000].tolist()) for i in range(0, 3000, 1000)]
    assert [len(s) for s in sets] == [10, 10, 10]
    assert [len(a & b) for a, b in pairwise(sets)] == [3, 3]
    mixed = drift(1000, 20_000, 10, 20_000, popularity=0.7)
    top = np.sort(np.bincount(mixed.query))[::-1][:10].sum() / 20_000
    assert top == pytest.approx(0.7 + 0.3 * 10 / 1000, abs=0.02)


# -- documents, agentic ------------------------------------------------------------------


def test_questions_are_short_and_documents_long():
    one = documents(300, 8, block_size=1, seed=3)
    tree = one.tree
    top = np.flatnonzero(tree.parent < 0)
    assert len(top) == 300
    assert tree.length[top].mean() == pytest.approx(24_000, rel=0.08)
    asked = one.query_length - tree.length[tree.parent[one.query]]
    assert asked.mean() == pytest.approx(32, rel=0.08)
    assert one.query_length.mean() / asked.mean() == pytest.approx(24_000 / 32, rel=0.15)
    blocks = documents(300, 8, block_size=16, seed=3)
    assert blocks.input_length.tolist() == one.query_length.tolist()
    assert (blocks.query_length == -(-blocks.input_length // 16)).all()
    # with room for all, a document is missed once
    misses = int(simulate(blocks, blocks.tree.units, policy("llru")).misses[0])
    assert misses == blocks.tree.units
    assert misses / blocks.units_requested == pytest.approx(1 / 8, rel=0.05)


def test_documents_come_in_the_order_asked_for():
    by = {order: documents(5, 3, order=order, seed=1) for order in ("grouped", "round_robin")}
    above = {order: one.tree.parent[one.query].tolist() for order, one in by.items()}
    assert [len(set(above["grouped"][i : i + 3])) for i in (0, 3, 6, 9, 12)] == [1] * 5
    assert [len(set(above["round_robin"][i : i + 5])) for i in (0, 5, 10)] == [5] * 3
    assert sorted(by["grouped"].input_length) == sorted(by["round_robin"].input_length)


def test_each_step_extends_the_one_before():
    one = agentic(30, steps=6, agents=3, system_tokens=100, block_size=1, seed=2)
    last: dict[int, int] = {}
    roots = set()
    for t, s in enumerate(one.sequences()):
        roots.add(s[0])
        before = last.get(s[100])
        if before is not None:
            told = one.tree.ids_of(int(one.end[before])).tolist()
            assert s[: len(told)] == told
            assert len(told) == one.input_length[before] + one.output_length[before]
            assert one.arrival[t] > one.arrival[before]
        last[s[100]] = t
    assert len(last) == 30
    assert len(roots) == 3


def test_a_cache_saves_an_agent_the_square_of_its_steps():
    steps, result, output = 8, 40, 10
    one = agentic(3000, steps, 1, 0, result, result, 0.5, output, block_size=1, seed=5, rate=100.0)
    assert one.requests / 3000 == pytest.approx(steps, rel=0.05)
    asked = one.units_requested / 3000
    want = result * steps**2 + output * (steps**2 - steps)
    assert asked == pytest.approx(want, rel=0.1)
    seen = rows_of(one)
    run = simulate(one, seen.instance.tree.units, policy("llru"))
    # results are new, outputs are there already
    new = int(run.misses[0]) / 3000
    assert new == pytest.approx(result * steps, rel=0.05)
    # the mutant: outputs that are not cached are missed by the next step
    bare = type(one)(one.tree, one.query, input_length=one.input_length)
    assert int(simulate(bare, one.tree.units, policy("llru")).misses[0]) / 3000 > 1.1 * new


# -- times -------------------------------------------------------------------------------


def test_times_for_what_has_none():
    one = generate("shared_prefix:groups=8,prompts=64,lengths=64,block_size=16")
    two = timed(one, rate=4.0, output_tokens=128, seed=3)
    assert two.arrival[-1] == pytest.approx(512 / 4, rel=0.2)
    assert set(two.output_length.tolist()) == {128}
    assert two.input_length.tolist() == one.tokens.tolist()
    assert two == timed(one, 4.0, 128, 3) != timed(one, 4.0, 128, 4)
    assert two.query.tolist() == one.query.tolist()
    with pytest.raises(InputError, match="rate = 0: must be finite and above 0"):
        timed(one, 0)


def test_figures_are_exact_where_they_can_be():
    assert Fraction(least_makespan(load_trap(4, 11, 16, 4.0))) == 16 * (1 + Fraction(10, 4))
