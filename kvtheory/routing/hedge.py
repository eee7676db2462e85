"""Hedge over routers, on an estimate of what each of them would have cost."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.cache import Scalar, Tape
from kvtheory.learning.hedge import Hedge
from kvtheory.router import Seen
from kvtheory.routing.advised import AdvisedRouter, AdvisedState
from kvtheory.routing.ties import by_weight


class HedgeRouter(AdvisedRouter):
    """Follow an expert drawn by weight; all of them pay an estimate, w_k ← w_k·exp(−η·loss_k).

    The estimate for a worker is the believed service of the query there plus the believed seconds
    of the queries in flight; the loss of an expert is that of the worker it names over the largest
    of all workers. It is learned when the query is dispatched.

    Parameters
    ----------
    experts
        Other routers. The weight goes to those that keep the estimate small query by query: where
        queues are long, to those that balance them, whatever that does to the caches later. `exp4`
        learns from true latencies.
    eta
        η, the rate.

    Guarantee
    ---------
    On every run, over the T queries so far, Σ p·loss exceeds that of the best expert by at most
    ln(N)/η + ηT/8, √(T·ln N/2) at its best η. It is about the losses of this run, in which the
    caches and queues are those that the router's own choices made: nothing follows for the latency,
    nor for what an expert would have lost if it had been followed throughout.

    Cost
    ----
    That of the experts, and O(experts) a query.

    References
    ----------
    Freund and Schapire, JCSS 55 (1997).
    """

    eta: float = 0.05

    name: ClassVar[str] = "hedge"
    source: ClassVar[str] = "Freund, Schapire 1997"
    guarantee: ClassVar[str] = (
        "regret <= ln(N)/eta + eta·T/8 in the losses it is given; none on latency"
    )

    def start(self, requests: int, workers: int) -> tuple[Any, Float[Array, " experts"]]:
        learner = Hedge.init(len(self.experts))
        # losses of the query at hand, from its proposal to its dispatch
        return learner, jnp.zeros_like(learner.log_weights)

    def learn(self, learner: Any, losses: Float[Array, " experts"]) -> Any:
        """The learner after a round."""
        return learner.update(losses, self.eta)

    def propose(self, state: AdvisedState, tape: Tape, seen: Seen) -> tuple[AdvisedState, Scalar]:
        state, named = self.advice(state, tape, seen)
        estimate = seen.service + seen.work
        worst = estimate.max()
        losses = jnp.where(worst > 0, estimate[named] / jnp.where(worst > 0, worst, 1.0), 0.0)
        stream, k = by_weight(state.stream, state.learner.probabilities())
        return state._replace(notes=losses, stream=stream), named[k]

    def dispatch(self, state: AdvisedState, tape: Tape, seen: Seen, worker: Scalar) -> AdvisedState:
        state = super().dispatch(state, tape, seen, worker)
        return state._replace(learner=self.learn(state.learner, state.notes))
