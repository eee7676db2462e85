"""What routers that take advice share: other routers propose, and account for what is done."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.errors import bad
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.instance import Instance
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing.cache_aware import CacheAware
from kvtheory.routing.least_work_left import LeastWorkLeft
from kvtheory.routing.max_hit import MaxHit


class AdvisedState(NamedTuple):
    """States of the experts, what was learned of them, notes for later, and the random stream."""

    experts: tuple[Any, ...]
    learner: Any
    notes: Any
    stream: RandomWords


class AdvisedRouter(RoutingPolicy):
    """Base of routers over other routers.

    Each expert proposes a worker for every query, and hears of every dispatch, first token and
    completion, whoever was followed.

    Parameters
    ----------
    experts
        Other routers, those that take advice included.
    """

    experts: tuple[RoutingPolicy, ...] = eqx.field(
        converter=tuple, default=(CacheAware(), LeastWorkLeft(), MaxHit())
    )

    randomised: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if not self.experts:
            raise bad("experts", self.experts, "pass at least one router")
        for expert in self.experts:
            if not isinstance(expert, RoutingPolicy):
                raise bad("experts", expert, "must be routers; kvtheory.routing.router reads text")

    @property
    def watches_prefill(self) -> bool:  # type: ignore[override]
        return any(expert.watches_prefill for expert in self.experts)

    @property
    def watches_starts(self) -> bool:  # type: ignore[override]
        return any(e.watches_prefill and e.watches_starts for e in self.experts)

    @abc.abstractmethod
    def start(self, requests: int, workers: int) -> tuple[Any, Any]:
        """What is learned of the experts and what is noted, before the first query."""

    def prepare(self, instance: Instance, workers: int) -> dict[str, Any]:
        return {
            f"{k}.{name}": rows
            for k, expert in enumerate(self.experts)
            for name, rows in expert.prepare(instance, workers).items()
        }

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> AdvisedState:
        own, *keys = jax.random.split(key, len(self.experts) + 1)
        rows: list[dict[str, Array]] = [{} for _ in self.experts]
        for name, array in prepared.items():
            k, _, rest = name.partition(".")
            rows[int(k)][rest] = array
        experts = tuple(
            expert.init(tape, workers, of, k)
            for expert, of, k in zip(self.experts, rows, keys, strict=True)
        )
        learner, notes = self.start(tape.query_length.shape[0], workers)
        return AdvisedState(experts, learner, notes, random_words.init(own))

    def advice(
        self, state: AdvisedState, tape: Tape, seen: Seen
    ) -> tuple[AdvisedState, Int[Array, " experts"]]:
        """Next state, and the worker that each expert names."""
        pairs = [
            expert.propose(own, tape, seen)
            for expert, own in zip(self.experts, state.experts, strict=True)
        ]
        named = jnp.stack([jnp.asarray(worker).astype(jnp.int32) for _, worker in pairs])
        return state._replace(experts=tuple(own for own, _ in pairs)), named

    def dispatch(self, state: AdvisedState, tape: Tape, seen: Seen, worker: Scalar) -> AdvisedState:
        return self._tell(state, lambda expert, own: expert.dispatch(own, tape, seen, worker))

    def first_token(self, state: AdvisedState, tape: Tape, event: Event) -> AdvisedState:
        return self._tell(state, lambda expert, own: expert.first_token(own, tape, event))

    def complete(self, state: AdvisedState, tape: Tape, event: Event) -> AdvisedState:
        return self._tell(state, lambda expert, own: expert.complete(own, tape, event))

    def _tell(self, state: AdvisedState, tell: Callable[[RoutingPolicy, Any], Any]) -> AdvisedState:
        experts = zip(self.experts, state.experts, strict=True)
        return state._replace(experts=tuple(tell(expert, own) for expert, own in experts))
