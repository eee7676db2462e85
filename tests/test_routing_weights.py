"""Routers by multiplicative weights: the law of every decision against that of the slow twin."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxtyping import Array

from kvtheory import simulate_cluster as driver
from kvtheory.cache import Scalar, Tape
from kvtheory.cluster import Cluster
from kvtheory.dispatch import View, arrive, init_cluster
from kvtheory.errors import InputError
from kvtheory.eviction import LeafLRU, random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.instance import Instance
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing import (
    AffinityMW,
    DualMap,
    EXP3Router,
    EXP4Router,
    FixedShareRouter,
    HedgeRouter,
    LeastWorkLeft,
    MaxHit,
    PowerOfTwo,
    RoundRobin,
    router,
)
from kvtheory.routing.ties import by_weight
from kvtheory.testing.compiled import in_the_loop_over_queries, whole_arrays
from kvtheory.testing.small_clusters import VIEWS, ClusterCase, Unlike, random_clusters
from kvtheory.testing.twin_cluster import ClusterTwin
from kvtheory.testing.twin_router import RouterTwin, ScriptedDraws, outcomes
from kvtheory.testing.twins_deterministic import LLRU
from kvtheory.testing.twins_routing import ROUTERS

WORKERS = 3
POINTS = 1024
EXPERTS = (MaxHit(), LeastWorkLeft(), RoundRobin())


def streams(words: Sequence[int]) -> RandomWords:
    """Random streams with given next words."""
    back = pow(0x9E3779BB, -1, 2**32), pow(5, -1, 2**32)
    turned = [word * back[1] % 2**32 for word in words]
    a = [((x >> 5) | (x << 27)) % 2**32 * back[0] % 2**32 for x in turned]
    return RandomWords(jnp.array(a, jnp.uint32), jnp.ones(len(words), jnp.uint32))


# They lie evenly, so that shares of them are probabilities.
EVEN = [(2 * k + 1) * 2**31 // POINTS for k in range(POINTS)]


def test_streams_have_the_words_that_were_asked_for() -> None:
    assert jax.vmap(random_words.word)(streams(EVEN))[1].tolist() == EVEN


@pytest.mark.parametrize("wide", [False, True])
def test_a_draw_is_by_weight_and_never_without_weight(wide: bool) -> None:
    with jax.enable_x64(wide):
        draw = jax.vmap(lambda s, w: by_weight(s, w)[1], in_axes=(0, None))
        drawn = draw(streams(EVEN), jnp.array([0.0, 0.25, 0.0, 0.75, 0.0]))
        assert np.bincount(drawn, minlength=5).tolist() == [0, 256, 0, 768, 0]
        ends = streams([0, 2**32 - 1])
        assert draw(ends, jnp.array([0.0, 1.0, 0.0])).tolist() == [1, 1]


class Recorded(RoutingPolicy):
    """A router whose law is noted for each query, and every third query of which goes elsewhere."""

    policy: RoutingPolicy

    name: ClassVar[str] = "recorded"

    def init(self, tape: Tape, workers: int, prepared: Any, key: Any) -> Any:
        n = tape.query_length.shape[0]
        own = self.policy.init(tape, workers, prepared, key)
        return own, jnp.zeros((n, workers)), jnp.zeros(n, jnp.int32)

    def propose(self, state: Any, tape: Tape, seen: Seen) -> tuple[Any, Scalar]:
        own, laws, proposed = state

        def named(stream: RandomWords) -> Scalar:
            return self.policy.propose(own._replace(stream=stream), tape, seen)[1]

        law = jax.nn.one_hot(jax.vmap(named)(streams(EVEN)), seen.workers).mean(axis=0)
        own, worker = self.policy.propose(own, tape, seen)
        sent = (worker + (seen.t % 3 == 2)) % seen.workers
        return (own, laws.at[seen.t].set(law), proposed.at[seen.t].set(worker)), sent

    def dispatch(self, state: Any, tape: Tape, seen: Seen, worker: Scalar) -> Any:
        return self.policy.dispatch(state[0], tape, seen, worker), *state[1:]

    def first_token(self, state: Any, tape: Tape, event: Event) -> Any:
        return self.policy.first_token(state[0], tape, event), *state[1:]

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        return self.policy.complete(state[0], tape, event), *state[1:]


@dataclass
class Replayed:
    """A slow router that repeats what was drawn and where queries went, and notes its laws."""

    twin: RouterTwin
    drawn: Sequence[int]
    sent: Sequence[int]
    laws: list[list[float]] = field(default_factory=list)

    def route(self, query: Any, view: Any, now: float) -> int:
        def propose(draws: ScriptedDraws) -> int:
            self.twin.given_draws = draws
            return self.twin.propose(query, view, now)

        law = outcomes(propose)
        self.laws.append([law.get(i, 0.0) for i in range(WORKERS)])
        propose(ScriptedDraws([self.drawn[query.index]]))
        self.twin.dispatch(query, view, now, self.sent[query.index])
        return self.sent[query.index]

    def first_token(self, query: Any, worker: int, now: float) -> None:
        self.twin.first_token(query, worker, now)

    def complete(self, query: Any, worker: int, now: float) -> None:
        self.twin.complete(query, worker, now)


class Caught(Exception):
    """The driver was about to start."""


def arguments(policy: RoutingPolicy, instance: Instance, cluster: Cluster, **more: Any) -> Any:
    """What the driver compiles its function for, and then passes to it."""
    with mock.patch.object(driver, "_jitted") as jitted:
        jitted.lower.side_effect = Caught
        with pytest.raises(Caught):
            driver.simulate_cluster(instance, cluster, policy, LeafLRU(), batching="map", **more)
    return jitted.lower.call_args.args


@functools.partial(jax.jit, static_argnums=0)
def last_state(kind: Any, policies: Any, world: Any, key: Any) -> Any:
    view = View(kind[0], LeafLRU(), kind[1])
    state = init_cluster(*policies, view, world, *jax.random.split(key))
    state, _ = lax.scan(lambda s, t: arrive(*policies, view, world, s, t), state, world.row)
    return state.router, state.queues.worker


def compare_laws(policy: RoutingPolicy, parameters: dict[str, Any], case: ClusterCase) -> None:
    """Every decision has the law of the twin, which has seen the same draws.

    Raises
    ------
    Unlike
        For the first one that has another law.
    """
    more = VIEWS["routed"] | {"believed": case.believed, "key": jax.random.key(case.seed)}
    kind, policies, world, keys = arguments(Recorded(policy), case.instance, case.cluster, **more)
    with jax.enable_x64(True):
        (own, laws, proposed), sent = jax.tree.map(
            np.asarray, last_state(kind, policies, world, keys[0])
        )
    if isinstance(policy, EXP3Router):
        drawn = own.notes.who
    else:
        # Hedge learns the same whatever it drew, the others draw workers
        drawn = proposed * (not isinstance(policy, HedgeRouter))
    names = ["max_hit", "least_work_left", "round_robin"]
    experts = {} if isinstance(policy, AffinityMW) else {"experts": [ROUTERS[n](3) for n in names]}
    twin = ROUTERS[policy.name](WORKERS, **experts, **parameters)
    replayed = Replayed(twin, drawn.tolist(), sent.tolist())
    slow = ClusterTwin(
        case.cluster, replayed, lambda i, b: LLRU(b), believed=case.believed, **VIEWS["routed"]
    )
    slow.run(case.sequences, case.arrival, output=case.output)
    for t, law in enumerate(replayed.laws):
        # the ends of each expert's or worker's share lie between two points
        if np.abs(laws[t] - law).max() > 2 * len(EXPERTS) / POINTS:
            raise Unlike(f"query {t} has the law {laws[t]}, by the twin {law}; {case}")


FAST = {"eta": 0.5, "mixing": 0.1}
COMPARED: list[tuple[RoutingPolicy, dict[str, Any]]] = [
    (HedgeRouter(EXPERTS, eta=1.0), {"eta": 1.0}),
    (FixedShareRouter(EXPERTS, eta=1.0, alpha=0.1), {"eta": 1.0, "alpha": 0.1}),
    (EXP3Router(EXPERTS, **FAST), FAST),
    (EXP4Router(EXPERTS, **FAST), FAST),
    (AffinityMW(rate=0.3), {"rate": 0.3}),
]


def named(value: object) -> str | None:
    return type(value).__name__ if isinstance(value, RoutingPolicy) else None


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [
        pytest.param(*row, marks=() if row[0].name in ("hedge", "exp3") else pytest.mark.slow)
        for row in COMPARED
    ],
    ids=named,
)
def test_every_decision_has_the_law_of_the_twin(
    policy: RoutingPolicy, parameters: dict[str, Any]
) -> None:
    for case in random_clusters(10, 1, WORKERS):
        compare_laws(policy, parameters, case)


class BySum(HedgeRouter):
    """The estimates are divided by their sum instead of the largest."""

    def propose(self, state: Any, tape: Tape, seen: Seen) -> tuple[Any, Scalar]:
        state, worker = super().propose(state, tape, seen)
        estimate = seen.service + seen.work
        share = estimate.max() / jnp.maximum(estimate.sum(), 1e-9)
        return state._replace(notes=state.notes * share), worker


class LearnsTwice(HedgeRouter):
    """η is applied twice."""

    def learn(self, learner: Any, losses: Array) -> Any:
        return super().learn(super().learn(learner, losses), losses)


class KeepsAll(FixedShareRouter):
    """Nothing is shared."""

    def learn(self, learner: Any, losses: Array) -> Any:
        return learner.update(losses, self.eta, 0.0)


def as_proposed(state: Any, event: Event) -> Event:
    """The completion as it would be if the router had been followed."""
    return event._replace(worker=state.notes.worker[event.t])


class Gullible3(EXP3Router):
    """Learns from queries that went elsewhere, too."""

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        return super().complete(state, tape, as_proposed(state, event))


class Gullible4(EXP4Router):
    """Learns from queries that went elsewhere, too."""

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        return super().complete(state, tape, as_proposed(state, event))


class Unweighted(EXP3Router):
    """Does not divide by the probability."""

    def learn(self, learner: Any, who: Any, worker: Any, loss: Any, p: Any) -> Any:
        return learner.update(who, loss, 1.0, self.eta)


class Hasty(AffinityMW):
    """The mean moves before the loss is taken."""

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        moved, _ = state.relative.loss(event.time - event.arrival, self.rate)
        learned = super().complete(state._replace(relative=moved), tape, event)
        return learned._replace(relative=moved)


class NoSubtrees(AffinityMW):
    """All queries share their weights."""

    def propose(self, state: Any, tape: Tape, seen: Seen) -> tuple[Any, Scalar]:
        return super().propose(state, tape._replace(edge=tape.edge * 0), seen)

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        return super().complete(state, tape._replace(edge=tape.edge * 0), event)


@pytest.mark.parametrize(
    ("mutant", "parameters"),
    [
        (BySum(EXPERTS, eta=1.0), {"eta": 1.0}),
        pytest.param(LearnsTwice(EXPERTS, eta=1.0), {"eta": 1.0}, marks=pytest.mark.slow),
        pytest.param(
            KeepsAll(EXPERTS, eta=1.0, alpha=0.1),
            {"eta": 1.0, "alpha": 0.1},
            marks=pytest.mark.slow,
        ),
        (Gullible3(EXPERTS, **FAST), FAST),
        pytest.param(Unweighted(EXPERTS, **FAST), FAST, marks=pytest.mark.slow),
        pytest.param(Gullible4(EXPERTS, **FAST), FAST, marks=pytest.mark.slow),
        pytest.param(Hasty(rate=0.3), {"rate": 0.3}, marks=pytest.mark.slow),
        pytest.param(NoSubtrees(rate=0.3), {"rate": 0.3}, marks=pytest.mark.slow),
    ],
    ids=named,
)
def test_the_comparison_of_laws_rejects_mutants(
    mutant: RoutingPolicy, parameters: dict[str, Any]
) -> None:
    cases = random_clusters(10, 1, WORKERS)
    with pytest.raises(Unlike, match="has the law"):
        any(compare_laws(mutant, parameters, case) for case in cases)


# Experts.


@pytest.mark.slow
def test_experts_may_draw_prepare_and_take_advice() -> None:
    # two with rows of their own under the same names, one of them inside another router
    inner = EXP4Router((DualMap(prefix=1), PowerOfTwo()))
    policy = HedgeRouter((DualMap(prefix=2), inner))
    case = next(random_clusters(1, 2, WORKERS))
    rows = policy.prepare(case.instance, WORKERS)
    assert sorted(rows) == [
        *("0.key", "0.last", "0.pair"),
        *("1.0.key", "1.0.last", "1.0.pair"),
    ]
    one, two = DualMap(prefix=2), DualMap(prefix=1)
    for name, array in one.prepare(case.instance, WORKERS).items():
        assert (rows[f"0.{name}"] == array).all()
    for name, array in two.prepare(case.instance, WORKERS).items():
        assert (rows[f"1.0.{name}"] == array).all()
    result = driver.simulate_cluster(case.instance, case.cluster, policy, LeafLRU(), seeds=20)
    alone = [
        driver.simulate_cluster(case.instance, case.cluster, p, LeafLRU()).worker[0]
        for p in (one, two)
    ]
    assert len(np.unique(result.worker, axis=0)) > 1
    assert (alone[0] != alone[1]).any()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(HedgeRouter, marks=pytest.mark.slow),
        pytest.param(FixedShareRouter, marks=pytest.mark.slow),
        pytest.param(EXP3Router, marks=pytest.mark.slow),
    ],
)
def test_one_expert_is_followed(kind: Callable[..., RoutingPolicy]) -> None:
    case = next(random_clusters(1, 3, WORKERS))
    for expert in (MaxHit(), DualMap(prefix=1)):
        advised, alone = (
            driver.simulate_cluster(case.instance, case.cluster, policy, LeafLRU())
            for policy in (kind((expert,)), expert)
        )
        assert (advised.worker == alone.worker).all()


def test_no_expert_is_an_error() -> None:
    with pytest.raises(InputError, match="pass at least one router"):
        EXP4Router(())


# The compiled programs.


@pytest.fixture(scope="module")
def wide() -> Instance:
    """An instance larger in edges than in queries."""
    leaf = np.random.default_rng(0).integers(0, 3600, 1000)
    return Instance.from_tokens(
        [[int(x) // 100, int(x) // 10, int(x)] for x in leaf], arrival=np.arange(1000.0)
    )


@pytest.mark.parametrize(
    "text",
    [
        "hedge:experts=max_hit+lbgr",
        pytest.param("fixed_share", marks=pytest.mark.slow),
        pytest.param("exp3", marks=pytest.mark.slow),
        pytest.param("exp4", marks=pytest.mark.slow),
        "affinity_mw",
    ],
)
def test_no_query_touches_a_whole_array(text: str, wide: Instance) -> None:
    kind, policies, world, _ = arguments(router(text), wide, Cluster(np.full(WORKERS, 300)))
    with jax.enable_x64(True):
        # two lanes, so that the loop over lanes is one
        keys = jax.random.split(jax.random.key(0), 2)
        program = driver._jitted.lower(kind, policies, world, keys).compile().as_text()
    assert any(op.size >= 1000 for op in in_the_loop_over_queries(program))
    assert not whole_arrays(program, 1000)
