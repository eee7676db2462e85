"""The optimum of the last part of a sequence, against exhaustive search."""

import itertools

import numpy as np
import pytest

from kvtheory.cli import main
from kvtheory.errors import InputError
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances import zipf
from kvtheory.offline.window import window_optimum
from kvtheory.ratio import compare
from kvtheory.simulate import cache_after, caches, simulate

Unit = tuple[int, ...]


def cheapest(queries: list[Unit], size: int, cache: frozenset[Unit]) -> int:
    """Fewest misses over all evictions, forced admission, by trying everything."""
    best = {cache: 0}
    for query in queries:
        path = {query[: i + 1] for i in range(len(query))}
        after: dict[frozenset[Unit], int] = {}
        for held, cost in best.items():
            rest = sorted(held - path)
            for k in range(len(rest) + 1):
                for kept in itertools.combinations(rest, k):
                    new = frozenset(path.union(kept))
                    if len(new) <= size and all(u[:-1] in new for u in new if len(u) > 1):
                        paid = cost + len(path - held)
                        after[new] = min(after.get(new, paid), paid)
        best = after
    return min(best.values())


def closed(units: list[Unit], size: int) -> list[frozenset[Unit]]:
    return [
        frozenset(some)
        for k in range(size + 1)
        for some in itertools.combinations(units, k)
        if all(u[:-1] in some for u in some if len(u) > 1)
    ]


def random_case(seed: int) -> tuple[list[Unit], int, int]:
    rng = np.random.default_rng(seed)
    pool = [tuple(rng.integers(2, size=rng.integers(1, 4)).tolist()) for _ in range(4)]
    queries = [pool[i] for i in rng.integers(4, size=8)]
    return queries, int(rng.integers(3, 5)), int(rng.integers(0, 8))


@pytest.mark.parametrize("seed", range(25))
def test_a_free_start_is_the_best_of_all(seed: int) -> None:
    queries, size, warmup = random_case(seed)
    instance = Instance.from_tokens([list(q) for q in queries])
    found = window_optimum(instance, size, warmup)
    units = sorted({q[: i + 1] for q in queries for i in range(len(q))})
    best = min(cheapest(queries[warmup:], size, start) for start in closed(units, size))
    assert found.lower == found.upper == best
    assert found.start == "free"


@pytest.mark.parametrize("seed", range(15))
def test_the_start_of_a_policy_is_its_cache(seed: int) -> None:
    queries, size, warmup = random_case(seed)
    instance = Instance.from_tokens([list(q) for q in queries])
    llru = policy("llru")
    found = window_optimum(instance, size, warmup, start=llru)
    units = instance.uncompressed()
    held = caches(units, size, llru)[1][warmup - 1] if warmup else np.zeros(units.tree.edges)
    start = frozenset(tuple(units.tree.ids_of(e).tolist()) for e in np.flatnonzero(held))
    assert found.held == len(start)
    assert found.lower == found.upper == cheapest(queries[warmup:], size, start)
    misses = simulate(instance, size, llru).hits[0][warmup:].sum()
    asked = int(instance.query_length[warmup:].sum())
    assert window_optimum(instance, size, warmup).upper <= found.upper <= asked - misses


def test_the_cache_after_all_queries() -> None:
    queries, size, _ = random_case(1)
    units = Instance.from_tokens([list(q) for q in queries]).uncompressed()
    for name in ("llru", "fifo", "lfu"):
        last = cache_after(units, size, policy(name))
        assert last.tolist() == caches(units, size, policy(name))[1][-1].tolist()


def test_bad_arguments() -> None:
    instance = Instance.from_tokens([[1, 2], [3]])
    with pytest.raises(InputError, match="warmup = 3: must be a number of queries, at most 2"):
        window_optimum(instance, 2, 3)
    with pytest.raises(InputError, match="start = 'cold': must be 'free' or an eviction policy"):
        window_optimum(instance, 2, 1, start="cold")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs one unit per edge"):
        cache_after(instance, 2, policy("marking"))


def test_policies_are_compared_on_the_window() -> None:
    instance = zipf(documents=60, requests=400, levels=2, branching=4, seed=2)
    for row in compare(instance, ["llru", "rlt"], 40, warmup=150, seeds=4):
        best = window_optimum(instance, 40, 150)
        assert row.requests == 250
        assert row.units == int(instance.query_length[150:].sum())
        assert row.optimum_low == row.optimum_high == best.upper
        assert row.ratio == pytest.approx(row.misses / best.upper)
        assert row.ratio >= 1
        assert row.bound is None
    run = simulate(instance, 40, policy("llru"))
    (row,) = compare(instance, ["llru"], 40, warmup=150)
    assert row.hits == run.hits[0, 150:].sum()


@pytest.mark.parametrize("given", [{"kind": "asymptotic"}, {"method": "lp"}, {"oversize": "skip"}])
def test_a_warm_up_goes_with_what_it_can(given: dict[str, str]) -> None:
    instance = zipf(documents=60, requests=40, seed=2)
    with pytest.raises(InputError, match="warmup = 5: goes with strict ratios"):
        compare(instance, ["llru"], 40, warmup=5, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="warmup = 40: must be a number of queries below 40"):
        compare(instance, ["llru"], 40, warmup=40)


def test_the_command_tells_of_the_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["ratio", "zipf:documents=60,requests=400", "--capacity", "20", "--eviction", "llru"]
    assert main([*given, "--warmup", "100"]) == 0
    assert "after a warm-up of 100" in capsys.readouterr().out
