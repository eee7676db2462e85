"""The driver: lanes, shapes, modes, errors, and what its compiled programs look like."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax
from jaxtyping import Array

from kvtheory import simulate as driver
from kvtheory.cache import (
    Cache,
    EvictionPolicy,
    Query,
    Scalar,
    Tape,
    over_path,
    read,
    tape_of,
    write,
)
from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.eviction import (
    POLICIES,
    RLT,
    Belady,
    CostPerUnit,
    LeafLRU,
    Marking,
    RandomLeaf,
    TailLRU,
)
from kvtheory.instance import Instance
from kvtheory.offline.belady import belady
from kvtheory.programs import compilations
from kvtheory.result import PolicyError, Result
from kvtheory.simulate import caches, simulate, simulate_capacities
from kvtheory.step import init, serve
from kvtheory.testing import TWINS, optimum_by_search
from kvtheory.testing.compiled import in_the_loop_over_queries, whole_arrays
from kvtheory.testing.strategies import cases

EVERY = [
    *(kind() for kind in POLICIES.values()),
    RLT("query"),
    RLT("published"),
    Belady(bypass=True),
]


@pytest.fixture(autouse=True)
def ranks_are_never_promoted() -> Iterator[None]:
    with jax.numpy_rank_promotion("raise"):
        yield


def some_queries(seed: int = 0, requests: int = 60) -> list[list[int]]:
    """Queries on a tree of 3 x 3 x 3 units and a few long ones below it."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 3, rng.integers(0, 4)).tolist() + [7] * int(rng.integers(0, 2) * 2)
        for _ in range(requests)
    ]


QUERIES = some_queries()
INSTANCE = Instance.from_tokens(QUERIES)
MANY = [
    *(pytest.param(p, id=str(p)) for p in (LeafLRU(), RLT())),
    pytest.param(CostPerUnit(), id="CostPerUnit()", marks=pytest.mark.slow),
]


# Lanes.


@pytest.mark.parametrize("policy", MANY)
def test_batching_changes_nothing(policy: EvictionPolicy) -> None:
    sizes = [8, 13]
    by_map, by_vmap = (
        simulate_capacities(INSTANCE, sizes, policy, seeds=3, batching=how)
        for how in ("map", "vmap")
    )
    auto = simulate_capacities(INSTANCE, sizes, policy, seeds=3)
    for a, b, c in zip(by_map, by_vmap, auto, strict=True):
        assert (a.hits == b.hits).all()
        assert (a.hits == c.hits).all()
        assert a.hits.shape == (3, len(QUERIES))


@pytest.mark.parametrize("policy", MANY)
def test_lanes_are_runs_of_their_own(policy: EvictionPolicy) -> None:
    key = jax.random.key(3)
    for result, size in zip(
        simulate_capacities(INSTANCE, [8, 13], policy, seeds=3, key=key), [8, 13], strict=True
    ):
        assert result.capacity == size
        for lane in range(3):
            alone = caches(INSTANCE, size, policy, key=jax.random.fold_in(key, lane))[0]
            assert (result.hits[lane] == alone).all()


def test_seeds_matter_where_they_should() -> None:
    hits = simulate(INSTANCE, 8, RLT(), seeds=8).hits
    assert len(np.unique(hits, axis=0)) > 1
    other = simulate(INSTANCE, 8, RLT(), seeds=8, key=jax.random.key(1)).hits
    assert (hits != other).any()
    assert len(np.unique(simulate(INSTANCE, 8, LeafLRU(), seeds=8).hits, axis=0)) == 1


