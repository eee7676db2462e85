"""Online learning, literally: weights that are multiplied, leaders that are followed.

Losses are in [0, 1]. Weights are kept as logarithms only because they would underflow; nothing
else is done to them. Each bound is a function of the same symbols as its theorem.

References
----------
Freund and Schapire, "A decision-theoretic generalization of on-line learning", JCSS 1997.
Herbster and Warmuth, "Tracking the best expert", Machine Learning 1998.
Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic multiarmed bandit problem", SIAM J.
Computing 2002.
Zinkevich, "Online convex programming and generalized infinitesimal gradient ascent", ICML 2003.
Kalai and Vempala, "Efficient algorithms for online decision problems", JCSS 2005.
Cesa-Bianchi and Lugosi, "Prediction, Learning, and Games", Cambridge 2006.
"""

import math
from collections.abc import Sequence

import numpy as np

from kvtheory.errors import bad


def normalised(log_weights: Sequence[float]) -> list[float]:
    """Probabilities in proportion to the weights."""
    top = max(log_weights)
    weights = [math.exp(w - top) for w in log_weights]
    total = sum(weights)
    return [w / total for w in weights]


class Hedge:
    """w_i ← w_i·exp(−η·loss_i); play i with probability w_i/Σw.

    Examples
    --------
    >>> hedge = Hedge(2, eta=math.log(2))
    >>> hedge.update([0.0, 1.0])
    >>> [round(p, 6) for p in hedge.probabilities()]
    [0.666667, 0.333333]
    """

    def __init__(self, n: int, *, eta: float) -> None:
        if n < 1:
            raise bad("n", n, "must be at least 1")
        self.eta = eta
        self.log_weights = [0.0] * n

    def probabilities(self) -> list[float]:
        """Probability of each expert."""
        return normalised(self.log_weights)

    def update(self, losses: Sequence[float]) -> None:
        """Learn the losses of all experts."""
        raised = [w - self.eta * x for w, x in zip(self.log_weights, losses, strict=True)]
        top = max(raised)
        self.log_weights = [w - top for w in raised]


class FixedShare(Hedge):
    """Hedge, after which every expert gives a share α of its weight to all, itself included.

    w_i ← (1 − α)·v_i + α·Σv/n with v_i = w_i·exp(−η·loss_i).
    """

    def __init__(self, n: int, *, eta: float, alpha: float) -> None:
        super().__init__(n, eta=eta)
        if not 0 <= alpha <= 1:
            raise bad("alpha", alpha, "must be a share from 0 to 1")
        self.alpha = alpha

    def update(self, losses: Sequence[float]) -> None:
        """Learn the losses, and share."""
        super().update(losses)
        n = len(self.log_weights)
        mixed = [(1 - self.alpha) * p + self.alpha / n for p in self.probabilities()]
        self.log_weights = [math.log(p) if p > 0 else -math.inf for p in mixed]


class EXP3:
    """Exponential weights for bandits: only the loss of the arm that was played is seen.

    p_i = (1 − γ)·w_i/Σw + γ/n; after arm i, w_i ← w_i·exp(η·(1 − loss)/p_i).

    Parameters
    ----------
    n
        Arms.
    gamma
        Share of uniform play.
    eta
        Rate; by default γ/n, as in the theorem.
    """

    def __init__(self, n: int, *, gamma: float, eta: float | None = None) -> None:
        if n < 1:
            raise bad("n", n, "must be at least 1")
        if not 0 < gamma <= 1:
            raise bad("gamma", gamma, "must be above 0 and at most 1")
        self.gamma = gamma
        self.eta = gamma / n if eta is None else eta
        self.log_weights = [0.0] * n

    def probabilities(self) -> list[float]:
        """Probability of each arm."""
        n = len(self.log_weights)
        return [(1 - self.gamma) * p + self.gamma / n for p in normalised(self.log_weights)]

    def update(self, arm: int, loss: float, probability: float | None = None) -> None:
        """Learn the loss of the arm that was played, with its ``probability`` then."""
        p = self.probabilities()[arm] if probability is None else probability
        self.log_weights[arm] += self.eta * (1 - loss) / p
        top = max(self.log_weights)
        self.log_weights = [w - top for w in self.log_weights]


