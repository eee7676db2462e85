"""EXP3: exponential weights for bandits, who see the loss of what they played alone."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.cache import Scalar
from kvtheory.learning import checks
from kvtheory.learning.hedge import centred


class EXP3(NamedTuple):
    """p_i = (1 − γ)·w_i/Σw + γ/n; after arm i, w_i ← w_i·exp(η·(1 − loss)/p_i).

    Attributes
    ----------
    log_weights
        float[arms]; logarithms of the weights, the largest being 0.

    Guarantee
    ---------
    For losses in [0, 1] fixed in advance (an oblivious adversary), the expected loss exceeds that
    of the best arm by at most `kvtheory.learning.bounds.exp3_bound` at γ = `exp3_rate`, η = γ/n.
    Against an adversary that answers to earlier plays the same holds of the pseudo-regret
    max_i E[Σ loss − Σ loss_i].

    Cost
    ----
    O(arms) a round.

    Examples
    --------
    >>> bandit = EXP3.init(2)
    >>> p = bandit.probabilities(gamma=0.5)
    >>> bandit = bandit.update(1, loss=0.5, probability=p[1], eta=1.0)
    >>> [round(p, 3) for p in bandit.probabilities(gamma=0.5).tolist()]
    [0.384, 0.616]

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic multiarmed bandit problem", SIAM J.
    Computing 32 (2002).
    """

    log_weights: Float[Array, " arms"]

    @classmethod
    def init(cls, arms: int) -> Self:
        """Equal weights."""
        checks.size("arms", arms)
        return cls(jnp.zeros(arms, float))

    def probabilities(self, gamma: Array | float) -> Float[Array, " arms"]:
        """Probability of each arm; γ is the share of uniform play."""
        checks.share("gamma", gamma)
        return (1 - gamma) * jax.nn.softmax(self.log_weights) + gamma / self.log_weights.shape[0]

    def update(
        self,
        arm: Scalar | int,
        loss: Array | float,
        probability: Array | float,
        eta: Array | float,
    ) -> Self:
        """Learn the loss of the arm that was played, with the probability that it had then."""
        return type(self)(centred(self.log_weights.at[arm].add(eta * (1 - loss) / probability)))
