"""Hits of one cache at every capacity."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.oversize import path_units
from kvtheory.rows import rows_of


@dataclass(frozen=True, eq=False, repr=False)
class HitCurve:
    """Hits of one policy, or of the optimum, at every capacity that can serve every query.

    Parameters
    ----------
    instance
        The request sequence.
    policy
        Name of the policy, or ``"optimum"``.
    smallest
        Least capacity of the curve, in units: that of the longest path.
    hits
        int64[capacities]; hit units of all queries together with ``smallest`` units of cache,
        with one more, and so on up to all distinct units. More units change nothing.
    """

    instance: Instance
    policy: str
    smallest: int
    hits: np.ndarray

    def __post_init__(self) -> None:
        self.hits.setflags(write=False)

    @property
    def capacities(self) -> np.ndarray:
        """int64[capacities]; units."""
        return np.arange(self.smallest, self.smallest + len(self.hits))

    def at(self, capacities: int | Sequence[int] | np.ndarray) -> np.ndarray:
        """int64; hits at these capacities in units, of their shape.

        Raises
        ------
        InputError
            For a capacity that cannot serve the longest path.
        """
        units = np.asarray(capacities, np.int64)
        _check_least(units, self.smallest)
        return self.hits[np.minimum(units - self.smallest, len(self.hits) - 1)]

    def misses_at(self, capacities: int | Sequence[int] | np.ndarray) -> np.ndarray:
        """int64; missed units, Σ|q| − hits."""
        return self.instance.units_requested - self.at(capacities)

    @property
    def hit_rate(self) -> np.ndarray:
        """float64[capacities]; Σh / Σ|q|, 0 without units. The miss ratio is the rest to 1."""
        return self.hits / max(1, self.instance.units_requested)

    def __repr__(self) -> str:
        last = self.smallest + len(self.hits) - 1
        return f"HitCurve({self.policy!r}, capacities={self.smallest}…{last})"


def smallest_capacity(instance: Instance) -> int:
    """Units of the smallest cache that every query, warm path and end node fits."""
    return max(1, int(path_units(rows_of(instance).instance).max(initial=0)))


def largest_capacity(instance: Instance) -> int:
    """Units of a cache that never evicts: all distinct units."""
    return max(1, instance.tree.units)


def check_serves(instance: Instance, capacities: Sequence[int] | np.ndarray) -> None:
    """Raise `InputError` if a capacity is smaller than the longest path."""
    _check_least(np.asarray(capacities, np.int64), smallest_capacity(instance))


def _check_least(units: np.ndarray, smallest: int) -> None:
    if (units < smallest).any():
        rule = f"must be at least {smallest} units, the longest path"
        raise bad("capacities", int(units.min()), rule)
