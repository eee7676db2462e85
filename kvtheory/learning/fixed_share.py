"""Fixed share: Hedge whose experts share weight, so that the best one may change."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.learning import checks
from kvtheory.learning.hedge import centred


class FixedShare(NamedTuple):
    """w_i ← (1 − α)·v_i + α·Σv/n with v_i = w_i·exp(−η·loss_i).

    Attributes
    ----------
    log_weights
        float[experts]; logarithms of the weights, the largest being 0. With α > 0 no weight falls
        below α/n of the sum; with α = 0 this is Hedge.

    Guarantee
    ---------
    For losses in [0, 1], Σ_t p_t·loss_t exceeds the loss of the best sequence of experts with s
    switches by at most `kvtheory.learning.bounds.fixed_share_bound`, on every sequence, also of an
    adversary that sees p_t before it chooses.

    Cost
    ----
    O(experts) a round.

    Examples
    --------
    >>> learner = FixedShare.init(2)
    >>> learner = learner.update(jnp.array([0.0, 1.0]), eta=jnp.log(2.0), alpha=0.5)
    >>> [round(p, 3) for p in learner.probabilities().tolist()]
    [0.583, 0.417]

    References
    ----------
    Herbster and Warmuth, "Tracking the best expert", Machine Learning 32 (1998).
    Cesa-Bianchi and Lugosi, "Prediction, Learning, and Games", Cambridge 2006, chapter 5.
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

    def update(
        self, losses: Float[Array, " experts"], eta: Array | float, alpha: Array | float
    ) -> Self:
        """Learn the losses of all experts, and share."""
        checks.like("losses", losses, self.log_weights)
        checks.share("alpha", alpha)
        kept = jax.nn.log_softmax(self.log_weights - eta * losses) + jnp.log1p(-alpha)
        return type(self)(centred(jnp.logaddexp(kept, jnp.log(alpha / losses.shape[0]))))
