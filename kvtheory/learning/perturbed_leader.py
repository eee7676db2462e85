"""Follow the perturbed leader."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from kvtheory.cache import Scalar
from kvtheory.learning import checks


class PerturbedLeader(NamedTuple):
    """Play argmin_i of the losses so far plus noise_i, drawn anew every round.

    Attributes
    ----------
    losses
        float[experts]; what each expert lost so far more than the best one.

    Guarantee
    ---------
    For losses in [0, 1] and `noise`, the expected loss exceeds that of the best expert by at most
    `kvtheory.learning.bounds.perturbed_leader_bound` at ε = `perturbed_leader_rate`; as the noise
    is new every round, also against an adversary that answers to earlier plays.

    Cost
    ----
    O(experts) a round.

    Examples
    --------
    >>> player = PerturbedLeader.init(2).update(jnp.array([1.0, 0.0]))
    >>> int(player.leader(jnp.array([0.0, 0.5]))), int(player.leader(jnp.array([0.0, 2.0])))
    (1, 0)

    References
    ----------
    Kalai and Vempala, "Efficient algorithms for online decision problems", JCSS 71 (2005).
    """

    losses: Float[Array, " experts"]

    @classmethod
    def init(cls, experts: int) -> Self:
        """Nothing lost yet."""
        checks.size("experts", experts)
        return cls(jnp.zeros(experts, float))

    def leader(self, noise: Float[Array, " experts"]) -> Scalar:
        """The expert to play; ties to the index."""
        checks.like("noise", noise, self.losses)
        return jnp.argmin(self.losses + noise).astype(jnp.int32)

    def update(self, losses: Float[Array, " experts"]) -> Self:
        """Learn the losses of all experts."""
        checks.like("losses", losses, self.losses)
        total = self.losses + losses
        return type(self)(total - total.min())


def noise(key: Key[Array, ""], experts: int, epsilon: Array | float) -> Float[Array, " experts"]:
    """The noise of the theorem, uniform in [0, 1/ε] for each expert."""
    checks.positive("epsilon", epsilon)
    return jax.random.uniform(key, (experts,), float) / epsilon
