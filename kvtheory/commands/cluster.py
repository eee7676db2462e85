"""The options of the commands that put a request sequence on several workers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtheory.commands.source import SourceOptions
from kvtheory.errors import bad

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
        import numpy as np

        from kvtheory.cluster import Cluster, capacity_units

        size = instance.block_size
        speeds = parse_speeds("speeds", self.speeds, self.workers)
        return Cluster(
            capacity=np.full(self.workers, capacity_units(self.capacity, instance)),
            block_size=size,
            alpha_miss=np.full(self.workers, self.alpha_miss * size / 1000),
            alpha_cached=np.full(self.workers, self.alpha_cached * size / 1000),
            alpha_out=np.full(self.workers, self.alpha_out / 1000),
            speed=np.array(speeds if speeds is not None else [1.0] * self.workers),
        )


def parse_speeds(name: str, text: str | None, workers: int) -> list[float] | None:
    """Numbers as ``1,1,0.5,2``, one for each worker."""
    if text is None:
        return None
    rule = f"needs a positive number for each of {workers} workers: 1,1,0.5,2"
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise bad(name, text, rule) from None
    if len(values) != workers or not all(0 < value < float("inf") for value in values):
        raise bad(name, text, rule)
    return values
