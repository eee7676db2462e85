"""The learning twins within the bounds of their theorems, on random and on adversarial losses."""

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.testing.twins_learning import (
    EXP3,
    EXP4,
    OGD,
    RLS,
    FixedShare,
    Hedge,
    PerturbedLeader,
    exp3_bound,
    exp3_rate,
    exp4_bound,
    fixed_share_bound,
    hedge_bound,
    hedge_rate,
    ogd_bound,
    perturbed_leader_bound,
    regret,
    tracking_regret,
)

Row = list[float]


def against_the_favourite(p: Row) -> Row:
    """Loss 1 for the likeliest action only."""
    return [float(i == p.index(max(p))) for i in range(len(p))]


def rows(rng: random.Random, n: int) -> Callable[[Row], Row]:
    return lambda p: [float(rng.random() < (i + 1) / (n + 1)) for i in range(n)]


def expected_regret(
    player: Hedge, T: int, adversary: Callable[[Row], Row]
) -> tuple[float, list[Row]]:
    paid, losses = 0.0, []
    for _ in range(T):
        p = player.probabilities()
        losses.append(adversary(p))
        paid += sum(x * y for x, y in zip(p, losses[-1], strict=True))
        player.update(losses[-1])
    return paid - min(map(sum, zip(*losses, strict=True))), losses


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("T", [10, 400])
def test_hedge_stays_within_its_bound(n: int, T: int) -> None:
    for adversary in (against_the_favourite, rows(random.Random(0), n)):
        found, _ = expected_regret(Hedge(n, eta=hedge_rate(n, T)), T, adversary)
        assert found <= hedge_bound(n, T)


def test_a_hedge_that_follows_the_leader_breaks_the_bound() -> None:
    found, _ = expected_regret(Hedge(2, eta=1e9), 400, against_the_favourite)
    assert found > hedge_bound(2, 400)


def test_fixed_share_tracks_a_changing_best_expert() -> None:
    T, n, switches, eta, alpha = 300, 3, 2, 0.3, 2 / 299

    def changing() -> Callable[[Row], Row]:
        best = iter([0] * 100 + [1] * 100 + [2] * 100)

        def row(_: Row) -> Row:
            right = next(best)
            return [float(i != right) for i in range(n)]

        return row

    player = FixedShare(n, eta=eta, alpha=alpha)
    found, losses = expected_regret(player, T, changing())
    best = min(map(sum, zip(*losses, strict=True)))
    # the right experts, with 2 switches, pay nothing
    assert tracking_regret(losses, [0] * 100 + [1] * 100 + [2] * 100, switches) == 0
    assert found + best <= fixed_share_bound(n, T, switches, eta, alpha)
    lost, _ = expected_regret(Hedge(n, eta=eta), T, changing())
    assert lost + best > fixed_share_bound(n, T, switches, eta, alpha)


