"""EXP4 over routers: all experts that named the worker pay the true latency."""

from typing import ClassVar

from jaxtyping import Array, Int

from kvtheory.cache import Scalar, Tape
from kvtheory.learning.exp4 import EXP4
from kvtheory.router import Seen
from kvtheory.routing.advised import AdvisedState
from kvtheory.routing.bandit import BanditRouter, Plays
from kvtheory.routing.ties import by_weight


class EXP4Router(BanditRouter):
    """Worker i with p_i = (1 − γ)·(weight of the experts that name i) + γ/M; they learn together.

    On completion w_k ← w_k·exp(η·(1 − ℓ)/p_i) for every expert k that named the worker, with
    ℓ = E/(E + Ē), E the latency of the query from arrival to completion and Ē a running mean of
    those before. Nothing is learned from a query that went elsewhere than proposed.

    Parameters
    ----------
    experts, eta, mixing, rate
        As for `kvtheory.routing.bandit.BanditRouter`.

    Guarantee
    ---------
    None here: EXP4's bound is for losses that are seen at once and do not depend on earlier draws,
    while latencies come late and are those of caches and queues made by earlier draws.

    Cost
    ----
    That of the experts, and O(experts·workers) a query and a completion.

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, SIAM J. Computing 32 (2002), section 7.
    """

    name: ClassVar[str] = "exp4"
    guarantee: ClassVar[str] = "heuristic: EXP4's bound needs losses at once and fixed in advance"

    def start(self, requests: int, workers: int) -> tuple[EXP4, Plays]:
        return EXP4.init(len(self.experts)), self.plays(requests, (len(self.experts),))

    def propose(self, state: AdvisedState, tape: Tape, seen: Seen) -> tuple[AdvisedState, Scalar]:
        state, named = self.advice(state, tape, seen)
        p = state.learner.probabilities(named, seen.workers, self.mixing)
        stream, worker = by_weight(state.stream, p)
        state = self.played(state._replace(stream=stream), seen, worker, p[worker], named)
        return state, worker

    def learn(
        self, learner: EXP4, who: Int[Array, " experts"], worker: Scalar, loss: Array, p: Array
    ) -> EXP4:
        return learner.update(who, worker, loss, p, self.eta)
