"""Slow twins of multiplicative weights for routing: over other routers, or over workers.

References
----------
See `kvtheory.testing.twins_learning`, whose updates these are.
"""

import math
from collections.abc import Sequence

from kvtheory.errors import bad
from kvtheory.testing import twins_learning as learning
from kvtheory.testing.twin_router import Draws, RouterTwin
from kvtheory.testing.twin_view import Query, View


class RelativeLatency:
    """ℓ = E/(E + Ē) in [0, 1], Ē a running mean of the latencies E before this one.

    Ē starts at the first E, so that the first ℓ is 1/2, as that of 0 against a mean of 0.
    """

    def __init__(self, rate: float = 0.02) -> None:
        self.rate = rate
        self.mean = math.nan

    def loss(self, latency: float) -> float:
        """ℓ of a latency; the mean moves after it."""
        if math.isnan(self.mean):
            self.mean = latency
        both = latency + self.mean
        loss = latency / both if both > 0 else 0.5
        self.mean += self.rate * (latency - self.mean)
        return loss


class Advised(RouterTwin):
    """Base of routers that take advice: the experts propose, and account for what is done."""

    def __init__(
        self, workers: int, *, experts: Sequence[RouterTwin], draws: Draws | None = None
    ) -> None:
        super().__init__(workers, draws=draws)
        if not experts:
            raise bad("experts", experts, "pass at least one router")
        for expert in experts:
            if expert.workers != workers:
                raise bad("experts", expert.workers, f"must route among {workers} workers too")
        self.experts = list(experts)

    def advice(self, query: Query, view: View, now: float) -> list[int]:
        """The worker that each expert names."""
        return [expert.propose(query, view, now) for expert in self.experts]

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Tell the experts."""
        for expert in self.experts:
            expert.dispatch(query, view, now, worker)

    def first_token(self, query: Query, worker: int, now: float) -> None:
        """Tell the experts."""
        for expert in self.experts:
            expert.first_token(query, worker, now)

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Tell the experts."""
        for expert in self.experts:
            expert.complete(query, worker, now)


class HedgeRouter(Advised):
    """Hedge over routers, on an estimate of the latency at every worker.

    The estimate is the believed service plus the believed seconds of the queries in flight; the
    loss of an expert is that of its worker over the largest of all. An expert is drawn by weight,
    then all weights are updated.

    Parameters
    ----------
    experts
        Other routers, fresh.
    eta
        Rate.
    """

    def __init__(
        self,
        workers: int,
        *,
        experts: Sequence[RouterTwin],
        eta: float = 0.05,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, experts=experts, draws=draws)
        self.weights = learning.Hedge(len(experts), eta=eta)
        self.losses: dict[int, list[float]] = {}

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker that a drawn expert names."""
        advice = self.advice(query, view, now)
        estimate = [s + w for s, w in zip(view.service(query), view.work, strict=True)]
        worst = max(estimate)
        self.losses[query.index] = [estimate[i] / worst if worst > 0 else 0.0 for i in advice]
        return advice[self.draws.pick(self.weights.probabilities())]

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Learn the losses of all experts."""
        self.weights.update(self.losses.pop(query.index))
        super().dispatch(query, view, now, worker)


class FixedShareRouter(HedgeRouter):
    """`HedgeRouter` whose experts share a part ``alpha`` of their weight after each query."""

    def __init__(
        self,
        workers: int,
        *,
        experts: Sequence[RouterTwin],
        eta: float = 0.05,
        alpha: float = 0.01,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, experts=experts, eta=eta, draws=draws)
        self.weights = learning.FixedShare(len(experts), eta=eta, alpha=alpha)


class EXP3Router(Advised):
    """EXP3 over routers: the expert that was drawn pays the relative latency when it is known.

    Parameters
    ----------
    experts
        Other routers, fresh.
    eta, mixing
        Rate, and share of uniform draws.
    """

    def __init__(
        self,
        workers: int,
        *,
        experts: Sequence[RouterTwin],
        eta: float = 0.05,
        mixing: float = 0.02,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, experts=experts, draws=draws)
        self.weights = learning.EXP3(len(experts), gamma=mixing, eta=eta)
        self.relative = RelativeLatency()
        self.played: dict[int, tuple[int, int, float]] = {}

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker that a drawn expert names."""
        advice = self.advice(query, view, now)
        p = self.weights.probabilities()
        k = self.draws.pick(p)
        self.played[query.index] = (advice[k], k, p[k])
        return advice[k]

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Learn the loss of the expert that was drawn, if it was followed."""
        super().complete(query, worker, now)
        loss = self.relative.loss(now - query.arrival)
        named, k, p = self.played.pop(query.index)
        if named == worker:
            self.weights.update(k, loss, p)


class EXP4Router(Advised):
    """EXP4 over routers: all experts that named the worker pay the relative latency.

    Parameters
    ----------
    experts
        Other routers, fresh.
    eta, mixing
        Rate, and share of uniform workers.
    """

    def __init__(
        self,
        workers: int,
        *,
        experts: Sequence[RouterTwin],
        eta: float = 0.05,
        mixing: float = 0.02,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, experts=experts, draws=draws)
        self.weights = learning.EXP4(len(experts), workers, gamma=mixing, eta=eta)
        self.relative = RelativeLatency()
        self.played: dict[int, tuple[int, list[int], float]] = {}

    def propose(self, query: Query, view: View, now: float) -> int:
        """A draw from the experts' workers, by weight, and a little from all."""
        advice = self.advice(query, view, now)
        p = self.weights.probabilities(advice)
        i = self.draws.pick(p)
        self.played[query.index] = (i, advice, p[i])
        return i

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Learn the loss of the worker, if it is the one that was drawn."""
        super().complete(query, worker, now)
        loss = self.relative.loss(now - query.arrival)
        drawn, advice, p = self.played.pop(query.index)
        if drawn == worker:
            self.weights.update(advice, worker, loss, p)


class AffinityMW(RouterTwin):
    """One weight per worker for each subtree of the root; a heuristic without a regret bound.

    Worker i with probability (1 − mixing)·w_i/Σw + mixing/M; on completion, w_i of the query's
    subtree ← w_i·exp(η·(1 − ℓ)), ℓ the relative latency. Queries without units are a subtree too.
    """

    def __init__(
        self,
        workers: int,
        *,
        eta: float = 5.0,
        mixing: float = 0.02,
        rate: float = 0.02,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.eta = eta
        self.mixing = mixing
        self.relative = RelativeLatency(rate)
        self.log_weights: dict[int | None, list[float]] = {}

    def group(self, query: Query) -> int | None:
        """The subtree of a query."""
        return query.tokens[0] if query.length else None

    def propose(self, query: Query, view: View, now: float) -> int:
        """A draw by weight."""
        known = self.log_weights.get(self.group(query), [0.0] * self.workers)
        share = learning.normalised(known)
        return self.draws.pick([(1 - self.mixing) * p + self.mixing / self.workers for p in share])

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Raise the weight of the worker."""
        loss = self.relative.loss(now - query.arrival)
        weights = self.log_weights.setdefault(self.group(query), [0.0] * self.workers)
        weights[worker] += self.eta * (1 - loss)
        top = max(weights)
        self.log_weights[self.group(query)] = [w - top for w in weights]