def test_exp3_and_exp4_stay_within_their_bounds_on_average() -> None:
    n, T = 3, 400
    gamma = exp3_rate(n, T)
    rng = random.Random(0)
    fixed = [[float(rng.random() < q) for q in (0.2, 0.5, 0.8)] for _ in range(T)]
    # the good arm changes halfway
    fixed[T // 2 :] = [row[::-1] for row in fixed[T // 2 :]]
    found3, found4 = [], []
    for seed in range(20):
        draw = random.Random(seed)
        arms, experts = EXP3(n, gamma=gamma), EXP4(n, n, gamma=gamma)
        plays3, plays4 = [], []
        for t, row in enumerate(fixed):
            plays3.append(draw.choices(range(n), arms.probabilities())[0])
            arms.update(plays3[-1], row[plays3[-1]])
            # experts that permute the arms: the first is never wrong for long
            advice = [(k + (0 if t < T // 2 else 2)) % n for k in range(n)]
            plays4.append(draw.choices(range(n), experts.probabilities(advice))[0])
            experts.update(advice, plays4[-1], row[plays4[-1]])
        found3.append(regret(fixed, plays3))
        best = min(
            sum(row[(k + (0 if t < T // 2 else 2)) % n] for t, row in enumerate(fixed))
            for k in range(n)
        )
        found4.append(sum(row[a] for row, a in zip(fixed, plays4, strict=True)) - best)
    assert np.mean(found3) <= exp3_bound(n, T)
    assert np.mean(found4) <= exp4_bound(n, n, T)


def test_exp4_with_one_expert_per_action_is_exp3() -> None:
    arms, experts = EXP3(3, gamma=0.1), EXP4(3, 3, gamma=0.1)
    for arm, loss in [(0, 1.0), (2, 0.25), (1, 0.0), (2, 0.5)]:
        assert experts.probabilities([0, 1, 2]) == pytest.approx(arms.probabilities())
        arms.update(arm, loss)
        experts.update([0, 1, 2], arm, loss)


def test_perturbed_leader_stays_within_its_bound_on_average() -> None:
    n, T = 4, 300
    rng = random.Random(0)
    losses = [[float(rng.random() < 0.5) for _ in range(n)] for _ in range(T)]
    scale = math.sqrt(T * n / 2)
    found = []
    for _ in range(20):
        player, plays = PerturbedLeader(n), []
        for row in losses:
            plays.append(player.leader([rng.random() * scale for _ in range(n)]))
            player.update(row)
        found.append(regret(losses, plays))
    assert np.mean(found) <= perturbed_leader_bound(n, T)


def test_gradient_descent_stays_within_its_bound() -> None:
    # losses g·x with |g| = 1 on the unit ball, g being the direction of x
    T = 200
    player = OGD(2, eta=2 / math.sqrt(T), radius=1.0)
    paid, total = 0.0, np.zeros(2)
    for t in range(T):
        x = np.array(player.x)
        g = x / np.linalg.norm(x) if np.linalg.norm(x) > 0 else np.array([math.cos(t), math.sin(t)])
        paid += float(g @ x)
        total += g
        player.update(g.tolist())
        assert np.linalg.norm(player.x) <= 1 + 1e-12
    assert paid + np.linalg.norm(total) <= ogd_bound(2.0, 1.0, T)


def test_ridge_is_weighted_least_squares_with_a_steady_regulariser() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    ridge = RLS(3, forget=0.9, delta=0.5)
    for phi, target in zip(X, y, strict=True):
        ridge.update(phi.tolist(), float(target))
    weight = 0.9 ** np.arange(39, -1, -1)
    # δI at the start, forgotten by λ and refilled by (1 − λ)δI, is δI for ever
    R = (X.T * weight) @ X + 0.5 * np.eye(3)
    assert ridge.theta == pytest.approx(np.linalg.solve(R, (X.T * weight) @ y).tolist())


def test_ridge_follows_a_jump_after_long_sameness() -> None:
    ridge = RLS(3)
    for _ in range(20_000):
        ridge.update([1.0, 0.0, 1.0], 2.0)
    assert ridge.predict([1.0, 0.0, 1.0]) == pytest.approx(2.0, rel=1e-3)
    for _ in range(600):
        ridge.update([1.0, 0.0, 1.0], 10.0)
    assert ridge.predict([1.0, 0.0, 1.0]) == pytest.approx(10.0, rel=0.01)


@pytest.mark.parametrize("features", [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
def test_ridge_stays_finite(features: Row) -> None:
    ridge = RLS(2, forget=0.95)
    for _ in range(20_000):
        ridge.update(features, 1e6)
    assert np.isfinite(ridge.theta).all()
    assert np.linalg.eigvalsh(ridge.R)[0] == pytest.approx(0.01)


def test_weights_stay_finite() -> None:
    players = [Hedge(2, eta=5.0), FixedShare(2, eta=5.0, alpha=0.0)]
    bandit = EXP3(2, gamma=0.01, eta=1.0)
    for _ in range(20_000):
        for player in players:
            player.update([1.0, 0.0])
        bandit.update(1, 0.0)
    assert [player.probabilities() for player in players] == [[0.0, 1.0]] * 2
    assert bandit.probabilities() == pytest.approx([0.005, 0.995])


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(0, 3),
    st.data(),
)
def test_tracking_regret_is_that_of_the_best_sequence(
    losses: list[list[int]], switches: int, data: st.DataObject
) -> None:
    T = len(losses)
    plays = data.draw(st.lists(st.integers(0, 2), min_size=T, max_size=T))
    best = min(
        sum(row[i] for row, i in zip(losses, path, strict=True))
        for path in itertools.product(range(3), repeat=T)
        if sum(a != b for a, b in itertools.pairwise(path)) <= switches
    )
    paid = sum(row[i] for row, i in zip(losses, plays, strict=True))
    assert tracking_regret(losses, plays, switches) == paid - best
    assert tracking_regret(losses, plays, 0) == regret(losses, plays)


def test_bad_parameters() -> None:
    with pytest.raises(InputError, match="n = 0"):
        Hedge(0, eta=1.0)
    with pytest.raises(InputError, match="alpha"):
        FixedShare(2, eta=1.0, alpha=2.0)
    with pytest.raises(InputError, match="gamma"):
        EXP3(2, gamma=0.0)
    with pytest.raises(InputError, match="forget"):
        RLS(2, forget=0.0)
    with pytest.raises(InputError, match="delta"):
        RLS(2, delta=0.0)