def test_capacities_in_all_their_forms() -> None:
    instance = Instance.from_tokens(QUERIES, block_size=16)
    units = instance.tree.units
    half = -(-units // 2)
    for form in (half, str(half), "50%", f"{16 * half + 15}tok", Cluster(np.array([half]))):
        result = simulate(instance, form, LeafLRU())
        assert result.capacity == half
        assert (result.hits == simulate(INSTANCE, half, LeafLRU()).hits).all()


# Shapes.


@pytest.mark.parametrize("policy", MANY)
def test_padding_changes_nothing(policy: EvictionPolicy) -> None:
    # Queries for units of their own come last and double every array.
    longer = Instance.from_tokens(QUERIES + [[100 + i] for i in range(70)])
    sizes = [
        (tape.edges, len(tape.edge), len(tape.query_length))
        for tape in map(tape_of, (INSTANCE, longer))
    ]
    assert all(a < b for a, b in zip(*sizes, strict=True))
    short = simulate(INSTANCE, 9, policy, seeds=3).hits
    assert (simulate(longer, 9, policy, seeds=3).hits[:, : len(QUERIES)] == short).all()


@pytest.mark.parametrize("policy", MANY)
def test_names_of_units_change_nothing(policy: EvictionPolicy) -> None:
    expected = simulate(INSTANCE, 9, policy, seeds=3).hits
    other = [[977 - 31 * token for token in query] for query in QUERIES]
    assert (simulate(Instance.from_tokens(other), 9, policy, seeds=3).hits == expected).all()
    # as hashes of the whole prefix
    ids: dict[tuple[int, ...], int] = {}
    blocks = [
        [ids.setdefault(tuple(query[: d + 1]), 5 * len(ids)) for d in range(len(query))]
        for query in QUERIES
    ]
    assert (simulate(Instance.from_blocks(blocks), 9, policy, seeds=3).hits == expected).all()


def test_equal_shapes_compile_once() -> None:
    instance = Instance.from_tokens(some_queries(1, 100))
    other = Instance.from_tokens(some_queries(2, 90))
    shapes = [[x.shape for x in jax.tree.leaves(tape_of(i))] for i in (instance, other)]
    assert shapes[0] == shapes[1]
    first = simulate(instance, 9, TailLRU(1), seeds=2)
    assert first.compile_seconds > 0
    before = compilations()
    for again in (
        simulate(instance, 12, TailLRU(1), seeds=2),
        simulate(other, 9, TailLRU(4), seeds=2, key=jax.random.key(5)),
        *simulate_capacities(other, [9, 12], TailLRU(0)),
    ):
        assert again.compile_seconds == 0
    assert compilations() == before
    assert simulate(other, 9, TailLRU(4), seeds=3).compile_seconds > 0
    assert compilations() == before + 1


def test_a_scan_of_ones_own() -> None:
    # The last steps are queries of padding: they change nothing.
    tape, size, policy = tape_of(INSTANCE), jnp.array([8], jnp.int32), RLT()
    key = jax.random.fold_in(jax.random.key(0), 0)
    state, hits = lax.scan(
        lambda state, t: serve(policy, tape, size, state, t),
        init(policy, tape, size, key),
        jnp.arange(len(tape.query_length), dtype=jnp.int32),
    )
    assert (hits[: len(QUERIES)] == simulate(INSTANCE, 8, policy).hits[0]).all()
    assert (hits[len(QUERIES) :] == 0).all()
    assert int(state.cache.used[0]) == int(state.cache.cached.sum()) == 8


@pytest.mark.parametrize("policy", MANY)
def test_caches_show_what_is_held(policy: EvictionPolicy) -> None:
    hits, cached = caches(INSTANCE, 8, policy)
    seen = INSTANCE.uncompressed() if policy.per_unit else INSTANCE
    assert cached.shape == (len(QUERIES), seen.tree.edges)
    assert (cached.sum(axis=1) <= 8).all()
    for t, end in enumerate(seen.query.tolist()):
        path = seen.tree.path(end)
        assert (cached[t, path] == seen.tree.length[path]).all()
        assert hits[t] == (cached[t - 1, path].sum() if t else 0)


# Queries longer than the cache.


def test_a_query_too_long_is_an_error_by_default() -> None:
    instance = Instance.from_tokens([[1], [1, 2, 3], [4, 5, 6]])
    with pytest.raises(InputError) as info:
        simulate(instance, 2, LeafLRU())
    for part in ("query 1 has 3 units", "only 2", "1 more", "'truncate'", "'skip'"):
        assert part in str(info.value)


def test_long_queries_by_hand() -> None:
    long = [1, 2, 3]
    instance = Instance.from_tokens([long, [1], long, [4], [1, 2]])
    cut = simulate(instance, 2, LeafLRU(), oversize="truncate")
    assert cut.hits[0].tolist() == [0, 1, 2, 0, 1]
    assert cut.misses[0] == 10 - 4
    left_out = simulate(instance, 2, LeafLRU(), oversize="skip")
    assert left_out.hits[0].tolist() == [0, 0, 1, 0, 1]
    assert left_out.misses[0] == 10 - 2


def test_skipping_can_make_a_larger_cache_worse() -> None:
    # [1, 2] fits a cache of two and drives out 3, which the small one keeps.
    instance = Instance.from_tokens([[3], [1, 2], [3], [1, 2], [3]])
    small, large = simulate_capacities(instance, [1, 2], LeafLRU(), oversize="skip")
    assert small.hits[0].tolist() == [0, 0, 1, 0, 1]
    assert large.hits[0].tolist() == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("oversize", [pytest.param("truncate", marks=pytest.mark.slow), "skip"])
def test_capacities_together_are_capacities_alone(oversize: str) -> None:
    sizes = [1, 2, 3, 9]
    for policy, twin in [(LeafLRU(), TWINS["llru"]), (CostPerUnit(), TWINS["cost_per_unit"])]:
        together = simulate_capacities(INSTANCE, sizes, policy, oversize=oversize)
        for size, result in zip(sizes, together, strict=True):
            assert result.hits[0].tolist() == twin(size, oversize=oversize).run(QUERIES)
            assert result.instance is INSTANCE


def test_each_capacity_has_a_future_of_its_own_if_queries_are_skipped() -> None:
    queries = some_queries(4, 40)
    instance = Instance.from_tokens(queries)
    sizes = [2, 3, 4]
    together = simulate_capacities(instance, sizes, Belady(), oversize="skip")
    for size, result in zip(sizes, together, strict=True):
        alone = simulate(instance, size, Belady(), oversize="skip")
        assert (alone.hits == result.hits).all()


@pytest.mark.parametrize("admission", ["forced", "bypass"])
@settings(max_examples=60)
@given(case=cases(max_units=12, max_requests=20, oversize=True))
def test_a_larger_cache_never_hurts_the_optimum(
    case: tuple[list[list[int]], int], admission: str
) -> None:
    queries, capacity = case
    instance = Instance.from_tokens(queries)
    best = [
        int(belady(instance.truncate(size), size, admission)[1].sum())
        for size in range(capacity, capacity + 5)
    ]
    assert best == sorted(best)


@settings(max_examples=30)
@given(case=cases(max_units=6, max_requests=9))
def test_the_host_optimum_is_the_least(case: tuple[list[list[int]], int]) -> None:
    queries, capacity = case
    hits = belady(Instance.from_tokens(queries), capacity)[1].sum()
    assert sum(map(len, queries)) - hits == optimum_by_search(queries, capacity)


# Bad arguments.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": np.zeros(2, np.uint32)}, "typed key: jax.random.key"),
        ({"key": 0}, "typed key"),
        ({"key": jax.random.split(jax.random.key(0), 2)}, "must be one key"),
        ({"seeds": 0}, "seeds = 0: must be at least 1"),
        ({"batching": "pmap"}, "batching = 'pmap': must be 'auto', 'map' or 'vmap'"),
        ({"oversize": "cut"}, "oversize = 'cut'"),
        ({"cluster": 0}, "capacity = 0"),
        ({"cluster": -3}, "capacity = -3"),
        ({"cluster": "0%"}, "capacity = '0%'"),
        ({"cluster": "much"}, "capacity = 'much'"),
        ({"cluster": Cluster(np.array([5, 5]))}, "2 workers"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    arguments = {"cluster": 9} | arguments
    with pytest.raises(InputError, match=message):
        simulate(INSTANCE, eviction=LeafLRU(), **arguments)


def test_raw_keys_are_refused_by_caches_too() -> None:
    with pytest.raises(InputError, match="typed key"):
        caches(INSTANCE, 9, RLT(), key=jax.random.PRNGKey(0))


class Stubborn(LeafLRU):
    """Names no victim."""

    name: ClassVar[str] = "stubborn"
    trusted: ClassVar[bool] = False

    def evict(
        self, state: Array, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[Array, Scalar, Scalar]:
        zero = jnp.zeros((), jnp.int32)
        return state, zero, zero


def test_a_policy_that_breaks_the_rules_is_named() -> None:
    with pytest.raises(PolicyError, match="'stubborn' named no victim although units must go"):
        simulate(INSTANCE, 8, Stubborn())
    with pytest.raises(PolicyError, match="'stubborn' named no victim"):
        caches(INSTANCE, 8, Stubborn())


# What is reported.


def test_no_queries_at_all() -> None:
    for policy in (LeafLRU(), RLT(), Belady(), Marking()):
        result = simulate(Instance.from_tokens([]), 4, policy, seeds=2)
        assert result.hits.shape == (2, 0)
        assert result.misses.tolist() == [0, 0]
        assert result.hit_rate_units.tolist() == [0, 0]
        assert result.hit_rate_requests.tolist() == [0, 0]


def test_empty_queries_change_nothing() -> None:
    for policy in (LeafLRU(), RandomLeaf(), CostPerUnit(), Marking()):
        nothing = simulate(Instance.from_tokens([[], [], []]), 1, policy)
        assert nothing.hits.tolist() == [[0, 0, 0]]
        assert nothing.hit_rate_tokens.tolist() == [0]
        gaps = Instance.from_tokens([[], [1], [], [1], [2], [], [1]])
        assert simulate(gaps, 1, policy).hits[0].tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_rates_by_hand() -> None:
    # Blocks of 4 tokens: 10 tokens are 2 whole blocks and one of 2 tokens.
    instance = Instance.from_tokens(
        [[1, 2, 3], [1, 2, 3], [], [1, 9]],
        block_size=4,
        input_length=np.array([10, 10, 3, 7]),
    )
    result = simulate(instance, 5, LeafLRU())
    assert result.hits[0].tolist() == [0, 3, 0, 1]
    assert result.total_hits[0] == 4
    assert result.misses[0] == 4
    assert result.misses_of_first(2)[0] == 3
    assert result.hit_rate_units[0] == 4 / 8
    # three blocks are 12 tokens, but the query has only 10
    assert result.hit_rate_tokens[0] == (10 + 4) / 30
    assert result.hit_rate_requests[0] == 1 / 3
    assert repr(result) == "Result('llru', capacity=5, seeds=1, hit_rate_units=0.5000)"


def test_hits_are_counted_in_64_bits() -> None:
    instance = Instance.from_tokens([[1]])
    result = Result(instance, "none", 1, np.full((1, 3), 2**30, np.int32))
    assert result.total_hits.tolist() == [3 * 2**30]
    with pytest.raises(ValueError, match="read-only"):
        result.hits[0, 0] = 1


# In 64 bits, and with the types of every argument checked.

IN_64_BITS = """
import importlib, json, pkgutil, sys
from pathlib import Path
from jaxtyping import install_import_hook
import kvtheory

# beartype knows Self only in classes that it decorates itself, which jaxtyping does not let it
folder = Path(kvtheory.__file__).parent
files = [*folder.glob("eviction/*.py"), folder / "step.py", folder / "simulate.py"]
checked = [
    ".".join(f.relative_to(folder.parent).with_suffix("").parts)
    for f in files
    if "Self" not in f.read_text() and f.stem != "__init__"
]
assert len(checked) > 12
with install_import_hook(checked, "beartype.beartype"):
    for name in checked:
        importlib.import_module(name)

import jax
assert jax.config.jax_enable_x64
jax.config.update("jax_numpy_rank_promotion", "raise")
from kvtheory.eviction import POLICIES, RLT, Belady
from kvtheory.instance import Instance
from kvtheory.simulate import simulate

every = [*(kind() for kind in POLICIES.values()), RLT("query"), RLT("published"), Belady(True)]
instance = Instance.from_tokens(json.load(sys.stdin))
print(json.dumps([simulate(instance, 8, policy).hits[0].tolist() for policy in every]))
"""


@pytest.mark.slow
def test_64_bits_change_nothing_and_all_types_are_right() -> None:
    queries = some_queries(6, 16)
    done = subprocess.run(
        [sys.executable, "-c", IN_64_BITS],
        input=json.dumps(queries),
        env=os.environ | {"JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    instance = Instance.from_tokens(queries)
    for policy, hits in zip(EVERY, json.loads(done.stdout), strict=True):
        if policy.randomised:
            assert hits == simulate(instance, 8, policy).hits[0].tolist(), policy
        else:
            more = {"admission": policy.admission} if isinstance(policy, Belady) else {}
            more |= {"xi": 16} if isinstance(policy, TailLRU) else {}
            assert hits == TWINS[policy.name](8, **more).run(queries), policy


# The compiled programs.


class Sizes(NamedTuple):
    """An instance for compilation, larger in edges than in queries, with one unit an edge."""

    instance: Instance
    edges: int


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    leaf = np.random.default_rng(0).integers(0, 3600, 1000)
    instance = Instance.from_tokens([[int(x) // 100, int(x) // 10, int(x)] for x in leaf])
    tape = tape_of(instance.uncompressed())
    assert (tape.edges, len(tape.query_length)) == (2048, 1024)
    assert tape_of(instance).edges == 2048
    return Sizes(instance, 2048)


def compiled(policy: EvictionPolicy, instance: Instance) -> str:
    run = instance.uncompressed() if policy.per_unit else instance
    tape = tape_of(run, policy.prepare(run))
    # two lanes, so that the loop over lanes is one
    arguments = np.array([[300], [300]], np.int32), jax.random.split(jax.random.key(0), 2)
    lowered = driver._jitted.lower("map", driver._on_device(policy), tape, *arguments)
    return lowered.compile().as_text()


@pytest.mark.parametrize("policy", [pytest.param(p, id=str(p)) for p in EVERY])
def test_no_query_touches_a_whole_array(policy: EvictionPolicy, sizes: Sizes) -> None:
    program = compiled(policy, sizes.instance)
    loop = in_the_loop_over_queries(program)
    assert any(op.size >= sizes.edges for op in loop), "the loop carries no state"
    assert not any(op.kind == "copy" and op.size >= sizes.edges for op in loop)
    # nor is an array made anew in any other way
    assert not whole_arrays(program, sizes.edges)


class Counting(LeafLRU):
    """Leaf LRU that keeps a number per edge besides."""

    def init(self, tape: Tape, workers: int, capacity: Any, key: Any) -> Any:
        return super().init(tape, workers, capacity, key), jnp.zeros(tape.edges, jnp.int32)

    def touch(self, state: Any, tape: Tape, cache: Cache, query: Query) -> Any:
        return state[0], self.count(state[1], tape, query)

    def evict(
        self, state: Any, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[Any, Scalar, Scalar]:
        own, edge, units = super().evict(state[0], tape, cache, query, need)
        return (own, state[1]), edge, units

    def count(self, number: Array, tape: Tape, query: Query) -> Array:
        first, number = read(number, query.t % 7)
        return self.add(write(number, query.t % 5, query.t), first, tape, query)

    def add(self, number: Array, first: Scalar, tape: Tape, query: Query) -> Array:
        return over_path(tape, query, lambda _, e, n: write(n, e, first + n[e]), number)


class WithoutBarrier(Counting):
    def count(self, number: Array, tape: Tape, query: Query) -> Array:
        first = number[query.t % 7]
        return self.add(write(number, query.t % 5, query.t), first, tape, query)


class Decaying(Counting):
    def count(self, number: Array, tape: Tape, query: Query) -> Array:
        return jnp.maximum(number - 1, 0)


def test_a_whole_array_would_be_seen(sizes: Sizes) -> None:
    assert not whole_arrays(compiled(Counting(), sizes.instance), sizes.edges)
    copied = whole_arrays(compiled(WithoutBarrier(), sizes.instance), sizes.edges)
    assert {op.kind for op in copied} == {"copy"}
    made = whole_arrays(compiled(Decaying(), sizes.instance), sizes.edges)
    assert "fusion" in {op.kind for op in made}
