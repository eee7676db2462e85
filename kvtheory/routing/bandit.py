"""What routers over other routers share that learn from the latency of what they did alone."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from kvtheory.cache import Scalar, Tape, write
from kvtheory.learning import checks
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing.advised import AdvisedRouter, AdvisedState
from kvtheory.routing.cache_aware import CacheAware
from kvtheory.routing.lbgr import LBGR
from kvtheory.routing.least_work_left import LeastWorkLeft
from kvtheory.routing.relative_latency import RelativeLatency


class Plays(NamedTuple):
    """The running mean, and of each query the worker proposed, its probability and who learns."""

    relative: RelativeLatency
    worker: Int[Array, " requests"]
    probability: Float[Array, " requests"]
    who: Int[Array, "requests ..."]


class BanditRouter(AdvisedRouter):
    """Base: on completion the loss ℓ = E/(E + Ē) is learned by those who chose the worker.

    E is the latency of the query from arrival to completion and Ē a running mean of those before.
    Nothing is learned from a query that went elsewhere than proposed.

    Parameters
    ----------
    experts
        Other routers.
    eta
        η, the rate of the weights.
    mixing
        γ, the share of uniform draws.
    rate
        By which Ē moves towards each latency.
    """

    experts: tuple[RoutingPolicy, ...] = eqx.field(
        converter=tuple, default=(CacheAware(), LeastWorkLeft(), LBGR())
    )
    eta: float = 0.05
    mixing: float = 0.02
    rate: float = 0.02

    source: ClassVar[str] = "Auer, Cesa-Bianchi, Freund, Schapire 2002"

    def __check_init__(self) -> None:
        checks.share("mixing", self.mixing)
        checks.share("rate", self.rate)

    @abc.abstractmethod
    def learn(self, learner: Any, who: Array, worker: Scalar, loss: Array, p: Array) -> Any:
        """The learner after the completion of a query that went where it was proposed."""

    def plays(self, requests: int, who: tuple[int, ...] = ()) -> Plays:
        """Notes of no query, with ``who`` the shape of those who learn from one."""
        return Plays(
            relative=RelativeLatency.init(),
            worker=jnp.zeros(requests, jnp.int32),
            probability=jnp.ones(requests, float),
            who=jnp.zeros((requests, *who), jnp.int32),
        )

    def played(
        self, state: AdvisedState, seen: Seen, worker: Scalar, p: Array, who: Array
    ) -> AdvisedState:
        """Note what was proposed."""
        of, t = state.notes, seen.t
        notes = Plays(
            relative=of.relative,
            worker=write(of.worker, t, worker),
            probability=write(of.probability, t, p),
            who=write(of.who, t, who),
        )
        return state._replace(notes=notes)

    def complete(self, state: AdvisedState, tape: Tape, event: Event) -> AdvisedState:
        state, t = super().complete(state, tape, event), event.t
        of, before = state.notes, state.learner
        relative, loss = of.relative.loss(event.time - event.arrival, self.rate)
        after = self.learn(before, of.who[t], event.worker, loss, of.probability[t])
        followed = of.worker[t] == event.worker
        learner = jax.tree.map(lambda new, old: jnp.where(followed, new, old), after, before)
        return state._replace(learner=learner, notes=of._replace(relative=relative))
