"""Claim 9: regret bounds of the learners."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from kvtheory.learning import (
    EXP3,
    RLS,
    FixedShare,
    Hedge,
    exp3_bound,
    exp3_rate,
    fixed_share_bound,
    fixed_share_rates,
    hedge_bound,
    hedge_rate,
)
from proofs_check.claim import Claim, Mutant, Refuted, Task
from proofs_check.judge.games import minimax_regret
from proofs_check.judge.statistics import hoeffding

DELTA = 1e-6
TOLERANCE = 1e-9
SIZES = (((2, 1), (2, 6), (3, 3)), ((2, 1), (2, 3), (2, 7), (3, 2), (3, 4)))


class Lover(Hedge):
    """Hedge turned round: what loses gains weight."""

    def update(self, losses: Any, eta: Any) -> Any:
        """Learn the wrong way."""
        return super().update(losses, -eta)


class Miser(FixedShare):
    """Fixed share that shares nothing."""

    def update(self, losses: Any, eta: Any, alpha: Any) -> Any:
        """Learn, and keep all."""
        return super().update(losses, eta, 1e-12)


class Lossy(EXP3):
    """EXP3 turned round: an arm that loses gains weight."""

    def update(self, arm: Any, loss: Any, probability: Any, eta: Any) -> Any:
        """Learn the wrong way."""
        return super().update(arm, 1 - loss, probability, eta)


class Forgetful(RLS):
    """Least squares without the features' own products."""

    def update(self, phi: Any, y: Any, forget: Any, delta: Any) -> Any:
        """Learn with a matrix that stays as it was."""
        return super().update(phi, y, forget, delta)._replace(matrix=self.matrix)


@dataclass(frozen=True)
class Subject:
    """The learners, and the bound of Hedge."""

    hedge: type[Hedge] = Hedge
    share: type[FixedShare] = FixedShare
    exp3: type[EXP3] = EXP3
    rls: type[RLS] = RLS
    bound: Callable[[int, int], float] = hedge_bound


def check(subject: Subject, task: Task) -> str:
    """Every sequence of 0-1 losses of small games; EXP3 by means; RLS by an identity."""
    import jax

    with jax.enable_x64(True):
        values = []
        for experts, rounds in SIZES[task.full]:
            task.tell(f"{experts} experts, {rounds} rounds")
            values.append(_small_game(subject, experts, rounds))
        task.tell("fixed share")
        sequences = _fixed_share(subject, task)
        task.tell("EXP3")
        plays = _exp3(subject, task)
        task.tell("least squares")
        _least_squares(subject)
    return (
        f"minimax regret {', '.join(values)} (experts × rounds); Hedge and fixed share on every "
        f"0-1 sequence and {sequences} long ones; EXP3: {plays} plays, δ = {DELTA:g}; RLS: the "
        "identity of online ridge regression"
    )


def _all_losses(experts: int, rounds: int) -> np.ndarray:
    """float64[sequences, rounds, experts]."""
    rows = list(product((0.0, 1.0), repeat=experts))
    return np.array(list(product(rows, repeat=rounds)))


def _regrets(learner: Any, losses: np.ndarray, **rates: float) -> np.ndarray:
    """float64[sequences, rounds, experts]; what is played."""
    import jax.numpy as jnp

    return np.asarray(_played(learner)(jnp.asarray(losses), rates))


