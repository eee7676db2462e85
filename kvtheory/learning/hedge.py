"""Hedge: exponential weights over experts whose losses are all seen."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.learning import checks


class Hedge(NamedTuple):
    """w_i ← w_i·exp(−η·loss_i); play expert i with probability w_i/Σw.

    Attributes
    ----------
    log_weights
        float[experts]; logarithms of the weights, the largest being 0, so that no number of rounds
        over- or underflows.

    Guarantee
    ---------
    For losses in [0, 1], Σ_t p_t·loss_t exceeds the loss of the best expert by at most
    ln(n)/η + ηT/8, on every sequence, also of an adversary that sees p_t before it chooses:
    `kvtheory.learning.bounds.hedge_bound` at its best η.

    Cost
    ----
    O(experts) a round.

    Examples
    --------
    >>> hedge = Hedge.init(2)
    >>> hedge = hedge.update(jnp.array([0.0, 1.0]), eta=jnp.log(2.0))
    >>> [round(p, 3) for p in hedge.probabilities().tolist()]
    [0.667, 0.333]

    References
    ----------
    Freund and Schapire, "A decision-theoretic generalization of on-line learning", JCSS 55 (1997).
    Cesa-Bianchi and Lugosi, "Prediction, Learning, and Games", Cambridge 2006, chapter 2.
    """

    log_weights: Float[Array, " experts"]

    @classmethod
    def init(cls, experts: int) -> Self:
        """Equal weights."""
        checks.size("experts", experts)
        return cls(jnp.zeros(experts, float))

    def probabilities(self) -> Float[Array, " experts"]:
        """Probability of each expert."""
        return jax.nn.softmax(self.log_weights)

    def update(self, losses: Float[Array, " experts"], eta: Array | float) -> Self:
        """Learn the losses of all experts."""
        checks.like("losses", losses, self.log_weights)
        return type(self)(centred(self.log_weights - eta * losses))


def centred(log_weights: Float[Array, " experts"]) -> Float[Array, " experts"]:
    """The same weights in proportion, the largest being 1."""
    return log_weights - log_weights.max()
