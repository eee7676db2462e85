"""Checks for policies of one's own, slow reference twins, exhaustive search, strategies.

The checks are in ``kvtheory.testing.check_eviction`` and ``kvtheory.testing.check_routing`` and
load JAX, the strategies in ``kvtheory.testing.strategies`` and need ``hypothesis``; all else here
is plain Python.
"""

from kvtheory.testing.exhaustive import closed_subsets, optimum_by_search
from kvtheory.testing.law import RandomTwinFactory, expected_hits, law
from kvtheory.testing.twin_cache import Record, Twin, Unit, UnitTwin, distinct_units, path_of
from kvtheory.testing.twins import DETERMINISTIC, RANDOM, TWINS, true_next_uses

__all__ = [
    "DETERMINISTIC",
    "RANDOM",
    "TWINS",
    "RandomTwinFactory",
    "Record",
    "Twin",
    "Unit",
    "UnitTwin",
    "closed_subsets",
    "distinct_units",
    "expected_hits",
    "law",
    "optimum_by_search",
    "path_of",
    "true_next_uses",
]
