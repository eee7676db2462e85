"""Tail-optimised LRU: units that a long query may miss without missing its target go first."""

from typing import ClassVar

import jax.numpy as jnp

from kvtheory.cache import Query, Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit


class TailLRU(KeyPolicy):
    """A leaf unit is free if the longest query seen through it would miss at most ξ without it.

    Free leaf units go first, in LRU order, then the others in LRU order. "Seen" means ever, so a
    unit that was evicted and comes back keeps what is known of the queries through it.

    Parameters
    ----------
    xi
        Units that a query may miss, ξ >= 0. With 0 it is leaf LRU.
    """

    xi: int = 16

    name: ClassVar[str] = "tail_lru"
    source: ClassVar[str] = "Tail-Optimized LRU, arXiv:2510.15152 (our reading)"

    def visit(self, record: Scalar, query: Query) -> Scalar:
        return jnp.maximum(record, query.length)

    def _spare(self, unit: LeafUnit) -> Scalar:
        # units at the tail of the path that the longest query could miss
        return self.xi - (unit.record - unit.depth)

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return (self._spare(unit) < 1).astype(jnp.int32)

    def run(self, unit: LeafUnit) -> Scalar:
        spare = self._spare(unit)
        return jnp.where(spare < 1, unit.cached, jnp.minimum(unit.cached, spare))
