"""Upper bounds on the regret, and the rates at which they hold.

n experts or arms, T rounds, losses in [0, 1], natural logarithms. "Every sequence" includes
adversaries that see the player's probabilities before they choose the losses of a round.
"""

import math

from kvtheory.learning.checks import positive, share, size


def hedge_bound(n: int, T: int) -> float:
    """√(T·ln n/2) at η = `hedge_rate`, for Hedge's Σ p·loss on every sequence.

    Cesa-Bianchi and Lugosi 2006, theorem 2.2.

    Examples
    --------
    >>> round(hedge_bound(4, 1000), 2)
    26.33
    """
    size("n", n)
    return math.sqrt(T * math.log(n) / 2)


def hedge_rate(n: int, T: int) -> float:
    """η = √(8·ln n/T)."""
    size("n", n)
    size("T", T)
    return math.sqrt(8 * math.log(n) / T)


def fixed_share_bound(n: int, T: int, switches: int, eta: float, alpha: float) -> float:
    """Tracking regret of fixed share against s switches, for its Σ p·loss on every sequence.

    ((s + 1)·ln n + ln 1/(α^s·(1 − α)^(T − s − 1)))/η + η·T/8: Cesa-Bianchi and Lugosi 2006, theorem
    5.2. At `fixed_share_rates` it is √(T/2·((s + 1)·ln n + (T − 1)·H(s/(T − 1)))), H the binary
    entropy (corollary 5.1).

    Examples
    --------
    >>> eta, alpha = fixed_share_rates(3, 300, switches=2)
    >>> round(fixed_share_bound(3, 300, 2, eta, alpha), 2)
    47.91
    """
    size("n", n)
    positive("eta", eta)
    share("alpha", alpha)
    mixing = _times_log(switches, alpha) + _times_log(T - switches - 1, 1 - alpha)
    return ((switches + 1) * math.log(n) - mixing) / eta + eta * T / 8


def fixed_share_rates(n: int, T: int, switches: int) -> tuple[float, float]:
    """η and α that are best for `fixed_share_bound`: α = s/(T − 1)."""
    size("n", n)
    size("T", T)
    alpha = switches / (T - 1) if T > 1 else 0.0
    share("alpha", alpha)
    mixing = _times_log(switches, alpha) + _times_log(T - switches - 1, 1 - alpha)
    return math.sqrt(8 * ((switches + 1) * math.log(n) - mixing) / T), alpha


def exp3_bound(n: int, T: int) -> float:
    """2√((e − 1)·T·n·ln n) at γ = `exp3_rate` and η = γ/n, for EXP3's expected regret.

    Losses fixed in advance (an oblivious adversary); against one that answers to earlier plays, for
    the pseudo-regret max_i E[Σ loss − Σ loss_i]. Auer et al. 2002, corollary 3.2.
    """
    size("n", n)
    return 2 * math.sqrt((math.e - 1) * T * n * math.log(n))


def exp3_rate(n: int, T: int) -> float:
    """γ = min(1, √(n·ln n/((e − 1)·T)))."""
    size("n", n)
    size("T", T)
    return min(1.0, math.sqrt(n * math.log(n) / ((math.e - 1) * T)))


def exp4_bound(n: int, actions: int, T: int) -> float:
    """2√((e − 1)·T·K·ln n) for K actions at γ = `exp4_rate`, η = γ/K, for EXP4's expected regret.

    Losses and advice fixed in advance; else for the pseudo-regret, as in `exp3_bound`. Auer et al.
    2002, theorem 7.1, where one of the experts has to be uniform because the bound is in terms of
    the best gain; in terms of T, as here, none has to.
    """
    size("n", n)
    size("actions", actions)
    return 2 * math.sqrt((math.e - 1) * T * actions * math.log(n))


def exp4_rate(n: int, actions: int, T: int) -> float:
    """γ = min(1, √(K·ln n/((e − 1)·T))) for K actions."""
    size("n", n)
    size("actions", actions)
    size("T", T)
    return min(1.0, math.sqrt(actions * math.log(n) / ((math.e - 1) * T)))


def ogd_bound(diameter: float, gradient: float, T: int) -> float:
    """D·G·√T at η = `ogd_rate`, for online gradient descent on every sequence of convex losses.

    D is the diameter of the set, G the length of the longest gradient. It is D²/(2η) + η·T·G²/2 at
    its best η: Zinkevich 2003, theorem 1, with a fixed η.
    """
    return diameter * gradient * math.sqrt(T)


def ogd_rate(diameter: float, gradient: float, T: int) -> float:
    """η = D/(G·√T)."""
    positive("gradient", gradient)
    size("T", T)
    return diameter / (gradient * math.sqrt(T))


def perturbed_leader_bound(n: int, T: int) -> float:
    """2√(2·T·n) at ε = `perturbed_leader_rate`, for the expected regret of the perturbed leader.

    Kalai and Vempala 2005, theorem 1.1: 2√(D·R·A·T) with D = 2 for the simplex, R = 1 and A = n.
    Losses fixed in advance, or, as the noise is new every round, chosen after earlier plays.
    """
    size("n", n)
    return 2 * math.sqrt(2 * T * n)


def perturbed_leader_rate(n: int, T: int) -> float:
    """ε = √(2/(T·n))."""
    size("n", n)
    size("T", T)
    return math.sqrt(2 / (T * n))


def _times_log(count: int, p: float) -> float:
    # count·ln p, where no count needs no chance
    if count == 0:
        return 0.0
    return count * math.log(p) if p > 0 else -math.inf
