"""What a run on a cluster reports: where every query went, its hits and its times."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.result import Result


@dataclass(frozen=True, eq=False, repr=False)
class ClusterResult:
    """One router and one eviction policy on a cluster; one row per seed.

    Parameters
    ----------
    instance, cluster, router, eviction
        What was run.
    worker
        int32[seeds, n]; where each query went.
    hits, believed
        int32[seeds, n]; units that hit, and that the router believed would when it chose.
    start, first_token, end
        float64[seeds, n]; seconds.
    seconds, compile_seconds
        Wall time of the run and of its compilation (0 if it was compiled before).
    """

    instance: Instance
    cluster: Cluster
    router: str
    eviction: str
    worker: np.ndarray
    hits: np.ndarray
    believed: np.ndarray
    start: np.ndarray
    first_token: np.ndarray
    end: np.ndarray
    seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def seeds(self) -> int:
        """Number of lanes."""
        return len(self.worker)

    @cached_property
    def cached(self) -> Result:
        """The hits as those of one cache: hit rates in units, tokens and requests."""
        return Result(self.instance, self.eviction, int(self.cluster.capacity.sum()), self.hits)

    @cached_property
    def load(self) -> np.ndarray:
        """float64[seeds, workers]; seconds of service on each worker, P_i."""
        return self._per_worker(self.end - self.start)

    @property
    def makespan(self) -> np.ndarray:
        """float64[seeds]; max_i P_i, in seconds."""
        return self.load.max(axis=1)

    @property
    def last_completion(self) -> np.ndarray:
        """float64[seeds]; the time at which the last query was completed."""
        return self.end.max(axis=1, initial=0.0)

    @cached_property
    def share(self) -> np.ndarray:
        """float64[seeds, workers]; share of the queries that went to each worker."""
        return self._per_worker(np.ones_like(self.start)) / max(1, self.instance.requests)

    @property
    def imbalance(self) -> np.ndarray:
        """float64[seeds]; max_i P_i over the mean, 1 if the load is even."""
        mean = self.load.mean(axis=1)
        return np.divide(self.makespan, mean, out=np.ones_like(mean), where=mean > 0)

    @property
    def jain(self) -> np.ndarray:
        """float64[seeds]; Jain's index of the loads, (Σ P)² / (M Σ P²): 1 if even, 1/M at worst."""
        square = self.cluster.workers * (self.load**2).sum(axis=1)
        total = self.load.sum(axis=1) ** 2
        return np.divide(total, square, out=np.ones_like(total), where=square > 0)

    @property
    def latency(self) -> np.ndarray:
        """float64[seeds, n]; seconds from arrival to completion, E."""
        return self.end - self.arrival

    @property
    def ttft(self) -> np.ndarray:
        """float64[seeds, n]; seconds from arrival to the first token."""
        return self.first_token - self.arrival

    @property
    def throughput(self) -> np.ndarray:
        """float64[seeds]; queries completed per second until the last completion."""
        last = self.last_completion
        done = np.full_like(last, self.instance.requests)
        return np.divide(done, last, out=np.zeros_like(last), where=last > 0)

    @property
    def believed_hit_rate(self) -> np.ndarray:
        """float64[seeds]; the unit hit rate that the router expected of its choices."""
        return self.believed.sum(axis=1, dtype=np.int64) / max(1, self.instance.units_requested)

    @cached_property
    def arrival(self) -> np.ndarray:
        """float64[n]; arrival times in seconds."""
        assert self.instance.arrival is not None  # `simulate_cluster` has seen to it
        return self.instance.arrival

    def in_system(self, times: np.ndarray) -> np.ndarray:
        """int64[seeds, workers, times]; queries on each worker, waiting or served."""
        counts = np.zeros((self.seeds, self.cluster.workers, len(times)), np.int64)
        for s in range(self.seeds):
            for w in range(self.cluster.workers):
                here = self.worker[s] == w
                came = np.searchsorted(self.arrival[here], times, side="right")
                counts[s, w] = came - np.searchsorted(self.end[s, here], times, side="right")
        return counts

    def _per_worker(self, weight: np.ndarray) -> np.ndarray:
        workers = self.cluster.workers
        return np.stack(
            [
                np.bincount(row, weights=w, minlength=workers)
                for row, w in zip(self.worker, weight, strict=True)
            ]
        )

    def __repr__(self) -> str:
        return (
            f"ClusterResult({self.router!r}, {self.eviction!r}, workers={self.cluster.workers}, "
            f"seeds={self.seeds}, hit_rate_units={float(self.cached.hit_rate_units.mean()):.4f}, "
            f"makespan={float(self.makespan.mean()):.4g} s)"
        )
