"""Fixed share over routers: Hedge for patterns that change."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.learning import checks
from kvtheory.learning.fixed_share import FixedShare
from kvtheory.routing.hedge import HedgeRouter


class FixedShareRouter(HedgeRouter):
    """`HedgeRouter` whose experts share a part of their weight after each query.

    Parameters
    ----------
    experts, eta
        As for `HedgeRouter`.
    alpha
        α, the share.

    Guarantee
    ---------
    As for `HedgeRouter`, against the best sequence of experts with s switches:
    `kvtheory.learning.bounds.fixed_share_bound`.

    References
    ----------
    Herbster and Warmuth, Machine Learning 32 (1998).
    """

    alpha: float = 0.01

    name: ClassVar[str] = "fixed_share"
    source: ClassVar[str] = "Herbster, Warmuth 1998"
    guarantee: ClassVar[str] = (
        "regret to s switches <= fixed_share_bound in the losses it is given; none on latency"
    )

    def __check_init__(self) -> None:
        checks.share("alpha", self.alpha)

    def start(self, requests: int, workers: int) -> tuple[Any, Float[Array, " experts"]]:
        learner = FixedShare.init(len(self.experts))
        return learner, jnp.zeros_like(learner.log_weights)

    def learn(self, learner: Any, losses: Float[Array, " experts"]) -> Any:
        return learner.update(losses, self.eta, self.alpha)
