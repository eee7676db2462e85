"""`check_routing` passes every router and rejects wrong ones."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import pytest

from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing import (
    ROUTERS,
    HedgeRouter,
    JoinShortestQueue,
    LeastWorkLeft,
    MaxHit,
    PublishedLBGR,
    RandomWorker,
)
from kvtheory.testing import twins_routing_lbgr
from kvtheory.testing.check_routing import RoutingCheckFailed, check_routing
from kvtheory.testing.twin_router import RouterTwin
from kvtheory.testing.twins_routing import ADVISED, PLAIN

# They know workers by index: turns, rings of hashes, and one that keeps the first of near equals.
BY_INDEX = ("round_robin", "consistent_hash_bounded", "dualmap", PublishedLBGR.name)
SLOW = PLAIN | {PublishedLBGR.name: twins_routing_lbgr.PublishedLBGR}
# decayed loads of idle workers differ by rounding, which decides where queries cost nothing
del SLOW["lbgr"]
# exp3 and exp4 have lbgr among their experts


def advised_twin(name: str, workers: int) -> RouterTwin:
    """A slow router with the default experts."""
    experts = [PLAIN[expert.name](workers) for expert in HedgeRouter().experts]
    return ADVISED[name](workers, experts=experts)


SLOW |= {name: functools.partial(advised_twin, name) for name in ("hedge", "fixed_share")}


# The common cases; the others in the full run.
KINDS = {"lbgr"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in KINDS else pytest.mark.slow) for n in ROUTERS]
)
def test_every_router_passes(name: str) -> None:
    twin = SLOW.get(name)
    router = ROUTERS[name]()
    report = check_routing(router, twin=twin, symmetric=name not in BY_INDEX, examples=10)
    assert {"workers", "future", "lanes", "compilation", "long"} <= set(report.ran)
    assert ("permutation" in report.ran) == (name not in BY_INDEX)
    assert ("twin" in report.ran) == (twin is not None)


class Stateless(RoutingPolicy):
    """A base of mutants."""

    name: ClassVar[str] = "mutant"

    def init(self, tape: Any, workers: int, prepared: Any, key: Any) -> Any:
        return ()


class OffByOne(Stateless):
    """Counts workers from 1."""

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        return state, seen.t % seen.workers + 1


class Clairvoyant(Stateless):
    """Looks at the length of the next query."""

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        return state, (tape.query_length[seen.t + 1] % seen.workers).astype(jnp.int32)


class Divides(Stateless):
    """Notes a ratio that is 0/0 for a query that costs nothing, until the next one."""

    def init(self, tape: Any, workers: int, prepared: Any, key: Any) -> Any:
        return jnp.zeros(workers, float)

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        return state, jnp.argmin(seen.in_flight).astype(jnp.int32)

    def complete(self, state: Any, tape: Any, event: Event) -> Any:
        return state.at[event.worker].set((event.time - event.before) / event.service)


class PrefersTheFirst(Stateless):
    """An index in the score."""

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        return state, jnp.argmin(seen.in_flight + 3 * jnp.arange(seen.workers)).astype(jnp.int32)


class StaticRate(Stateless):
    """Compiles anew for another rate."""

    rate: float = eqx.field(static=True, default=0.5)

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        return state, jnp.argmin(self.rate * seen.in_flight).astype(jnp.int32)


class SecretlyRandom(RandomWorker):
    """Draws, but does not say so."""

    randomised: ClassVar[bool] = False


class Lopsided(RandomWorker):
    """Draws the first worker twice as often."""

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        state, k = super().propose(state, tape, seen._replace(hits=jnp.append(seen.hits, 0)))
        return state, k % seen.workers


class Lies(JoinShortestQueue):
    """Takes the longest queue."""

    def propose(self, state: Any, tape: Any, seen: Seen) -> tuple[Any, Any]:
        return state, jnp.argmax(seen.in_flight).astype(jnp.int32)


@pytest.mark.parametrize(
    ("mutant", "twin", "check"),
    [
        (OffByOne, None, "workers"),
        (Clairvoyant, None, "future"),
        pytest.param(SecretlyRandom, None, "lanes", marks=pytest.mark.slow),
        pytest.param(StaticRate, None, "compilation", marks=pytest.mark.slow),
        pytest.param(PrefersTheFirst, None, "permutation", marks=pytest.mark.slow),
        pytest.param(Lopsided, None, "permutation", marks=pytest.mark.slow),
        pytest.param(Divides, None, "long", marks=pytest.mark.slow),
        (Lies, PLAIN["join_shortest_queue"], "twin"),
    ],
)
def test_mutants_are_rejected(
    mutant: type[RoutingPolicy], twin: Callable[..., Any] | None, check: str
) -> None:
    with pytest.raises(RoutingCheckFailed, match=f"fails the check '{check}'") as error:
        check_routing(mutant(), twin=twin, examples=6)
    assert error.value.check == check


@pytest.mark.slow
def test_a_twin_may_have_parameters() -> None:
    twin = functools.partial(PLAIN["least_work_left"], work="true")
    report = check_routing(LeastWorkLeft("true"), twin=twin, examples=5)
    assert report.ran["twin"] == 5


def test_the_report_says_what_was_left_out() -> None:
    report = check_routing(MaxHit(), symmetric=False, examples=2)
    assert report.skipped == {
        "permutation": "the router knows workers by index",
        "twin": "no twin given",
    }
    assert report.seconds > 0
