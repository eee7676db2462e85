"""EXP3 over routers: the expert that was followed pays the true latency."""

from typing import ClassVar

from jaxtyping import Array

from kvtheory.cache import Scalar, Tape
from kvtheory.learning.exp3 import EXP3
from kvtheory.router import Seen
from kvtheory.routing.advised import AdvisedState
from kvtheory.routing.bandit import BanditRouter, Plays
from kvtheory.routing.ties import by_weight


class EXP3Router(BanditRouter):
    """Follow an expert drawn with p = (1 − γ)·w/Σw + γ/N; on completion w ← w·exp(η·(1 − ℓ)/p).

    ℓ = E/(E + Ē), E the latency of the query from arrival to completion and Ē a running mean of
    those before. Nothing is learned from a query that went elsewhere than proposed.

    Parameters
    ----------
    experts, eta, mixing, rate
        As for `kvtheory.routing.bandit.BanditRouter`.

    Guarantee
    ---------
    None here: EXP3's bound is for losses that are seen at once and do not depend on earlier draws,
    while latencies come late and are those of caches and queues made by earlier draws.

    Cost
    ----
    That of the experts, and O(experts) a query and a completion.

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, SIAM J. Computing 32 (2002).
    """

    name: ClassVar[str] = "exp3"
    guarantee: ClassVar[str] = "heuristic: EXP3's bound needs losses at once and fixed in advance"

    def start(self, requests: int, workers: int) -> tuple[EXP3, Plays]:
        return EXP3.init(len(self.experts)), self.plays(requests)

    def propose(self, state: AdvisedState, tape: Tape, seen: Seen) -> tuple[AdvisedState, Scalar]:
        state, named = self.advice(state, tape, seen)
        p = state.learner.probabilities(self.mixing)
        stream, k = by_weight(state.stream, p)
        state = self.played(state._replace(stream=stream), seen, named[k], p[k], k)
        return state, named[k]

    def learn(self, learner: EXP3, who: Scalar, worker: Scalar, loss: Array, p: Array) -> EXP3:
        return learner.update(who, loss, p, self.eta)
