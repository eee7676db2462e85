"""Online learning on arrays: pure functions that can be used alone.

Each learner is a named tuple of arrays with ``init`` and ``update``; hyper-parameters are arguments
of ``update``, so that all of it can be jitted, mapped over and scanned. Weights are kept as
logarithms. The theorems are in `kvtheory.learning.bounds`.

>>> import jax, jax.numpy as jnp
>>> losses = jnp.array([[0.0, 1.0]] * 100)
>>> eta = hedge_rate(n=2, T=100)
>>> step = lambda hedge, row: (hedge.update(row, eta), hedge.probabilities())
>>> _, played = jax.lax.scan(step, Hedge.init(2), losses)
>>> regret(losses, played) <= hedge_bound(n=2, T=100)
True
"""

from kvtheory.learning.bounds import (
    exp3_bound,
    exp3_rate,
    exp4_bound,
    exp4_rate,
    fixed_share_bound,
    fixed_share_rates,
    hedge_bound,
    hedge_rate,
    ogd_bound,
    ogd_rate,
    perturbed_leader_bound,
    perturbed_leader_rate,
)
from kvtheory.learning.exp3 import EXP3
from kvtheory.learning.exp4 import EXP4
from kvtheory.learning.fixed_share import FixedShare
from kvtheory.learning.gradient_descent import GradientDescent
from kvtheory.learning.hedge import Hedge
from kvtheory.learning.perturbed_leader import PerturbedLeader
from kvtheory.learning.recursive_least_squares import RLS
from kvtheory.learning.regret import regret, tracking_regret
from kvtheory.learning.ridge import Ridge

__all__ = [
    "EXP3",
    "EXP4",
    "RLS",
    "FixedShare",
    "GradientDescent",
    "Hedge",
    "PerturbedLeader",
    "Ridge",
    "exp3_bound",
    "exp3_rate",
    "exp4_bound",
    "exp4_rate",
    "fixed_share_bound",
    "fixed_share_rates",
    "hedge_bound",
    "hedge_rate",
    "ogd_bound",
    "ogd_rate",
    "perturbed_leader_bound",
    "perturbed_leader_rate",
    "regret",
    "tracking_regret",
]
