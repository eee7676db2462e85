"""A latency as a loss in [0, 1]: against a running mean of the ones before."""

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float


class RelativeLatency(NamedTuple):
    """ℓ = E/(E + Ē), Ē a running mean of the latencies E before this one.

    ``mean`` is in seconds, −1 before the first latency, at which Ē starts, so that the first ℓ is
    1/2, as is that of 0 s against a mean of 0 s.
    """

    mean: Float[Array, ""]

    @classmethod
    def init(cls) -> Self:
        """No latency yet."""
        return cls(jnp.full((), -1.0, float))

    def loss(self, latency: Float[Array, ""], rate: Array | float) -> tuple[Self, Array]:
        """The mean moved by ``rate`` towards a latency, and ℓ of it against the mean before."""
        mean = jnp.where(self.mean < 0, latency, self.mean)
        both = latency + mean
        loss = jnp.where(both > 0, latency / jnp.where(both > 0, both, 1.0), 0.5)
        return type(self)(mean + rate * (latency - mean)), loss
