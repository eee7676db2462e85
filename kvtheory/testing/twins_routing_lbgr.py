"""Slow twins of LBGR, learning-based greedy routing: as the text has it, and as published.

References
----------
Wu, Silwal and Zhang, "Randomization Boosts KV Caching, Learning Balances Query Load", ICLR 2026,
arXiv:2601.18999.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_router import Draws, RouterTwin
from kvtheory.testing.twin_view import Query, View
from kvtheory.testing.twins_learning import OGD, RLS

Target = Literal["service", "latency"]
Learner = Literal["ridge", "gradient", "none"]


@dataclass
class Sent:
    """What LBGR keeps of a query until it is finished."""

    features: list[float]
    cost: float  # Cost̃
    counted: float  # Ĉ, what the load was raised by
    load: float  # P̃ before it was
    tick: int


class LBGR(RouterTwin):
    """Least estimated service plus decayed load, the service corrected by what was learned.

    Ê_i = Ĉ_i + P̃_i with Ĉ_i = max(0, Cost̃_i + θ_i·φ_i); the smallest is taken, ties (within 1e-9
    relative) to the smallest total Ĉ so far, then the index. All in seconds.

    P̃_i rises by Ĉ when a query is sent, falls to ρ·P̃_i at every tick kΔt, and on completion by
    what is left of Ĉ. On completion θ_i learns φ → y.

    Parameters
    ----------
    target
        ``"service"``: φ = (1, α_miss·hits, α_miss·misses), y = (end − max(a, previous completion
        on i)) − Cost̃. ``"latency"``, the paper's: φ has P̃_i at routing too, y = (end − a) −
        (Cost̃ + P̃_i).
    forget, delta
        λ and δ of the ridge.
    decay, tick
        ρ and Δt.
    learner
        ``"ridge"``; ``"gradient"``: one step of size ``eta`` on half the squared error;
        ``"none"``: θ stays 0.
    """

    def __init__(
        self,
        workers: int,
        *,
        target: Target = "service",
        forget: float = 0.992,
        delta: float = 0.01,
        decay: float = 31 / 32,
        tick: float = 0.020,
        learner: Learner = "ridge",
        eta: float = 0.003,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        if target not in ("service", "latency"):
            raise unknown("target", target, ("service", "latency"))
        if learner not in ("ridge", "gradient", "none"):
            raise unknown("learner", learner, ("ridge", "gradient", "none"))
        if tick <= 0:
            raise bad("tick", tick, "must be positive")
        self.target = target
        self.decay = decay
        self.tick = tick
        self.learner = learner
        features = 3 if target == "service" else 4
        self.ridge = [RLS(features, forget=forget, delta=delta) for _ in range(workers)]
        self.gradient = [OGD(features, eta=eta) for _ in range(workers)]
        self.load = [0.0] * workers
        self.at = 0
        self.total = [0.0] * workers
        self.finished = [-math.inf] * workers
        self.sent: dict[int, Sent] = {}

    def theta(self, i: int) -> list[float]:
        """θ of worker ``i``."""
        if self.learner == "none":
            return [0.0] * len(self.ridge[i].theta)
        return self.ridge[i].theta if self.learner == "ridge" else self.gradient[i].x

    def elapse(self, now: float) -> None:
        """Let the ticks up to ``now`` pass."""
        tick = math.floor(now / self.tick)
        fade = self.decay ** (tick - self.at)
        self.load = [p * fade for p in self.load]
        self.at = tick

    def features(self, query: Query, view: View, i: int) -> list[float]:
        """φ_i of a query."""
        miss = view.costs.alpha_miss[i]
        phi = [1.0, miss * view.hits[i], miss * (query.length - view.hits[i])]
        return phi if self.target == "service" else [*phi, self.load[i]]

    def corrected(self, query: Query, view: View) -> list[float]:
        """Ĉ of each worker."""
        cost = view.service(query)
        return [
            max(0.0, cost[i] + dot(self.theta(i), self.features(query, view, i)))
            for i in range(self.workers)
        ]

    def estimates(self, query: Query, view: View, now: float) -> list[float]:
        """Ê of each worker."""
        self.elapse(now)
        return [c + p for c, p in zip(self.corrected(query, view), self.load, strict=True)]

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker with the smallest estimate."""
        estimate = self.estimates(query, view, now)
        smallest = min(estimate)
        near = [i for i, e in enumerate(estimate) if e <= smallest * (1 + 1e-9)]
        return min(near, key=lambda i: (self.total[i], i))

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Raise the load."""
        self.elapse(now)
        counted = self.corrected(query, view)[worker]
        self.sent[query.index] = Sent(
            features=self.features(query, view, worker),
            cost=view.service(query)[worker],
            counted=counted,
            load=self.load[worker],
            tick=self.at,
        )
        self.load[worker] += counted
        self.total[worker] += counted

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Lower the load by what is left, and learn."""
        self.elapse(now)
        sent = self.sent.pop(query.index)
        left = sent.counted * self.decay ** (self.at - sent.tick)
        self.load[worker] = max(0.0, self.load[worker] - left)
        began = max(query.arrival, self.finished[worker])
        self.finished[worker] = now
        if self.target == "service":
            y = (now - began) - sent.cost
        else:
            y = (now - query.arrival) - (sent.cost + sent.load)
        if self.learner == "ridge":
            self.ridge[worker].update(sent.features, y)
        elif self.learner == "gradient":
            error = dot(self.gradient[worker].x, sent.features) - y
            self.gradient[worker].update([error * f for f in sent.features])


