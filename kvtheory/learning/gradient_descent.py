"""Online gradient descent on a ball."""

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.learning import checks


class GradientDescent(NamedTuple):
    """x ← Π(x − η·g), Π the projection onto the ball of some radius around 0.

    Attributes
    ----------
    x
        float[n]; the point to play next.

    Guarantee
    ---------
    For convex losses whose gradients are at most G long, on a ball of diameter D, the loss exceeds
    that of the best fixed point by at most D²/(2η) + ηTG²/2, on every sequence, also of an
    adversary that sees x before it chooses: `kvtheory.learning.bounds.ogd_bound` at its best η.

    Cost
    ----
    O(n) a round.

    Examples
    --------
    >>> point = GradientDescent.init(2).update(jnp.array([3.0, -4.0]), eta=1.0, radius=1.0)
    >>> print(point.x)
    [-0.6  0.8]

    References
    ----------
    Zinkevich, "Online convex programming and generalized infinitesimal gradient ascent", ICML 2003.
    """

    x: Float[Array, " n"]

    @classmethod
    def init(cls, n: int) -> Self:
        """The centre of the ball."""
        checks.size("n", n)
        return cls(jnp.zeros(n, float))

    def update(
        self, gradient: Float[Array, " n"], eta: Array | float, radius: Array | float = jnp.inf
    ) -> Self:
        """Step against the gradient of the loss at ``x``."""
        checks.like("gradient", gradient, self.x)
        checks.positive("radius", radius)
        moved = self.x - eta * gradient
        norm = jnp.linalg.norm(moved)
        outside = norm > radius
        return type(self)(jnp.where(outside, radius / jnp.where(outside, norm, 1), 1) * moved)