class EXP4:
    """EXP3 with advice: experts name actions, and all that named the one played share its loss.

    p_a = (1 − γ)·Σ_{k names a} w_k/Σw + γ/actions; after action a,
    w_k ← w_k·exp(η·(1 − loss)/p_a) for every k that named a.

    Parameters
    ----------
    n, actions
        Experts, and actions they choose from.
    gamma, eta
        As for `EXP3`; η is γ/actions by default.
    """

    def __init__(self, n: int, actions: int, *, gamma: float, eta: float | None = None) -> None:
        if n < 1 or actions < 1:
            raise bad("n, actions", (n, actions), "must be at least 1 each")
        if not 0 < gamma <= 1:
            raise bad("gamma", gamma, "must be above 0 and at most 1")
        self.actions = actions
        self.gamma = gamma
        self.eta = gamma / actions if eta is None else eta
        self.log_weights = [0.0] * n

    def probabilities(self, advice: Sequence[int]) -> list[float]:
        """Probability of each action, ``advice[k]`` being what expert k names."""
        q = normalised(self.log_weights)
        named = [
            sum(p for p, a in zip(q, advice, strict=True) if a == b) for b in range(self.actions)
        ]
        return [(1 - self.gamma) * p + self.gamma / self.actions for p in named]

    def update(
        self, advice: Sequence[int], action: int, loss: float, probability: float | None = None
    ) -> None:
        """Learn the loss of the action that was played, with its ``probability`` then."""
        p = self.probabilities(advice)[action] if probability is None else probability
        gain = self.eta * (1 - loss) / p
        raised = [
            w + (gain if a == action else 0.0)
            for w, a in zip(self.log_weights, advice, strict=True)
        ]
        top = max(raised)
        self.log_weights = [w - top for w in raised]


class OGD:
    """Online gradient descent: x ← Π(x − η·g), Π onto the ball of ``radius`` around 0."""

    def __init__(self, n: int, *, eta: float, radius: float = math.inf) -> None:
        self.eta = eta
        self.radius = radius
        self.x = [0.0] * n

    def update(self, gradient: Sequence[float]) -> None:
        """Step against a gradient."""
        moved = [x - self.eta * g for x, g in zip(self.x, gradient, strict=True)]
        norm = math.sqrt(sum(x * x for x in moved))
        shrink = self.radius / norm if norm > self.radius else 1.0
        self.x = [x * shrink for x in moved]


class RLS:
    """Ridge regression that forgets: R ← λR + φφᵀ + (1 − λ)δI, b ← λb + φy, θ = R⁻¹b, R_0 = δI.

    R never falls below δI, so θ stays finite whatever the features are.
    """

    def __init__(self, n: int, *, forget: float = 0.992, delta: float = 0.01) -> None:
        if not 0 < forget <= 1:
            raise bad("forget", forget, "must be above 0 and at most 1")
        if delta <= 0:
            raise bad("delta", delta, "must be positive")
        self.forget = forget
        self.delta = delta
        self.R = delta * np.eye(n)
        self.b = np.zeros(n)
        self.theta: list[float] = [0.0] * n

    def predict(self, features: Sequence[float]) -> float:
        """θ·φ."""
        return sum(t * f for t, f in zip(self.theta, features, strict=True))

    def update(self, features: Sequence[float], y: float) -> None:
        """Learn that ``features`` gave ``y``."""
        phi = np.asarray(features, np.float64)
        keep = (1 - self.forget) * self.delta * np.eye(len(phi))
        self.R = self.forget * self.R + np.outer(phi, phi) + keep
        self.b = self.forget * self.b + phi * y
        self.theta = [float(t) for t in np.linalg.solve(self.R, self.b)]


