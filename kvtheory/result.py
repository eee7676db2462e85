"""What a run reports: hits of every query on every lane, and the rates made of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvtheory.instance import Instance


class PolicyError(RuntimeError):
    """A policy broke the rules of eviction; the message says which."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """One policy at one capacity on an instance.

    Parameters
    ----------
    instance
        The request sequence, as given (not cut by ``oversize``).
    policy
        Name of the eviction policy.
    capacity
        Units.
    hits
        int32[seeds, n]; hit units of every query on every lane.
    seconds, compile_seconds
        Wall time of the run and of its compilation (0 if it was compiled before).
    """

    instance: Instance
    policy: str
    capacity: int
    hits: np.ndarray
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.hits.setflags(write=False)

    @property
    def seeds(self) -> int:
        """Number of lanes."""
        return len(self.hits)

    @cached_property
    def total_hits(self) -> np.ndarray:
        """int64[seeds]; hit units."""
        return self.hits.sum(axis=1, dtype=np.int64)

    @property
    def misses(self) -> np.ndarray:
        """int64[seeds]; missed units: Σ|q| − hits."""
        return self.instance.units_requested - self.total_hits

    def misses_of_first(self, requests: int) -> np.ndarray:
        """int64[seeds]; missed units of the first ``requests`` queries."""
        asked = int(self.instance.query_length[:requests].sum())
        return asked - self.hits[:, :requests].sum(axis=1, dtype=np.int64)

    @property
    def hit_rate_units(self) -> np.ndarray:
        """float64[seeds]; Σh / Σ|q|, 0 without units."""
        return self.total_hits / max(1, self.instance.units_requested)

    @cached_property
    def hit_rate_tokens(self) -> np.ndarray:
        """float64[seeds]; Σ min(block·h, input length) / Σ input length."""
        tokens = self.instance.tokens
        hit = np.minimum(self.hits.astype(np.int64) * self.instance.block_size, tokens)
        return hit.sum(axis=1) / max(1, int(tokens.sum()))

    @cached_property
    def hit_rate_requests(self) -> np.ndarray:
        """float64[seeds]; share of the non-empty queries that are fully hit."""
        length = self.instance.query_length
        some = length > 0
        full = (self.hits[:, some] == length[some]).sum(axis=1)
        return full / max(1, int(some.sum()))

    def __repr__(self) -> str:
        rate = float(self.hit_rate_units.mean())
        return (
            f"Result({self.policy!r}, capacity={self.capacity}, seeds={self.seeds}, "
            f"hit_rate_units={rate:.4f})"
        )
