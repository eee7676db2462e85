"""Skeleton of an eviction policy: a key per unit, and its slow twin.

Copy me to ``kvtheory/eviction/my_policy.py`` (the twin goes to
``kvtheory/testing/twins_deterministic.py``) and change the lines marked with "yours".
"""

from typing import ClassVar

import jax.numpy as jnp

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit
from kvtheory.testing.twin_cache import Record
from kvtheory.testing.twins_deterministic import KeyTwin


class MyPolicy(KeyPolicy):
    """Evict the leaf unit that the fewest queries contained, counted up to a cap.

    Yours: one sentence that states the rule, ties included. Ties go to the older last use, then to
    the deeper unit.

    Parameters
    ----------
    cap
        Queries above this number do not count, >= 1. With 1 it is leaf LRU.

    Notes
    -----
    Cost: yours, per query and per evicted unit.
    """

    cap: int = 4

    name: ClassVar[str] = "my_policy"
    source: ClassVar[str] = "yours: author and year, or 'this project'"
    guarantee: ClassVar[str] = "heuristic"
    # the key uses `count`, which has to be kept per unit
    remembers_load: ClassVar[bool] = True

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        # yours: what goes first has the smallest key
        return jnp.minimum(unit.count, self.cap)


class MyTwin(KeyTwin):
    """The same rule in plain Python, unit by unit; it shares no code with the policy."""

    def __init__(self, capacity: int, cap: int = 4) -> None:
        super().__init__(capacity)
        self.cap = cap

    def key(self, record: Record) -> int:
        """Queries that contained the unit since it was loaded, up to the cap."""
        return min(record.count, self.cap)


if __name__ == "__main__":
    from kvtheory.testing.check_eviction import check_eviction

    print(check_eviction(MyPolicy(), twin=MyTwin))
