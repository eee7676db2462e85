"""Exponentially weighted ridge regression, one learner per worker, finite for ever."""

from typing import NamedTuple, Self

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from kvtheory.cache import Scalar


class Ridge(NamedTuple):
    """R, b and θ = R⁻¹b of each learner.

    R ← λR + φφᵀ + (1 − λ)δI keeps R at least about δI, whatever the features are, so θ stays finite
    for ever, unlike recursive least squares with forgetting, whose covariance grows by 1/λ a step
    in directions that are not excited.
    """

    matrix: Float[Array, "learners features features"]
    vector: Float[Array, "learners features"]
    theta: Float[Array, "learners features"]

    @classmethod
    def init(cls, learners: int, features: int, delta: Array | float) -> Self:
        """R = δI and θ = 0."""
        eye = delta * jnp.eye(features, dtype=float)
        zero = jnp.zeros((learners, features), float)
        return cls(jnp.broadcast_to(eye, (learners, features, features)), zero, zero)

    def update(
        self,
        learner: Scalar | int,
        phi: Float[Array, " features"],
        y: Float[Array, ""],
        forget: Array | float,
        delta: Array | float,
    ) -> Self:
        """Learn φ → y. Cost: O(features³), unrolled."""
        R, b = self.matrix[learner], self.vector[learner]
        new = learned(R, b, phi, y, forget, delta)
        (matrix, vector, theta), old = lax.optimization_barrier((new, self))
        return type(self)(
            old.matrix.at[learner].set(matrix),
            old.vector.at[learner].set(vector),
            old.theta.at[learner].set(theta),
        )

    def descend(
        self,
        learner: Scalar | int,
        phi: Float[Array, " features"],
        y: Float[Array, ""],
        eta: Array | float,
    ) -> Self:
        """One gradient step on half the squared error instead; R and b stay."""
        error = (self.theta[learner] * phi).sum() - y
        return self._replace(theta=self.theta.at[learner].add(-eta * error * phi))


def learned(
    matrix: Float[Array, "features features"],
    vector: Float[Array, " features"],
    phi: Float[Array, " features"],
    y: Array | float,
    forget: Array | float,
    delta: Array | float,
) -> tuple[Array, Array, Array]:
    """Next R, b and θ of one learner."""
    matrix = forget * matrix + phi[:, None] * phi[None, :]
    matrix = matrix + (1 - forget) * delta * jnp.eye(phi.shape[0], dtype=phi.dtype)
    vector = forget * vector + phi * y
    return matrix, vector, solve(matrix, vector)


def solve(matrix: Float[Array, "n n"], vector: Float[Array, " n"]) -> Float[Array, " n"]:
    """matrix⁻¹·vector for a small positive definite matrix, by elimination, unrolled.

    An unknown whose pivot is lost in rounding, so that the ones before it say it all, is 0.
    """
    n = vector.shape[0]
    a = [[matrix[i, j] for j in range(n)] for i in range(n)]
    b = [vector[i] for i in range(n)]
    pivot = []
    for k in range(n):
        lost = a[k][k] <= n * jnp.finfo(matrix.dtype).eps * matrix[k, k]
        pivot.append(jnp.where(lost, jnp.inf, a[k][k]))
        for i in range(k + 1, n):
            factor = a[i][k] / pivot[k]
            for j in range(k, n):
                a[i][j] = a[i][j] - factor * a[k][j]
            b[i] = b[i] - factor * b[k]
    x = [b[0]] * n
    for i in reversed(range(n)):
        total = b[i]
        for j in range(i + 1, n):
            total = total - a[i][j] * x[j]
        x[i] = total / pivot[i]
    return jnp.stack(x)
