"""What a run reports: hits of every query on every lane, and the rates made of them."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.totals import Totals, add_up


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
    kept
        int32[seeds, n]; hit units of every query on every lane. Or only what they add up to, from
        a run with ``keep="totals"``: rates, misses and ratios are the same.
    seconds, compile_seconds
        Wall time of the run and of its compilation (0 if it was compiled before).
    """

    instance: Instance
    policy: str
    capacity: int
    kept: np.ndarray | Totals
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.kept, Totals):
            self.kept.setflags(write=False)

    @property
    def hits(self) -> np.ndarray:
        """int32[seeds, n]; hit units of every query on every lane.

        Raises
        ------
        InputError
            If only their totals were kept.
        """
        if isinstance(self.kept, Totals):
            raise InputError("the hits of every query were not kept: run with keep='hits'")
        return self.kept

    @cached_property
    def totals(self) -> Totals:
        """Hits of all queries of each lane, in units, tokens and requests."""
        if isinstance(self.kept, Totals):
            return self.kept
        return add_up(self.instance, self.kept)

    @property
    def seeds(self) -> int:
        """Number of lanes."""
        return len(self.kept.units if isinstance(self.kept, Totals) else self.kept)

    @property
    def total_hits(self) -> np.ndarray:
        """int64[seeds]; hit units."""
        return self.totals.units[:, -1]

    @property
    def misses(self) -> np.ndarray:
        """int64[seeds]; missed units: Σ|q| − hits."""
        return self.instance.units_requested - self.total_hits

    def misses_of_first(self, requests: int) -> np.ndarray:
        """int64[seeds]; missed units of the first ``requests`` queries.

        Raises
        ------
        InputError
            If only totals were kept, and none at this number of queries.
        """
        asked = int(self.instance.query_length[:requests].sum())
        if isinstance(self.kept, Totals):
            return asked - self.kept.units_of_first(requests)
        return asked - self.kept[:, :requests].sum(axis=1, dtype=np.int64)

    def after(self, requests: int) -> "Result":
        """The same run without its first ``requests`` queries, which were served but do not count.

        Raises
        ------
        InputError
            If only totals were kept, and none at this number of queries.
        """
        kept = self.kept
        rest = kept.after(requests) if isinstance(kept, Totals) else kept[:, requests:]
        return replace(self, instance=self.instance.after(requests), kept=rest)

    @property
    def hit_rate_units(self) -> np.ndarray:
        """float64[seeds]; Σh / Σ|q|, 0 without units."""
        return self.total_hits / max(1, self.instance.units_requested)

    @property
    def hit_rate_tokens(self) -> np.ndarray:
        """float64[seeds]; Σ min(block·h, input length) / Σ input length."""
        return self.totals.tokens[:, -1] / max(1, int(self.instance.tokens.sum()))

    @property
    def hit_rate_requests(self) -> np.ndarray:
        """float64[seeds]; share of the non-empty queries that are fully hit."""
        some = int((self.instance.query_length > 0).sum())
        return self.totals.requests[:, -1] / max(1, some)

    def __repr__(self) -> str:
        rate = float(self.hit_rate_units.mean())
        return (
            f"Result({self.policy!r}, capacity={self.capacity}, seeds={self.seeds}, "
            f"hit_rate_units={rate:.4f})"
        )
