"""The learning core: against its slow twins, within the bounds of its theorems, finite for ever."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from kvtheory.errors import InputError
from kvtheory.learning import (
    EXP3,
    EXP4,
    RLS,
    FixedShare,
    GradientDescent,
    Hedge,
    PerturbedLeader,
    Ridge,
    bounds,
    exp3_bound,
    exp3_rate,
    exp4_bound,
    exp4_rate,
    fixed_share_bound,
    fixed_share_rates,
    hedge_bound,
    hedge_rate,
    ogd_bound,
    ogd_rate,
    perturbed_leader_bound,
    perturbed_leader_rate,
    regret,
    tracking_regret,
)
from kvtheory.learning.perturbed_leader import noise
from kvtheory.testing import twins_learning as twins

N = 3


@pytest.fixture(params=[32, 64])
def bits(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run in 32 and in 64 bits."""
    with jax.enable_x64(request.param == 64):
        yield request.param


# Against the twins, decision by decision.

update = jax.jit(lambda learner, *arguments: learner.update(*arguments))
probabilities = jax.jit(lambda learner, *arguments: learner.probabilities(*arguments))
advised = jax.jit(lambda learner, advice, gamma: learner.probabilities(advice, N, gamma))
leader = jax.jit(PerturbedLeader.leader)

# Eighths, so that sums of losses are exact and ties are ties in both.
LOSS = st.integers(0, 8).map(lambda k: k / 8)
ROW = st.tuples(LOSS, LOSS, LOSS)
ROWS = st.lists(ROW, min_size=1, max_size=12)
RATE = st.sampled_from([0.01, 0.3, 2.0])
INDEX = st.integers(0, N - 1)


