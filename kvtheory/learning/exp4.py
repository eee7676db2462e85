"""EXP4: EXP3 with advice, where all experts that named what was played learn from it."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from kvtheory.cache import Scalar
from kvtheory.learning import checks
from kvtheory.learning.hedge import centred


class EXP4(NamedTuple):
    """Exponential weights over experts who each name an action, of which one is played.

    p_a = (1 − γ)·Σ_{k names a} w_k/Σw + γ/actions; after action a, w_k ← w_k·exp(η·(1 − loss)/p_a)
    for every expert k that named a.

    Attributes
    ----------
    log_weights
        float[experts]; logarithms of the weights, the largest being 0.

    Guarantee
    ---------
    For losses in [0, 1] and advice fixed in advance (an oblivious adversary), the expected loss
    exceeds that of the best expert by at most `kvtheory.learning.bounds.exp4_bound` at
    γ = `exp4_rate`, η = γ/actions. Against an adversary that answers to earlier plays the same
    holds of the pseudo-regret.

    Cost
    ----
    O(experts + actions) a round.

    Examples
    --------
    >>> learner, advice = EXP4.init(3), jnp.array([0, 1, 1])
    >>> p = learner.probabilities(advice, actions=2, gamma=0.1)
    >>> [round(x, 3) for x in p.tolist()]
    [0.35, 0.65]
    >>> learner = learner.update(advice, 1, loss=0.0, probability=p[1], eta=0.1)
    >>> [round(x, 3) for x in learner.probabilities(advice, actions=2, gamma=0.1).tolist()]
    [0.32, 0.68]

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic multiarmed bandit problem", SIAM J.
    Computing 32 (2002), section 7.
    """

    log_weights: Float[Array, " experts"]

    @classmethod
    def init(cls, experts: int) -> Self:
        """Equal weights."""
        checks.size("experts", experts)
        return cls(jnp.zeros(experts, float))

    def probabilities(
        self, advice: Int[Array, " experts"], actions: int, gamma: Array | float
    ) -> Float[Array, " actions"]:
        """Probability of each action, ``advice[k]`` being what expert k names.

        The number of actions is a shape, and so static; γ is the share of uniform play.
        """
        checks.like("advice", advice, self.log_weights)
        checks.size("actions", actions)
        checks.share("gamma", gamma)
        weight = jax.nn.softmax(self.log_weights)
        named = (jax.nn.one_hot(advice, actions, dtype=weight.dtype) * weight[:, None]).sum(axis=0)
        return (1 - gamma) * named + gamma / actions

    def update(
        self,
        advice: Int[Array, " experts"],
        action: Scalar | int,
        loss: Array | float,
        probability: Array | float,
        eta: Array | float,
    ) -> Self:
        """Learn the loss of the action that was played, with the probability that it had then."""
        checks.like("advice", advice, self.log_weights)
        gain = eta * (1 - loss) / probability
        return type(self)(centred(self.log_weights + jnp.where(advice == action, gain, 0.0)))