@cache
def _played(learner: Any) -> Any:
    import jax

    def one(rows: Any, rates: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            return state.update(row, **rates), state.probabilities()

        return jax.lax.scan(step, learner.init(rows.shape[1]), rows)[1]

    return jax.jit(jax.vmap(one, (0, None)))


def _small_game(subject: Subject, experts: int, rounds: int) -> str:
    value = minimax_regret(experts, rounds)
    if experts == 2:  # Cover 1965: half the expected distance of a random walk
        walk = sum(math.comb(rounds, k) * abs(2 * k - rounds) for k in range(rounds + 1))
        if value != Fraction(walk, 2 ** (rounds + 1)):
            raise Refuted(f"the minimax regret of {rounds} rounds is not {value}")
    losses = _all_losses(experts, rounds)
    played = _regrets(subject.hedge, losses, eta=hedge_rate(experts, rounds))
    regret = (losses * played).sum(axis=(1, 2)) - losses.sum(axis=1).min(axis=1)
    bound, worst = subject.bound(experts, rounds), regret.max()
    if not value - TOLERANCE <= worst <= bound + TOLERANCE:
        raise Refuted(
            f"Hedge, {experts} experts, {rounds} rounds: worst regret {worst:.6f}, minimax "
            f"{value}, bound {bound:.6f}; losses {losses[regret.argmax()].tolist()}"
        )
    for switches in range(min(2, rounds)):
        _check_tracking(subject, losses, switches)
    return f"{experts}×{rounds} {value}"


def _check_tracking(subject: Subject, losses: np.ndarray, switches: int) -> None:
    _, rounds, experts = losses.shape
    eta, alpha = fixed_share_rates(experts, rounds, switches)
    played = _regrets(subject.share, losses, eta=eta, alpha=alpha)
    # the best sequence of experts that changes so often, among all of them
    best = np.full(len(losses), np.inf)
    for path in _paths(experts, rounds, switches):
        best = np.minimum(best, losses[:, np.arange(rounds), path].sum(axis=1))
    regret = ((losses * played).sum(axis=(1, 2)) - best).max()
    bound = fixed_share_bound(experts, rounds, switches, eta, alpha)
    if regret > bound + TOLERANCE:
        raise Refuted(
            f"fixed share, {experts} experts, {rounds} rounds, {switches} switches: regret "
            f"{regret:.4f} exceeds {bound:.4f}"
        )


def _paths(experts: int, rounds: int, switches: int) -> list[list[int]]:
    paths = [[i] * rounds for i in range(experts)]
    if switches:
        for at, i, j in product(range(1, rounds), range(experts), range(experts)):
            paths.append([i] * at + [j] * (rounds - at))
    return paths


def _fixed_share(subject: Subject, task: Task) -> int:
    rng = np.random.default_rng(task.seed)
    blocks = np.zeros((40, 40, 2))
    for i in range(40):  # the first expert is right up to a change, then the other
        blocks[i, : i + 1, 1] = blocks[i, i + 1 :, 0] = 1.0
    some = rng.integers(0, 2, (40, 40, 2)).astype(float)
    for losses in (blocks, some):
        _check_tracking(subject, losses, 1)
    return 80


def _exp3(subject: Subject, task: Task) -> int:
    """Mean regret on one sequence fixed in advance: the second arm is better by a fifth."""
    import jax
    import jax.numpy as jnp

    arms, rounds, runs = 2, 500, task.pick(400, 4000)
    rng = np.random.default_rng(11)
    losses = (rng.random((rounds, arms)) < np.array([0.9, 0.1])).astype(float)
    gamma = exp3_rate(arms, rounds)

    keys = jax.random.split(jax.random.key(task.seed), runs)
    lost = _bandits(subject.exp3)(keys, jnp.asarray(losses), gamma)
    mean = float(lost.mean()) - losses.sum(axis=0).min()
    most = exp3_bound(arms, rounds) + hoeffding(runs, rounds, DELTA)
    if mean > most:
        raise Refuted(f"EXP3: mean regret {mean:.1f} over {runs} runs exceeds {most:.1f}")
    return runs * rounds


@cache
def _bandits(learner: type[EXP3]) -> Any:
    import jax

    def one(key: Any, losses: Any, gamma: Any) -> Any:
        rounds, arms = losses.shape

        def step(state: Any, given: Any) -> Any:
            row, key = given
            p = state.probabilities(gamma)
            arm = jax.random.choice(key, arms, p=p)
            return state.update(arm, row[arm], p[arm], gamma / arms), row[arm]

        keys = jax.random.split(key, rounds)
        return jax.lax.scan(step, learner.init(arms), (losses, keys))[1].sum()

    return jax.jit(jax.vmap(one, (0, None, None)))


def _least_squares(subject: Subject) -> None:
    """Σ e²/(1 + φᵀR⁻¹φ) = min over θ of Σ (θφ − y)² + δ|θ|², and θ the minimiser, in rationals."""
    delta, rng = Fraction(1, 4), np.random.default_rng(5)
    rows = [
        ([Fraction(int(v)) for v in rng.integers(-3, 4, 2)], Fraction(int(rng.integers(-5, 6))))
        for _ in range(12)
    ]
    import jax
    import jax.numpy as jnp

    learner = subject.rls.init(2, delta=float(delta))
    update = jax.jit(lambda s, phi, y: s.update(phi, y, forget=1.0, delta=float(delta)))
    R, b, paid = [[delta, Fraction(0)], [Fraction(0), delta]], [Fraction(0)] * 2, Fraction(0)
    square, theta = Fraction(0), [Fraction(0)] * 2
    for phi, y in rows:
        error = theta[0] * phi[0] + theta[1] * phi[1] - y
        along = _solve(R, phi)
        paid += error**2 / (1 + along[0] * phi[0] + along[1] * phi[1])
        R = [[R[i][j] + phi[i] * phi[j] for j in range(2)] for i in range(2)]
        b = [b[i] + phi[i] * y for i in range(2)]
        square += y * y
        learner = update(learner, jnp.asarray([float(v) for v in phi]), float(y))
        theta = _solve(R, b)
        if max(abs(float(t) - float(x)) for t, x in zip(theta, learner.theta, strict=True)) > 1e-8:
            raise Refuted(f"least squares: θ is {learner.theta}, not {[float(t) for t in theta]}")
    least = square - b[0] * theta[0] - b[1] * theta[1]
    if paid != least:
        raise Refuted(f"least squares: the sum is {paid}, the least {least}")


def _solve(R: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    det = R[0][0] * R[1][1] - R[0][1] * R[1][0]
    return [(b[0] * R[1][1] - R[0][1] * b[1]) / det, (R[0][0] * b[1] - b[0] * R[1][0]) / det]


CLAIM = Claim(
    id="9",
    title="Regret bounds of the learners",
    statement=(
        "On every sequence of losses in [0, 1] the regret of Hedge is at most √(T ln M / 2) and "
        "that of fixed share against s switches at most its bound; no player guarantees less than "
        "the minimax regret. EXP3's expected regret is at most 2√((e − 1) T M ln M). RLS pays "
        "Σ e²/(1 + φᵀR⁻¹φ) = min over θ of Σ (θ·φ − y)² + δ|θ|²."
    ),
    latex=r"V_T \le \max_\ell R_T(\mathrm{Hedge}) \le \sqrt{\tfrac T2 \ln M},\quad "
    r"\sum_t \frac{e_t^2}{1 + \varphi_t^\top R_{t-1}^{-1} \varphi_t} = \min_\theta "
    r"\sum_t (\theta^\top\varphi_t - y_t)^2 + \delta|\theta|^2",
    source="Cesa-Bianchi and Lugosi 2006; Auer et al. 2002; Cover 1965; Azoury and Warmuth 2001",
    assumptions="Hedge, fixed share, RLS: any adversary; EXP3: losses fixed in advance; losses in "
    "[0, 1]",
    method="exact minimax regret by dynamic programming in rationals; exhaustive over 0-1 losses; "
    "statistical for EXP3, error probability 1e-6 (Hoeffding)",
    scope=(
        "M = 2, T = 1, 6 and M = 3, T = 3, all sequences; 80 of 40 rounds; 400 runs of EXP3",
        "M = 2, T = 1, 3, 7 and M = 3, T = 2, 4, all sequences; 80 of 40 rounds; 4,000 runs of "
        "EXP3",
    ),
    seconds=(7, 60),
    subject=Subject(),
    check=check,
    drawn=check,
    mutants=(
        Mutant("Hedge turned round", Subject(hedge=Lover)),
        Mutant("half of Hedge's bound", Subject(bound=lambda n, T: hedge_bound(n, T) / 2)),
        Mutant("fixed share shares nothing", Subject(share=Miser)),
        Mutant("EXP3 turned round", Subject(exp3=Lossy)),
        Mutant("RLS without the products of features", Subject(rls=Forgetful)),
    ),
)
