"""Recursive least squares that forgets: one ridge regression, as a learner of its own."""

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.learning import checks
from kvtheory.learning.ridge import learned


class RLS(NamedTuple):
    """R ← λR + φφᵀ + (1 − λ)δI, b ← λb + φy, θ = R⁻¹b, from R = δI.

    For many learners at once see `kvtheory.learning.ridge.Ridge`.

    Attributes
    ----------
    matrix, vector, theta
        float[features, features] R, float[features] b, float[features] θ.

    Guarantee
    ---------
    θ minimises Σ_t λ^(T − t)·(θ·φ_t − y_t)² + δ|θ|². R never falls below δI, so θ stays finite
    whatever the features are, unlike that of recursive least squares without the (1 − λ)δI, whose
    covariance grows by 1/λ a step in directions that are not excited.

    Cost
    ----
    O(features³) a round, unrolled: for a handful of features.

    Examples
    --------
    >>> learner = RLS.init(2, delta=0.01)
    >>> for phi, y in [([1.0, 0.0], 3.0), ([1.0, 1.0], 5.0)]:
    ...     learner = learner.update(jnp.array(phi), y, forget=0.99, delta=0.01)
    >>> [round(x, 3) for x in learner.theta.tolist()]
    [2.99, 1.99]
    """

    matrix: Float[Array, "features features"]
    vector: Float[Array, " features"]
    theta: Float[Array, " features"]

    @classmethod
    def init(cls, features: int, delta: Array | float) -> Self:
        """R = δI and θ = 0."""
        checks.size("features", features)
        checks.positive("delta", delta)
        zero = jnp.zeros(features, float)
        return cls(delta * jnp.eye(features, dtype=float), zero, zero)

    def predict(self, phi: Float[Array, " features"]) -> Float[Array, ""]:
        """θ·φ."""
        return (self.theta * phi).sum()

    def update(
        self,
        phi: Float[Array, " features"],
        y: Array | float,
        forget: Array | float,
        delta: Array | float,
    ) -> Self:
        """Learn φ → y."""
        checks.like("phi", phi, self.theta)
        checks.share("forget", forget)
        checks.positive("delta", delta)
        return type(self)(*learned(self.matrix, self.vector, phi, y, forget, delta))