def near(found: Any, expected: Any, scale: float = 1.0) -> None:
    tolerance = scale * (1e-10 if jax.config.read("jax_enable_x64") else 2e-5)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def in_both(test: Callable[..., None]) -> Callable[..., None]:
    """One body in 32 and in 64 bits; the examples stay the same."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        for wide in (False, True):
            with jax.enable_x64(wide):
                test(*arguments, **named)

    return run


@given(ROWS, RATE)
@in_both
def test_hedge_is_its_twin(rows: list[tuple[float, ...]], eta: float) -> None:
    learner, twin = Hedge.init(N), twins.Hedge(N, eta=eta)
    for row in rows:
        near(probabilities(learner), twin.probabilities())
        learner = update(learner, jnp.array(row), eta)
        twin.update(row)
    near(probabilities(learner), twin.probabilities())


@given(ROWS, RATE, st.sampled_from([0.0, 0.01, 0.5, 1.0]))
@in_both
def test_fixed_share_is_its_twin(rows: list[tuple[float, ...]], eta: float, alpha: float) -> None:
    learner, twin = FixedShare.init(N), twins.FixedShare(N, eta=eta, alpha=alpha)
    for row in rows:
        near(probabilities(learner), twin.probabilities())
        learner = update(learner, jnp.array(row), eta, alpha)
        twin.update(row)
    near(probabilities(learner), twin.probabilities())


@given(st.lists(st.tuples(INDEX, LOSS), min_size=1, max_size=12), RATE)
@in_both
def test_exp3_is_its_twin(plays: list[tuple[int, float]], eta: float) -> None:
    learner, twin = EXP3.init(N), twins.EXP3(N, gamma=0.1, eta=eta)
    for arm, loss in plays:
        p = probabilities(learner, 0.1)
        near(p, twin.probabilities())
        learner = update(learner, arm, loss, p[arm], eta)
        twin.update(arm, loss)
    near(probabilities(learner, 0.1), twin.probabilities(), scale=1 + eta * 10)


@given(st.lists(st.tuples(INDEX, INDEX, INDEX, INDEX, LOSS), min_size=1, max_size=12), RATE)
@in_both
def test_exp4_is_its_twin(plays: list[tuple[int, int, int, int, float]], eta: float) -> None:
    learner, twin = EXP4.init(3), twins.EXP4(3, N, gamma=0.1, eta=eta)
    for *advice, action, loss in plays:
        p = advised(learner, jnp.array(advice), 0.1)
        near(p, twin.probabilities(advice), scale=1 + eta * 10)
        learner = update(learner, jnp.array(advice), action, loss, p[action], eta)
        twin.update(advice, action, loss)


@given(st.lists(st.tuples(ROW, ROW), min_size=1, max_size=12))
@in_both
def test_the_perturbed_leader_is_its_twin(rounds: list[tuple[tuple[float, ...], ...]]) -> None:
    player, twin = PerturbedLeader.init(N), twins.PerturbedLeader(N)
    for row, added in rounds:
        assert leader(player, jnp.array(added)) == twin.leader(added)
        player = update(player, jnp.array(row))
        twin.update(row)


@given(ROWS, RATE, st.sampled_from([0.5, 1.0, math.inf]))
@in_both
def test_gradient_descent_is_its_twin(
    rows: list[tuple[float, ...]], eta: float, radius: float
) -> None:
    point, twin = GradientDescent.init(N), twins.OGD(N, eta=eta, radius=radius)
    for k, row in enumerate(rows):
        gradient = [(-1) ** k * g for g in row]
        point = update(point, jnp.array(gradient), eta, radius)
        twin.update(gradient)
        near(point.x, twin.x, scale=5)


@given(ROWS, st.sampled_from([0.9, 0.992, 1.0]), st.sampled_from([0.01, 1.0]))
@in_both
def test_least_squares_are_their_twin(
    rows: list[tuple[float, ...]], forget: float, delta: float
) -> None:
    learner, twin = RLS.init(N, delta), twins.RLS(N, forget=forget, delta=delta)
    many = Ridge.init(2, N, delta)
    for row in rows:
        phi, y = jnp.array(row), row[0] - 2 * row[2]
        learner = update(learner, phi, y, forget, delta)
        many = update(many, 1, phi, y, forget, delta)
        twin.update(row, y)
        # R is as small as δ in directions not yet seen
        near(learner.theta, twin.theta, scale=100)
        near(learner.predict(phi), twin.predict(row), scale=100)
    near(many.theta, [[0.0] * N, twin.theta], scale=100)


def test_another_rate_compiles_nothing() -> None:
    step = jax.jit(lambda learner, row, eta, alpha: learner.update(row, eta, alpha))
    for eta, alpha in [(0.1, 0.1), (0.2, 0.0), (3.0, 0.5)]:
        step(FixedShare.init(N), jnp.ones(N), eta, alpha)
    assert step._cache_size() == 1


def test_learners_map_over_rates() -> None:
    eta = jnp.array([0.1, 1.0])
    many = jax.vmap(lambda eta: Hedge.init(2).update(jnp.array([0.0, 1.0]), eta))(eta)
    for lane, rate in enumerate(eta.tolist()):
        alone = Hedge.init(2).update(jnp.array([0.0, 1.0]), rate)
        near(many.log_weights[lane], alone.log_weights)


# Within the bounds.

Adversary = Callable[[Any, Any], Any]  # losses by the probabilities and a prepared row


def against_the_favourite(p: Any, row: Any) -> Any:
    """Loss 1 for the likeliest expert only."""
    return jax.nn.one_hot(jnp.argmax(p), p.shape[0])


def as_prepared(p: Any, row: Any) -> Any:
    """Fixed in advance."""
    return row


def expected(
    learner: Any,
    step: Callable[[Any, Any], Any],
    rows: np.ndarray,
    adversary: Adversary = as_prepared,
) -> tuple[np.ndarray, np.ndarray]:
    """Losses, and the probabilities with which they were met."""

    def one(learner: Any, row: Any) -> tuple[Any, tuple[Any, Any]]:
        p = learner.probabilities()
        losses = adversary(p, row)
        return step(learner, losses), (losses, p)

    losses, p = lax.scan(one, learner, jnp.asarray(rows, float))[1]
    return np.asarray(losses), np.asarray(p)


def random_rows(n: int, T: int) -> np.ndarray:
    return np.random.default_rng(0).random((T, n)) < (np.arange(n) + 1) / (n + 1)


def alternating_leaders(n: int, T: int) -> np.ndarray:
    """Half a loss first, then one for the leader each time."""
    rows = np.zeros((T, n))
    rows[np.arange(T), np.arange(T) % n] = 1
    rows[0] /= 2
    return rows


def switching(n: int, T: int, switches: int) -> np.ndarray:
    """The best expert, who loses nothing, changes; the others lose 1."""
    rows = np.ones((T, n))
    rows[np.arange(T), np.arange(T) * (switches + 1) // T % n] = 0
    return rows


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("T", [10, 400])
def test_hedge_stays_within_its_bound(n: int, T: int, bits: int) -> None:
    eta = hedge_rate(n, T)
    for rows, adversary in [
        (np.zeros((T, n)), against_the_favourite),
        (random_rows(n, T), as_prepared),
        (alternating_leaders(n, T), as_prepared),
    ]:
        found = regret(*expected(Hedge.init(n), lambda h, x: h.update(x, eta), rows, adversary))
        assert found <= hedge_bound(n, T)


@pytest.mark.parametrize("eta", [-hedge_rate(2, 400), 1e9], ids=["wrong sign", "no hedging"])
def test_a_wrong_hedge_breaks_the_bound(eta: float) -> None:
    rows = np.zeros((400, 2))
    played = expected(Hedge.init(2), lambda h, x: h.update(x, eta), rows, against_the_favourite)
    fixed = expected(Hedge.init(2), lambda h, x: h.update(x, eta), random_rows(2, 400))
    assert max(regret(*played), regret(*fixed)) > hedge_bound(2, 400)


@pytest.mark.parametrize(("n", "T", "switches"), [(3, 300, 2), (5, 1000, 9), (2, 50, 0)])
def test_fixed_share_stays_within_its_bound(n: int, T: int, switches: int, bits: int) -> None:
    eta, alpha = fixed_share_rates(n, T, switches)
    bound = fixed_share_bound(n, T, switches, eta, alpha)
    for rows, adversary in [
        (switching(n, T, switches), as_prepared),
        (np.zeros((T, n)), against_the_favourite),
        (random_rows(n, T), as_prepared),
    ]:
        played = expected(FixedShare.init(n), lambda f, x: f.update(x, eta, alpha), rows, adversary)
        assert tracking_regret(*played, switches) <= bound


def test_without_sharing_the_best_expert_is_not_tracked() -> None:
    n, T, switches = 3, 300, 2
    eta, alpha = fixed_share_rates(n, T, switches)
    played = expected(
        FixedShare.init(n), lambda f, x: f.update(x, eta, 0.0), switching(n, T, switches)
    )
    assert tracking_regret(*played, switches) > fixed_share_bound(n, T, switches, eta, alpha)


# Expected regret is estimated over 1,000 runs on fixed seeds, which would exceed a true mean by
# more than `slack` with probability 1e-6, had the seeds been drawn.
RUNS, ERROR = 1000, 1e-6


def slack(values: np.ndarray, span: float) -> float:
    """The empirical Bernstein bound of Maurer and Pontil (2009) for values within a span."""
    log = math.log(2 / ERROR)
    return math.sqrt(2 * values.var(ddof=1) * log / len(values)) + 7 * span * log / (
        3 * (len(values) - 1)
    )


def two_phases(T: int) -> np.ndarray:
    """Arm 0 gains a half throughout, arm 1 all after a fifth of the rounds and nothing before."""
    rows = np.tile([0.5, 0.0], (T, 1))
    rows[: T // 5, 1] = 1
    return rows


def bandit_regret(rows: np.ndarray, gamma: float, *, weighted: bool = True) -> np.ndarray:
    """Regret of each run, of the losses expected in each round."""
    T, n = rows.shape

    def run(key: Any) -> Any:
        def one(bandit: EXP3, at: tuple[Any, Any]) -> tuple[EXP3, Any]:
            row, u = at
            p = bandit.probabilities(gamma)
            arm = jnp.minimum((jnp.cumsum(p) <= u).sum(), n - 1)
            chance = p[arm] if weighted else 1.0
            return bandit.update(arm, row[arm], chance, gamma / n), (p * row).sum()

        return lax.scan(one, EXP3.init(n), (jnp.asarray(rows), jax.random.uniform(key, T)))[1]

    paid = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), RUNS))
    return np.asarray(paid, np.float64).sum(axis=1) - rows.sum(axis=0).min()


@pytest.mark.parametrize("rows", [two_phases(5000), random_rows(2, 5000)], ids=["phases", "random"])
def test_exp3_stays_within_its_bound(rows: np.ndarray, bits: int) -> None:
    found = bandit_regret(rows.astype(float), exp3_rate(2, 5000))
    assert found.mean() <= exp3_bound(2, 5000) + slack(found, 5000)


def test_without_importance_weights_exp3_breaks_the_bound() -> None:
    found = bandit_regret(two_phases(5000), exp3_rate(2, 5000), weighted=False)
    assert found.mean() > exp3_bound(2, 5000) + slack(found, 5000)


def advised_regret(rows: np.ndarray, advice: np.ndarray, gamma: float, sign: int) -> np.ndarray:
    """Regret to the best expert of each run, of the losses expected in each round."""
    (T, actions), n = rows.shape, advice.shape[1]

    def run(key: Any) -> Any:
        def one(learner: EXP4, at: tuple[Any, Any, Any]) -> tuple[EXP4, Any]:
            row, named, u = at
            p = learner.probabilities(named, actions, gamma)
            action = jnp.minimum((jnp.cumsum(p) <= u).sum(), actions - 1)
            eta = sign * gamma / actions
            return learner.update(named, action, row[action], p[action], eta), (p * row).sum()

        rounds = (jnp.asarray(rows), jnp.asarray(advice), jax.random.uniform(key, T))
        return lax.scan(one, EXP4.init(n), rounds)[1]

    paid = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(1), RUNS))
    best = np.take_along_axis(rows, advice, axis=1).sum(axis=0).min()
    return np.asarray(paid, np.float64).sum(axis=1) - best


@pytest.mark.parametrize("sign", [1, -1])
def test_exp4_stays_within_its_bound_unless_its_sign_is_wrong(sign: int, bits: int) -> None:
    T, actions = 5000, 3
    rng = np.random.default_rng(0)
    # the good action changes all the time, and the last of four experts knows it mostly
    good = rng.integers(actions, size=T)
    rows = (np.arange(actions) != good[:, None]).astype(float)
    knows = np.where(rng.random(T) < 0.9, good, (good + 1) % actions)
    advice = np.stack([0 * good, 0 * good + 1, rng.integers(actions, size=T), knows], axis=1)
    found = advised_regret(rows, advice, exp4_rate(4, actions, T), sign)
    within = found.mean() <= exp4_bound(4, actions, T) + slack(found, T)
    assert within == (sign == 1)


@pytest.mark.parametrize("noisy", [True, False])
def test_the_perturbed_leader_stays_within_its_bound_if_perturbed(noisy: bool, bits: int) -> None:
    n, T = 2, 1600
    rows, scale = alternating_leaders(n, T), perturbed_leader_rate(n, T)

    def run(key: Any) -> Any:
        def one(player: PerturbedLeader, at: tuple[Any, Any]) -> tuple[PerturbedLeader, Any]:
            row, key = at
            k = player.leader(noise(key, n, scale) if noisy else jnp.zeros(n))
            return player.update(row), row[k]

        rounds = (jnp.asarray(rows, float), jax.random.split(key, T))
        return lax.scan(one, PerturbedLeader.init(n), rounds)[1]

    paid = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(2), RUNS))
    found = np.asarray(paid, np.float64).sum(axis=1) - rows.sum(axis=0).min()
    within = found.mean() <= perturbed_leader_bound(n, T) + slack(found, T)
    assert within == noisy


@pytest.mark.parametrize("sign", [1, -1])
def test_gradient_descent_stays_within_its_bound_unless_its_sign_is_wrong(
    sign: int, bits: int
) -> None:
    # losses g·x on the unit ball, g of length 1 in the direction of x
    T = 400
    eta = sign * ogd_rate(2.0, 1.0, T)

    def one(point: GradientDescent, t: Any) -> tuple[GradientDescent, Any]:
        norm = jnp.linalg.norm(point.x)
        away = jnp.stack([jnp.cos(t), jnp.sin(t)])
        g = jnp.where(norm > 0, point.x / jnp.where(norm > 0, norm, 1), away)
        return point.update(g, eta, 1.0), (point.x, g)

    x, g = (np.asarray(a) for a in lax.scan(one, GradientDescent.init(2), jnp.arange(T) * 1.0)[1])
    assert np.linalg.norm(x, axis=1).max() <= 1 + 1e-6
    # the best fixed point is opposite to the sum of the gradients
    found = (g * x).sum() + np.linalg.norm(g.sum(axis=0))
    assert (found <= ogd_bound(2.0, 1.0, T)) == (sign == 1)


# Regret.


@given(st.lists(ROW, min_size=1, max_size=8), st.integers(0, 4), st.data())
def test_regret_is_that_of_the_twin(
    rows: list[tuple[float, ...]], switches: int, data: st.DataObject
) -> None:
    T = len(rows)
    plays = data.draw(st.lists(INDEX, min_size=T, max_size=T))
    assert regret(rows, plays) == twins.regret(rows, plays)
    assert tracking_regret(rows, plays, switches) == twins.tracking_regret(rows, plays, switches)
    mixed = np.eye(N)[plays]
    assert regret(rows, mixed) == regret(rows, plays)
    assert tracking_regret(rows, mixed, switches) == tracking_regret(rows, plays, switches)


@given(st.integers(2, 9), st.integers(2, 10**6), st.integers(0, 5))
def test_bounds_are_those_of_the_twins(n: int, T: int, switches: int) -> None:
    for name in ("hedge_bound", "hedge_rate", "exp3_bound", "exp3_rate", "perturbed_leader_bound"):
        assert getattr(bounds, name)(n, T) == getattr(twins, name)(n, T)
    assert exp4_bound(n, 4, T) == twins.exp4_bound(n, 4, T)
    assert ogd_bound(2.0, 3.0, T) == twins.ogd_bound(2.0, 3.0, T)
    want = twins.fixed_share_bound(n, T, switches, 0.1, 0.2)
    assert fixed_share_bound(n, T, switches, 0.1, 0.2) == pytest.approx(want)


def test_rates_are_the_best_of_their_bounds() -> None:
    eta, alpha = fixed_share_rates(4, 1000, 7)
    least = fixed_share_bound(4, 1000, 7, eta, alpha)
    for factor in (0.9, 1.1):
        assert fixed_share_bound(4, 1000, 7, factor * eta, alpha) > least
        assert fixed_share_bound(4, 1000, 7, eta, factor * alpha) > least
    # without switches it is Hedge
    eta, alpha = fixed_share_rates(4, 1000, 0)
    assert (eta, alpha) == (pytest.approx(hedge_rate(4, 1000)), 0)
    assert fixed_share_bound(4, 1000, 0, eta, 0.0) == pytest.approx(hedge_bound(4, 1000))
    # and without sharing no switch is followed
    assert fixed_share_bound(4, 1000, 1, eta, 0.0) == math.inf


# For ever.

ROUNDS = 10**6
LONG: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "hedge": (Hedge, lambda h, k: h.update(jax.nn.one_hot(k, N), 5.0)),
    "fixed_share": (FixedShare, lambda f, k: f.update(jax.nn.one_hot(k, N), 5.0, 0.01)),
    "exp3": (EXP3, lambda e, k: e.update(k, 0.0, e.probabilities(0.02)[k], 0.05)),
    "exp4": (
        EXP4,
        lambda e, k: e.update(
            jnp.array([0, 1, 1]), k, 0.0, e.probabilities(jnp.array([0, 1, 1]), N, 0.02)[k], 0.05
        ),
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_weights_stay_finite_for_ever(name: str, bits: int) -> None:
    kind, step = LONG[name]

    @jax.jit
    def play(learner: Any) -> Any:
        # the same expert all the time, then another one
        return lax.fori_loop(0, ROUNDS, lambda t, x: step(x, t * 2 // ROUNDS), learner)

    learner = play(kind.init(N))
    assert np.isfinite(learner.log_weights).all()
    if name == "fixed_share":
        # what the others share with the one that loses
        assert learner.log_weights.min() >= math.log(0.01 / N)


@pytest.mark.parametrize(
    "features",
    [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (1.0, 2.0, 3.0), (1e4, 1e4, 1e4)],
)
def test_least_squares_stay_finite_for_ever(features: tuple[float, ...], bits: int) -> None:
    phi = jnp.array(features)

    @jax.jit
    def play(learner: RLS) -> RLS:
        return lax.fori_loop(0, ROUNDS, lambda _, x: x.update(phi, 2.0, 0.992, 0.01), learner)

    learner = play(RLS.init(N, 0.01))
    assert np.isfinite(learner.theta).all()
    assert np.isfinite(learner.matrix).all()
    assert float(learner.predict(phi)) == pytest.approx(2.0 if any(features) else 0.0, rel=1e-3)


def test_least_squares_follow_a_jump_after_long_sameness(bits: int) -> None:
    phi, before, after = jnp.array([1.0, 0.5, 2.0]), 2.0, 10.0

    @functools.partial(jax.jit, static_argnums=2)
    def play(learner: RLS, y: float, rounds: int) -> RLS:
        return lax.fori_loop(0, rounds, lambda _, x: x.update(phi, y, 0.992, 0.01), learner)

    learner = play(RLS.init(N, 0.01), before, 20_000)
    assert abs(learner.predict(phi) - before) < 0.01 * before
    learner = play(learner, after, 600)
    assert abs(learner.predict(phi) - after) < 0.01 * (after - before)


# Errors.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Hedge.init(0), "experts = 0: must be at least 1"),
        (lambda: EXP3.init(0), "arms = 0"),
        (lambda: RLS.init(2, 0.0), "delta = 0.0: must be positive"),
        (lambda: RLS.init(2, 0.1).update(jnp.ones(2), 1.0, 1.5, 0.1), "forget = 1.5: must be a"),
        (lambda: Hedge.init(2).update(jnp.ones(3), 0.1), "losses = (3,): must have the shape (2,)"),
        (lambda: FixedShare.init(2).update(jnp.ones(2), 0.1, 2.0), "alpha = 2.0: must be a share"),
        (lambda: EXP3.init(2).probabilities(-0.1), "gamma = -0.1: must be a share"),
        (lambda: EXP4.init(2).probabilities(jnp.zeros(3, int), 2, 0.1), "advice = (3,)"),
        (lambda: PerturbedLeader.init(2).leader(jnp.ones(1)), "noise = (1,)"),
        (lambda: GradientDescent.init(2).update(jnp.ones(2), 0.1, -1.0), "radius = -1.0"),
        (lambda: noise(jax.random.key(0), 2, 0.0), "epsilon = 0.0: must be positive"),
        (lambda: regret([1.0], [0]), "losses = (1,): must have the shape (rounds, experts)"),
        (lambda: regret([[1.0, 0.0]], [2]), "plays = [2]: must be experts"),
        (lambda: regret([[1.0, 0.0]], [0, 1]), "plays = (2,): must have the shape (1,) or (1, 2)"),
        (lambda: tracking_regret([[1.0]], [0], -1), "switches = -1: must not be negative"),
        (lambda: hedge_rate(2, 0), "T = 0: must be at least 1"),
        (lambda: fixed_share_rates(2, 5, 9), "alpha = 2.25: must be a share"),
    ],
)
def test_bad_arguments_say_what_to_pass(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