class PerturbedLeader:
    """Follow the perturbed leader: argmin_i of the losses so far plus noise_i, new every round.

    The theorem wants noise uniform in [0, 1/ε] for each expert.
    """

    def __init__(self, n: int) -> None:
        self.losses = [0.0] * n

    def leader(self, noise: Sequence[float]) -> int:
        """The expert to play; ties to the index."""
        total = [x + z for x, z in zip(self.losses, noise, strict=True)]
        return total.index(min(total))

    def update(self, losses: Sequence[float]) -> None:
        """Learn the losses of all experts."""
        self.losses = [a + b for a, b in zip(self.losses, losses, strict=True)]


def regret(losses: Sequence[Sequence[float]], plays: Sequence[int]) -> float:
    """Σ_t losses[t][plays[t]] − min_i Σ_t losses[t][i].

    Examples
    --------
    >>> regret([[0, 1], [1, 0], [0, 1]], [1, 0, 1])
    2
    """
    paid = sum(row[i] for row, i in zip(losses, plays, strict=True))
    return paid - min((sum(column) for column in zip(*losses, strict=True)), default=0)


def tracking_regret(
    losses: Sequence[Sequence[float]], plays: Sequence[int], switches: int
) -> float:
    """As `regret`, against the best sequence of experts that changes at most ``switches`` times.

    Examples
    --------
    >>> tracking_regret([[0, 1], [0, 1], [1, 0]], [1, 1, 1], 1)
    2
    """
    paid = sum(row[i] for row, i in zip(losses, plays, strict=True))
    if not losses:
        return paid
    n = len(losses[0])
    # best[s][i]: least loss so far with at most s changes and expert i last
    best: list[list[float]] = [[0] * n for _ in range(switches + 1)]
    for row in losses:
        before = best
        best = []
        for s in range(switches + 1):
            changed = min(before[s - 1]) if s else math.inf
            best.append([min(before[s][i], changed) + row[i] for i in range(n)])
    return paid - min(best[switches])


def hedge_bound(n: int, T: int) -> float:
    """√(T ln n / 2), with `hedge_rate` (Cesa-Bianchi and Lugosi, theorem 2.2)."""
    return math.sqrt(T * math.log(n) / 2)


def hedge_rate(n: int, T: int) -> float:
    """η = √(8 ln n / T)."""
    return math.sqrt(8 * math.log(n) / T)


def fixed_share_bound(n: int, T: int, switches: int, eta: float, alpha: float) -> float:
    """Tracking regret of fixed share (Cesa-Bianchi and Lugosi, theorem 5.2).

    ((s + 1)·ln n + ln 1/(α^s (1 − α)^(T − s − 1)))/η + η·T/8 with s switches.
    """
    mixing = switches * math.log(1 / alpha) + (T - switches - 1) * math.log(1 / (1 - alpha))
    return ((switches + 1) * math.log(n) + mixing) / eta + eta * T / 8


def exp3_bound(n: int, T: int) -> float:
    """2√((e − 1)·T·n·ln n), expected, with `exp3_rate` (Auer et al., corollary 3.2)."""
    return 2 * math.sqrt((math.e - 1) * T * n * math.log(n))


def exp3_rate(n: int, T: int) -> float:
    """γ = min(1, √(n ln n / ((e − 1)·T)))."""
    return min(1.0, math.sqrt(n * math.log(n) / ((math.e - 1) * T)))


def exp4_bound(n: int, actions: int, T: int) -> float:
    """2√((e − 1)·T·actions·ln n), expected, one of the experts being uniform (Auer et al., 7.1)."""
    return 2 * math.sqrt((math.e - 1) * T * actions * math.log(n))


def ogd_bound(diameter: float, gradient: float, T: int) -> float:
    """(D²/(2η)) + η·T·G²/2 at its best η = D/(G√T): D·G·√T (Zinkevich)."""
    return diameter * gradient * math.sqrt(T)


def perturbed_leader_bound(n: int, T: int) -> float:
    """2√(2·T·n) at ε = √(2/(T·n)), expected.

    Kalai and Vempala's 2√(D·R·A·T) with D = 2 for the simplex, R = 1 and A = n.
    """
    return 2 * math.sqrt(2 * T * n)
