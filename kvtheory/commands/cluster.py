"""The options of the commands that put a request sequence on several workers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtheory.commands.source import SourceOptions
from kvtheory.errors import bad
from kvtheory.parameters import parse_speeds

if TYPE_CHECKING:
    from kvtheory.cluster import Cluster
    from kvtheory.instance import Instance


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(SourceOptions):
    """Where the requests come from, and the workers."""

    workers: int = 4
    """Number of workers."""
    capacity: str = "5%"
    """Capacity of each worker: units (64), tokens (192000tok) or per cent of the distinct
    units (5%)."""
    alpha_miss: float = 0.16
    """Milliseconds per missed token."""
    alpha_cached: float = 0.0
    """Milliseconds per cached token."""
    alpha_out: float = 0.0
    """Milliseconds per output token."""
    speeds: str | None = None
    """Speed of each worker: 1,1,0.5,2 (every service time is divided by it); 1 by default."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise bad("workers", self.workers, "must be at least 1")
        parse_speeds("speeds", self.speeds, self.workers)
        for name in ("alpha_miss", "alpha_cached", "alpha_out"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise bad(name, getattr(self, name), "must be finite and not negative")

    def cluster(self, instance: "Instance") -> "Cluster":
        """The workers, for an instance."""
        from kvtheory.cluster import similar_workers

        return similar_workers(
            instance,
            self.workers,
            self.capacity,
            alpha_miss=self.alpha_miss,
            alpha_cached=self.alpha_cached,
            alpha_out=self.alpha_out,
            speeds=parse_speeds("speeds", self.speeds, self.workers),
        )
