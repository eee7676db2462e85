"""Multiplicative weights for affinity: one weight per worker for each subtree of the root."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from kvtheory.cache import Scalar, Tape, read, write
from kvtheory.eviction import random_words
from kvtheory.eviction.random_words import RandomWords
from kvtheory.learning import checks
from kvtheory.learning.exp3 import EXP3
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing.relative_latency import RelativeLatency
from kvtheory.routing.ties import by_weight


class AffinityState(NamedTuple):
    """Logarithms of the weights by root edge, the running mean, and the random stream."""

    log_weights: Float[Array, "edges workers"]
    relative: RelativeLatency
    stream: RandomWords


class AffinityMW(RoutingPolicy):
    """Worker i with probability (1 − γ)·w_i/Σw + γ/M, w the weights of the query's subtree.

    A subtree is given by the first unit of the query; queries without units are one more. On
    completion w_i ← w_i·exp(η·(1 − ℓ)) for the worker that served, with ℓ = E/(E + Ē), E the
    latency of the query from arrival to completion and Ē a running mean. So a worker that was
    tried and answered fast is tried more, and a subtree settles where its units are cached.

    Parameters
    ----------
    eta
        η.
    mixing
        γ, the share of uniform workers.
    rate
        By which Ē moves towards each latency.

    Guarantee
    ---------
    None. Without the division by the probability, as in EXP3, there is no regret bound; with it a
    subtree has too few queries to learn from.

    Cost
    ----
    O(workers) a query and a completion; memory O(edges·workers).
    """

    eta: float = 5.0
    mixing: float = 0.02
    rate: float = 0.02

    name: ClassVar[str] = "affinity_mw"
    source: ClassVar[str] = "this project"
    watches_prefill: ClassVar[bool] = False
    randomised: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.share("mixing", self.mixing)
        checks.share("rate", self.rate)

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> AffinityState:
        return AffinityState(
            log_weights=jnp.zeros((tape.edges, workers), float),
            relative=RelativeLatency.init(),
            stream=random_words.init(key),
        )

    def propose(self, state: AffinityState, tape: Tape, seen: Seen) -> tuple[AffinityState, Scalar]:
        own, log_weights = read(state.log_weights, subtree(tape, seen.first, seen.stop))
        stream, worker = by_weight(state.stream, EXP3(own).probabilities(self.mixing))
        return state._replace(log_weights=log_weights, stream=stream), worker

    def complete(self, state: AffinityState, tape: Tape, event: Event) -> AffinityState:
        relative, loss = state.relative.loss(event.time - event.arrival, self.rate)
        group = subtree(tape, tape.start[event.t], tape.start[event.t + 1])
        own, log_weights = read(state.log_weights, group)
        learned = EXP3(own).update(event.worker, loss, 1.0, self.eta)
        return state._replace(
            log_weights=write(log_weights, group, learned.log_weights), relative=relative
        )


def subtree(tape: Tape, first: Scalar, stop: Scalar) -> Scalar:
    """The edge at the root on a path, which no other subtree shares; "no edge" for no units."""
    return jnp.where(stop > first, tape.edge[stop - 1], tape.null)
