"""Every eviction policy in the driver against its slow twin, and mutants that must be rejected."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any, ClassVar
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvtheory.cache import Cache, EvictionPolicy, Prepared, Query, Scalar, Tape
from kvtheory.errors import InputError
from kvtheory.eviction import (
    FIFO,
    LFU,
    MRU,
    POLICIES,
    RLT,
    SLRU,
    Belady,
    CostPerUnit,
    LeafLRU,
    Marking,
    NodeLRU,
    RandomLeaf,
    TailLRU,
    perturbed_next_uses,
    policy,
    random_words,
)
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit
from kvtheory.instance import Instance
from kvtheory.oversize import check_oversize
from kvtheory.simulate import simulate
from kvtheory.testing import (
    TWINS,
    Twin,
    law,
    optimum_by_search,
    path_of,
    true_next_uses,
)
from kvtheory.testing import twins_random as twins
from kvtheory.testing.check_eviction import CheckFailed, Report, check_eviction
from kvtheory.testing.driver_law import TooManyRuns, driver_law
from kvtheory.testing.small_cases import Case, random_cases, smallest_failing
from kvtheory.testing.small_driver import run_small
from kvtheory.testing.strategies import cases


class PerfectMarking(twins.Marking):
    """The twin of `Marking` that is told the true next uses when it runs."""

    def __init__(self, capacity: int, *, choose: Callable[[int], int], **more: Any) -> None:
        super().__init__(capacity, choose=choose, predictions=(), **more)

    def run(self, sequences: Any) -> list[int]:
        self.predictions = true_next_uses(sequences)
        return super().run(sequences)


DETERMINISTIC = [
    (LeafLRU(), TWINS["llru"]),
    (FIFO(), TWINS["fifo"]),
    (LFU(), TWINS["lfu"]),
    (MRU(), TWINS["mru"]),
    (SLRU(), TWINS["slru"]),
    (CostPerUnit(), TWINS["cost_per_unit"]),
    (NodeLRU(), TWINS["node_lru"]),
    (TailLRU(0), partial(TWINS["tail_lru"], xi=0)),
    (TailLRU(1), partial(TWINS["tail_lru"], xi=1)),
    (TailLRU(2), partial(TWINS["tail_lru"], xi=2)),
    (TailLRU(16), partial(TWINS["tail_lru"], xi=16)),
    (Belady(), TWINS["belady"]),
    (Belady(bypass=True), partial(TWINS["belady"], admission="bypass")),
]
RANDOMISED = [
    (RLT(), TWINS["rlt"]),
    (RLT("query"), partial(TWINS["rlt"], phase="query")),
    (RLT("published"), partial(TWINS["rlt"], phase="published")),
    (RandomLeaf(), TWINS["random_leaf"]),
    (Marking(), PerfectMarking),
]


def named(pairs: list[tuple[EvictionPolicy, Any]], slow: tuple[str, ...] = ()) -> list[Any]:
    """Parameters of a test, with the hyper-parameters in their ids."""
    return [
        pytest.param(*pair, id=name, marks=[pytest.mark.slow] * (name in slow))
        for pair in pairs
        for name in [str(pair[0])]
    ]


# In the full run: variants of policies that are checked in any case, and what is like RLT.
VARIANTS = (
    *("RLT(phase='query')", "RLT(phase='published')", "Belady(bypass=True)"),
    *("Marking()", "RandomLeaf()"),
)


def tree_of_turns(seed: int, requests: int = 256) -> list[list[int]]:
    """Conversations that grow, below a few shared prompts; some queries stop or fork early."""
    rng = Random(seed)
    live: list[list[int]] = [[system] * (2 + system) for system in range(4)]
    out = []
    for _ in range(requests):
        base = rng.choice(live[-12:] + live[:4])
        query = base[: rng.randint(1, len(base))] if rng.random() < 0.3 else base
        query = query + [rng.randrange(3) for _ in range(rng.randrange(4))]
        live.append(query[:14])
        out.append(query[:14])
    return out


# Hit by hit.


@pytest.mark.parametrize("oversize", ["error", "truncate", "skip"])
@pytest.mark.parametrize(("fast", "slow"), named(DETERMINISTIC))
@settings(max_examples=30)
@given(data=st.data())
def test_small_cases_hit_by_hit(
    data: st.DataObject, fast: EvictionPolicy, slow: Callable[..., Twin], oversize: str
) -> None:
    queries, capacity = data.draw(
        cases(oversize=oversize != "error", max_units=12, max_requests=16)
    )
    instance = check_oversize(Instance.from_tokens(queries), capacity, oversize)
    hits = run_small(fast, instance, capacity).hits.tolist()
    assert hits == slow(capacity, oversize=oversize).run(queries)


@pytest.mark.parametrize(("fast", "slow"), named(DETERMINISTIC))
def test_middle_sized_cases_hit_by_hit(fast: EvictionPolicy, slow: Callable[..., Twin]) -> None:
    for seed in range(2):
        queries = tree_of_turns(seed)
        instance = Instance.from_tokens(queries)
        for capacity, oversize in [(40, "error"), (15, "error"), (9, "skip")]:
            got = simulate(instance, capacity, fast, oversize=oversize)
            assert got.hits[0].tolist() == slow(capacity, oversize=oversize).run(queries)


@pytest.mark.parametrize("admission", ["forced", "bypass"])
@settings(max_examples=30)
@given(case=cases(max_units=7, max_requests=10))
def test_belady_is_the_optimum(case: tuple[list[list[int]], int], admission: str) -> None:
    # So the bound of check_eviction is met by a policy: it is not a loose one.
    queries, capacity = case
    run = run_small(Belady(admission == "bypass"), Instance.from_tokens(queries), capacity)
    misses = sum(map(len, queries)) - int(run.hits.sum())
    assert misses == optimum_by_search(queries, capacity, admission)


# Randomised policies: the same law, exactly.


def laws(
    fast: EvictionPolicy, slow: Callable[..., Twin], queries: list[list[int]], capacity: int
) -> tuple[dict, dict]:
    """The law in the driver and that of the twin; hypothesis looks elsewhere if it is too long."""
    try:
        mine = driver_law(fast, queries, capacity, most_runs=2_000)
    except TooManyRuns:
        assume(False)
    return mine, law(slow, queries, capacity)


@pytest.mark.parametrize(("fast", "slow"), named(RANDOMISED))
@settings(max_examples=30)
@given(case=cases(max_units=9, max_requests=14))
def test_equal_laws(
    case: tuple[list[list[int]], int], fast: EvictionPolicy, slow: Callable[..., Twin]
) -> None:
    mine, expected = laws(fast, slow, *case)
    assert mine == expected


@settings(max_examples=40)
@given(case=cases(max_units=8, max_requests=12), data=st.data())
def test_equal_laws_with_wrong_predictions(
    case: tuple[list[list[int]], int], data: st.DataObject
) -> None:
    queries, capacity = case
    guess = st.integers(0, 15).map(float) | st.just(math.inf)
    rows = [[data.draw(guess) for _ in query] for query in queries]
    fast = Marking(predictions=np.array([when for row in rows for when in row]))
    mine, expected = laws(fast, partial(TWINS["marking"], predictions=rows), queries, capacity)
    assert mine == expected


PHASES = [
    # Filling the cache, then one phase of k distinct units, the first of them new.
    *(pytest.param(1, k, id=f"star-{k}") for k in (1, 2, 3, 4)),
    *(pytest.param(s, k, id=f"broom-{s}-{k}") for s, k in ((2, 2), (2, 3), (3, 3))),
]


@pytest.mark.parametrize("phase", ["token", "query"])
@pytest.mark.parametrize(("length", "k"), PHASES)
def test_rlt_misses_harmonic_numbers(length: int, k: int, phase: str) -> None:
    queries = [[0] * (length - 1) + [u] for u in [*range(k), k, *range(k - 1)]]
    exact = driver_law(RLT(phase), queries, length - 1 + k)
    expected = sum(p * (k * length - sum(hits[-k:])) for hits, p in exact.items())
    assert expected == sum((Fraction(1, i) for i in range(1, k + 1)), Fraction(0))


def test_a_phase_that_begins_inside_a_query_keeps_the_path() -> None:
    # Read literally, the paper's rule has no unit left to evict at the third query.
    assert driver_law(RLT(), [[2], [1, 3], [2]], 2) == {(0, 0, 0): 1}


def test_a_law_with_too_many_runs_is_refused() -> None:
    with pytest.raises(TooManyRuns, match="'random_leaf' needs more than 10 runs"):
        driver_law(RandomLeaf(), [[u] for u in [*range(9), *range(5)]], 4, most_runs=10)
    with pytest.raises(InputError, match="needs one stream of random_words"):
        driver_law(LeafLRU(), [[1]], 1)


@pytest.mark.parametrize(
    ("fast", "slow"), named([pair for pair in RANDOMISED if not isinstance(pair[0], Marking)])
)
def test_equal_means_on_a_middle_sized_case(
    fast: EvictionPolicy, slow: Callable[..., Twin]
) -> None:
    # A right policy fails with probability 6e-7 at 5 standard errors, whatever the fixed seeds.
    queries, capacity = tree_of_turns(7), 40
    result = simulate(Instance.from_tokens(queries), capacity, fast, seeds=400)
    mine = result.total_hits
    other = [sum(slow(capacity, choose=Random(s).randrange).run(queries)) for s in range(60)]
    error = math.sqrt(mine.var(ddof=1) / len(mine) + np.var(other, ddof=1) / len(other))
    assert abs(mine.mean() - np.mean(other)) < 5 * error
    assert error < 0.01 * mine.mean()


def test_marking_follows_its_predictions() -> None:
    queries = tree_of_turns(3)
    instance = Instance.from_tokens(queries)
    true = np.array([when for row in true_next_uses(queries) for when in row])
    assert (perturbed_next_uses(instance) == true).all()
    trusting = simulate(instance, 30, Marking(), seeds=4).hits
    assert (simulate(instance, 30, Marking(predictions=true), seeds=4).hits == trusting).all()
    wrong = simulate(instance, 30, Marking(predictions=-true), seeds=4)
    assert wrong.misses.mean() > instance.units_requested - trusting.sum(axis=1).mean()


def test_noise_is_that_of_the_predictions() -> None:
    instance = Instance.from_tokens(tree_of_turns(3))
    noisy = perturbed_next_uses(instance, noise=2.0, seed=5)
    assert (noisy != perturbed_next_uses(instance)).any()
    by_hand = simulate(instance, 30, Marking(predictions=noisy), seeds=2).hits
    assert (simulate(instance, 30, Marking(noise=2.0, seed=5), seeds=2).hits == by_hand).all()
    with pytest.raises(InputError, match="noise = -1"):
        perturbed_next_uses(instance, noise=-1)
    with pytest.raises(InputError, match="one per requested unit"):
        simulate(instance, 30, Marking(predictions=noisy[:-1]))


# Random words.


def test_the_generator_has_its_published_output() -> None:
    # From the state (1, 2), as in the tests of the Rust crate rand_xoshiro.
    stream = random_words.RandomWords(jnp.uint32(1), jnp.uint32(2))
    got = []
    for _ in range(5):
        stream, word = random_words.word(stream)
        got.append(int(word))
    assert got == [3802928447, 813792938, 1618621494, 2955957307, 3252880261]


def drawn(words: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """What `below` makes of given words: the number, and whether it counts."""

    def one(word: jax.Array) -> tuple[jax.Array, jax.Array]:
        with mock.patch.object(random_words, "word", lambda stream: (stream, word)):
            return random_words.below(None, jnp.int32(n))[1:]  # type: ignore[arg-type]

    return tuple(map(np.asarray, jax.vmap(one)(jnp.asarray(words, jnp.uint32))))  # type: ignore


@settings(max_examples=25)
@given(n=st.integers(1, 2**31 - 1), words=st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_numbers_below_n_are_the_high_half_of_a_product(n: int, words: list[int]) -> None:
    # The words next to a border between two numbers are those that may not count.
    borders = [-(-(i << 32) // n) + d for i in range(1, min(n, 4)) for d in (-1, 0, 1)]
    given_words = np.array(([0, 1, 2**32 - 1, *borders, *words] * 40)[:40], np.uint64)
    number, counts = drawn(given_words, n)
    product = given_words * np.uint64(n)
    assert (number == product >> np.uint64(32)).all()
    assert (counts == (product % 2**32 >= 2**32 % n)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12])
def test_numbers_below_n_are_equally_likely(n: int) -> None:
    m = 60
    number, counts = drawn((2 * np.arange(m, dtype=np.uint64) + 1 << 32) // (2 * m), n)
    assert counts.all()
    assert (np.bincount(number) == m // n).all()


def test_streams_of_different_keys_differ() -> None:
    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(0), s))(jnp.arange(2_000))
    first = jax.vmap(lambda key: random_words.below(random_words.init(key), jnp.int32(10))[1])(keys)
    count = np.bincount(np.asarray(first), minlength=10)
    # chi-square with 9 degrees of freedom is above 40 with probability 8e-6
    assert ((count - 200) ** 2 / 200).sum() < 40


# What third parties run.


@pytest.mark.parametrize(("fast", "slow"), named(DETERMINISTIC, slow=VARIANTS))
def test_deterministic_policies_pass_the_check(
    fast: EvictionPolicy, slow: Callable[..., Twin]
) -> None:
    report = check_eviction(fast, twin=slow, examples=30)
    assert isinstance(report, Report)
    assert report.ran["rules"] == 45
    assert report.ran["twin"] == 30
    assert set(report.skipped) == (set() if fast.online else {"future"})
    assert set(report.ran) | set(report.skipped) == {
        "rules",
        "twin",
        "optimum",
        "future",
        "labels",
        "padding",
        "lanes",
        "eager",
        "compilation",
    }


@pytest.mark.parametrize(("fast", "slow"), named(RANDOMISED, slow=VARIANTS))
def test_randomised_policies_pass_the_check(
    fast: EvictionPolicy, slow: Callable[..., Twin]
) -> None:
    report = check_eviction(fast, twin=slow, examples=30)
    assert report.ran["twin"] >= 25
    assert set(report.skipped) == (set() if fast.online else {"future"})


def test_random_cases_keep_their_bounds() -> None:
    some = list(random_cases(200, 1))
    assert some == list(random_cases(200, 1))
    assert some != list(random_cases(200, 2))
    assert all(case.fits and 1 <= case.instance.tree.units <= 12 for case in some)
    assert all(len(case.sequences) <= 16 and case.longest <= 4 for case in some)
    assert not all(case.fits for case in random_cases(50, 1, skip=True))
    # most of them evict, or they would show little
    evicting = [
        sum(map(len, case.sequences)) - sum(TWINS["llru"](case.capacity).run(case.sequences))
        > case.capacity
        for case in some
    ]
    assert np.mean(evicting) > 0.75


def test_failing_cases_are_made_small() -> None:
    def asks_twice_for_a_unit(case: Case) -> bool:
        return sum((1,) in path_of(tokens) for tokens in case.sequences) >= 2

    case = next(filter(asks_twice_for_a_unit, random_cases(50, 0)))
    small = smallest_failing(case, asks_twice_for_a_unit)
    assert small == Case(((1,), (1,)), 1, case.seed)


def test_the_check_needs_no_twin() -> None:
    assert check_eviction(LeafLRU(), examples=2).skipped == {"twin": "no twin given"}


# Mutants. Each is right but for one thing, which the named check must see.


class Wrong(EvictionPolicy):
    """The least recently used leaf edge goes, found by looking at all: a base for mutants."""

    name: ClassVar[str] = "wrong"

    def init(self, tape: Tape, workers: int, capacity: Any, key: Any) -> Any:
        return jnp.zeros(())

    def evict(
        self, state: Any, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[Any, Scalar, Scalar]:
        allowed = self.may_go(tape, cache, query)
        edge = jnp.argmin(jnp.where(allowed, self.order(tape, cache, query), 2**30))
        edge = edge.astype(jnp.int32)
        units = self.units(cache.cached[edge], need)
        return self.after(state), edge, jnp.where(allowed[edge], units, 0)

    def may_go(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return (cache.cached > 0) & (cache.kids == 0) & (cache.last < query.first)

    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return cache.last

    def units(self, have: Scalar, need: Scalar) -> Scalar:
        return jnp.minimum(have, need)

    def after(self, state: Any) -> Any:
        return state


class MostRecent(Wrong):
    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return -cache.last


class InnerUnits(Wrong):
    def may_go(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return (cache.cached > 0) & (cache.last < query.first)

    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return tape.depth


class FromThePath(Wrong):
    def may_go(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return (cache.cached > 0) & (cache.kids == 0)

    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return -cache.last


class Never(Wrong):
    def units(self, have: Scalar, need: Scalar) -> Scalar:
        return jnp.zeros((), jnp.int32)


class WholeEdges(Wrong):
    def units(self, have: Scalar, need: Scalar) -> Scalar:
        return have


class TooMany(Wrong):
    def units(self, have: Scalar, need: Scalar) -> Scalar:
        return have + 1


class Negative(Wrong):
    def units(self, have: Scalar, need: Scalar) -> Scalar:
        return jnp.where(need > 1, -1, 1)


class NotANumber(Wrong):
    def after(self, state: Any) -> Any:
        return state / state


class ByEdgeNumber(Wrong):
    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return jnp.arange(tape.edges, dtype=jnp.int32)


class ByPadding(Wrong):
    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return cache.last if tape.edge.shape[0] == 64 else -cache.last


class ByCompilation(Wrong):
    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return cache.last if isinstance(query.t, jax.core.Tracer) else -cache.last


class ByLabels(Wrong):
    per_unit: ClassVar[bool] = True

    def prepare(self, instance: Instance, served: np.ndarray | None = None) -> Prepared:
        return Prepared({}, {"id": instance.tree.labels[instance.tree.offset[:-1]]})

    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return tape.prepared.edge["id"]


class StaticNumber(Wrong):
    weight: int = eqx.field(static=True, default=3)


class SeesTheEnd(Wrong):
    """The least recent goes, or the most recent if the paths of all queries add up to be odd."""

    def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
        return jnp.where(tape.start[-1] % 2 == 0, cache.last, -cache.last)


class SeesNextUses(Belady):
    online: ClassVar[bool] = True


class KeyOfTheFuture(KeyPolicy):
    """Counts uses, those to come included."""

    name: ClassVar[str] = "key_of_the_future"

    def look_ahead(
        self, instance: Instance, served: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        return {"uses": np.bincount(instance.log.edge)[instance.log.edge]}

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return tape.prepared.position["uses"][unit.last]


MUTANTS = [
    (MostRecent(), "twin"),
    (InnerUnits(), "rules"),
    (FromThePath(), "rules"),
    (Never(), "rules"),
    (WholeEdges(), "rules"),
    (TooMany(), "rules"),
    (Negative(), "rules"),
    (NotANumber(), "rules"),
    (ByEdgeNumber(), "labels"),
    (ByPadding(), "padding"),
    (ByCompilation(), "eager"),
    (ByLabels(), "labels"),
    (StaticNumber(), "compilation"),
    (SeesTheEnd(), "future"),
    (SeesNextUses(), "future"),
    (KeyOfTheFuture(), "future"),
]


def test_the_base_of_the_mutants_is_right() -> None:
    check_eviction(Wrong(), twin=TWINS["llru"], examples=20)


@pytest.mark.parametrize(("mutant", "check"), named(MUTANTS))
def test_mutants_are_rejected(mutant: EvictionPolicy, check: str) -> None:
    twin = TWINS["llru"] if check == "twin" else None
    with pytest.raises(CheckFailed, match=f"fails the check '{check}'.*smallest case: cap") as info:
        check_eviction(mutant, twin=twin, examples=40)
    assert info.value.check == check
    # what is compiled once is not compiled again, so that one cannot be made smaller
    assert len(info.value.case.sequences) <= 6 or check == "compilation"


class FavouriteLeaf(RandomLeaf):
    """Takes the first of three leaves too often."""

    def evict(
        self, state: Any, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[Any, Scalar, Scalar]:
        before = random_words.below

        def below(stream: Any, n: Scalar) -> tuple[Any, Scalar, Scalar]:
            stream, number, counts = before(stream, n)
            return stream, jnp.where(n == 3, number // 2, number), counts

        with mock.patch.object(random_words, "below", below):
            return super().evict(state, tape, cache, query, need)


@pytest.mark.parametrize(
    ("mutant", "twin"),
    [
        pytest.param(FavouriteLeaf(), TWINS["random_leaf"], id="favourite"),
        pytest.param(RandomLeaf(), TWINS["rlt"], id="without marks"),
        pytest.param(RLT("query"), TWINS["rlt"], id="phases of queries"),
        pytest.param(RLT("published"), TWINS["rlt"], id="phases as published"),
        pytest.param(Marking(predictions=None, noise=5.0), PerfectMarking, id="noise"),
    ],
)
def test_mutants_in_law_are_rejected(mutant: EvictionPolicy, twin: Callable[..., Twin]) -> None:
    with pytest.raises(CheckFailed, match="fails the check 'twin': law of the hits"):
        check_eviction(mutant, twin=twin, examples=60)


def test_a_policy_with_draws_of_its_own_is_not_compared_in_law() -> None:
    class Loner(Wrong):
        randomised: ClassVar[bool] = True

        def init(self, tape: Tape, workers: int, capacity: Any, key: Any) -> Any:
            return jax.random.bits(key)

        def order(self, tape: Tape, cache: Cache, query: Query) -> Any:
            return cache.last

    report = check_eviction(Loner(), twin=TWINS["random_leaf"], examples=2)
    assert "one stream" in report.skipped["twin"]


# By name.


def test_policies_have_names_and_sources() -> None:
    for name, kind in POLICIES.items():
        assert kind.name == name
        assert kind.source
        assert kind.guarantee
        assert isinstance(policy(name), kind)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lru", "did you mean .*llru"),
        ("rlt:fase=token", "did you mean phase"),
        ("rlt:phase=tokens", "phase = 'tokens'"),
        ("tail_lru:xi=many", "xi = 'many': must be of type int"),
        ("tail_lru:xi", "needs a value"),
        ("llru:xi=1", "has no parameters"),
    ],
)
def test_bad_names_are_explained(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy(text)
