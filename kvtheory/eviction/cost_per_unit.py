"""Count per unit of the branch: long branches that are rarely used go first."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from kvtheory.cache import Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit


class CostPerUnit(KeyPolicy):
    """Evict the leaf unit with the smallest count divided by the units of its branch.

    The branch runs from the leaf unit up to the first unit with another cached child, which
    does not belong to it. A branch that is chosen goes on going as long as the query needs room.
    Good for requests that are served whole, since it frees the most space per use lost; worse
    per unit.

    Notes
    -----
    The quotient is a float32: two quotients a/b and c/d with a·d below 2²² never compare wrongly.
    """

    name: ClassVar[str] = "cost_per_unit"
    source: ClassVar[str] = "greedy dual by size (Cao and Irani 1997), on branches"
    remembers_load: ClassVar[bool] = True
    sees_branch: ClassVar[bool] = True
    whole_branch: ClassVar[bool] = True

    def key(self, unit: LeafUnit, tape: Tape) -> Float[Array, ""]:
        return unit.count.astype(jnp.float32) / jnp.maximum(unit.branch, 1).astype(jnp.float32)