def dot(a: list[float], b: list[float]) -> float:
    """Σ a·b."""
    return sum(x * y for x, y in zip(a, b, strict=True))


class PublishedLBGR(RouterTwin):
    """LBGR by the published router, in milliseconds.

    base_i = max(1, ``ms_per_token``·uncached tokens), pred_i = max(1, base_i + load_i + θ_i); in
    order of index, a worker replaces the best so far only if better by more than 1 ms. On routing
    load += round(base). Every 20 ms load ← ⌊31·load/32⌋. On completion load falls by what the same
    decay has left of the query's own rounded base, and θ_i, one bias per worker, moves to the
    target max(1, E − base − load at routing) by recursive least squares (λ = 0.992, P = 1e6).

    Parameters
    ----------
    ms_per_token
        Of the base.
    forget, covariance
        λ and P at first.
    masked
        Also carry the three features that the published code masks out. Their covariances grow by
        1/λ at every update; after 86,649 of them 0·∞ makes θ NaN, and a NaN prediction, clipped to
        1 ms, attracts every query.
    """

    TICK = 0.020

    def __init__(
        self,
        workers: int,
        *,
        ms_per_token: float = 4.0,
        forget: float = 0.992,
        covariance: float = 1e6,
        masked: bool = False,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        self.ms_per_token = ms_per_token
        self.forget = forget
        size = 4 if masked else 1
        self.phi = np.eye(size)[0]
        self.weights = [np.zeros(size) for _ in range(workers)]
        self.P = [covariance * np.eye(size) for _ in range(workers)]
        self.load = [0] * workers
        self.at = 0
        self.sent: dict[int, tuple[float, int, int]] = {}

    def elapse(self, now: float) -> None:
        """Let the ticks up to ``now`` pass."""
        tick = math.floor(now / self.TICK)
        self.load = [faded(x, tick - self.at) for x in self.load]
        self.at = tick

    def base(self, query: Query, view: View, i: int) -> float:
        """Estimated service on an idle worker."""
        return max(1.0, self.ms_per_token * query.block_size * (query.length - view.hits[i]))

    def propose(self, query: Query, view: View, now: float) -> int:
        """The first worker that no later one beats by more than 1 ms."""
        self.elapse(now)
        best, best_value = 0, math.inf
        for i in range(self.workers):
            value = self.base(query, view, i) + self.load[i] + float(self.weights[i][0])
            value = 1.0 if math.isnan(value) else max(1.0, value)
            if value < best_value - 1.0:
                best, best_value = i, value
        return best

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Raise the load."""
        self.elapse(now)
        base = self.base(query, view, worker)
        self.sent[query.index] = (base, self.load[worker], self.at)
        self.load[worker] += round(base)

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Lower the load, and learn the bias."""
        self.elapse(now)
        base, load, tick = self.sent.pop(query.index)
        self.load[worker] = max(0, self.load[worker] - faded(round(base), self.at - tick))
        target = max(1.0, 1000 * (now - query.arrival) - base - load)
        self.learn(worker, target)

    def learn(self, worker: int, target: float) -> None:
        """One step of recursive least squares, with a covariance that nothing bounds."""
        with np.errstate(over="ignore", invalid="ignore"):
            spread = self.P[worker] @ self.phi
            gain = spread / (self.forget + self.phi @ spread)
            error = target - self.phi @ self.weights[worker]
            self.weights[worker] = self.weights[worker] + gain * error
            self.P[worker] = (self.P[worker] - np.outer(gain, spread)) / self.forget


def faded(load: int, ticks: int) -> int:
    """``load`` after so many steps of ⌊31·load/32⌋.

    Examples
    --------
    >>> faded(64, 1), faded(64, 2), faded(5, 100)
    (62, 60, 0)
    """
    while ticks > 0 and load > 0:
        load = 31 * load // 32
        ticks -= 1
    return load
