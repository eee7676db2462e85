"""What a sweep will cost, from short samples of its policies on this machine."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from kvtheory.instance import Instance
from kvtheory.sweep.cache_rows import cache_rows
from kvtheory.sweep.cell import Cell, ClusterCell
from kvtheory.sweep.cluster_rows import cluster_rows
from kvtheory.sweep.plan import Plan, Planned
from kvtheory.sweep.work import Known, OptimumTask, best_known

SAMPLE = 20_000  # queries of a sample
LANES = 16  # of a sample
BUDGET = 20.0  # seconds for all samples
START = 3.0  # seconds in which a process starts and imports JAX
CLUSTER_BYTES = 44  # of the results of a query: four int32 and float64 each, with room


@dataclass(frozen=True)
class Estimate:
    """Seconds of one processor, and what that comes to. An estimate, not a promise.

    Parameters
    ----------
    running, compiling, optima
        Seconds for the lanes, the programs and the optima.
    bytes
        Memory of a process: the peak of this one with a sample, and the results of the largest
        cell.
    sampled, pairs
        Policies, or pairs of router and policy, that were measured, and how many there are; the
        others are taken to cost the mean.
    """

    running: float
    compiling: float
    optima: float
    bytes: int
    sampled: int
    pairs: int

    def seconds(self, processes: int) -> float:
        """Wall time with that many processes."""
        return START + (self.running + self.compiling + self.optima) / max(1, processes)


@dataclass(frozen=True)
class _Sample:
    """Seconds: of a cell per position, of a lane per position, and of compiling."""

    cell: float
    lane: float
    compiling: float

    def seconds(self, positions: int, lanes: int) -> float:
        return positions * (self.cell + lanes * self.lane)


def estimate(
    planned: Plan, left: list[Planned[Cell]], progress: Callable[[str, float], object] | None = None
) -> Estimate:
    """Run each pair of policies on the first queries of a source, and scale that up.

    Parameters
    ----------
    planned
        The plan.
    left
        Those of its cells that are not finished.
    progress
        Called with a description and the share just finished of a pair.

    Notes
    -----
    Cost: up to about 20 seconds, most of it compilation; pairs that it does not come to are taken
    to cost the mean of the others.
    """
    tell = progress or (lambda what, done: None)
    pairs: dict[tuple[str, ...], Planned[Cell]] = {}
    for p in left:
        pairs.setdefault(_pair(p.task), p)
    samples: dict[tuple[str, ...], _Sample] = {}
    best: _Sample | None = None
    begin = time.perf_counter()
    tables = set()
    for pair, p in pairs.items():
        cell = p.task
        if time.perf_counter() - begin < BUDGET or cell.table not in tables:
            tables.add(cell.table)
            instance, _ = p.source.read()
            part = instance.prefix(SAMPLE)
            if p.needs is not None and best is None:
                best = _sample_optimum(planned.optima[p.needs], part)
            samples[pair] = _sample(cell, part)
        tell(f"sampling {cell.eviction}", 1.0)
    means = {table: _mean([s for k, s in samples.items() if k[0] == table]) for table in tables}

    def of(p: Planned[Cell]) -> _Sample:
        return samples.get(_pair(p.task), means[p.task.table])

    needed = [planned.optima[name] for name in {p.needs: 0 for p in left if p.needs is not None}]
    firsts = {p.group: of(p).compiling for p in left}
    compiling, optima = sum(firsts.values()), 0.0
    if best is not None:
        compiling += best.compiling * len(needed)
        optima = sum(best.seconds(p.weight, 1) for p in needed)
    return Estimate(
        running=sum(of(p).seconds(planned.sizes[p.source].positions, p.task.seeds) for p in left),
        compiling=compiling,
        optima=optima,
        bytes=_peak() + max((_results(planned, p) for p in left), default=0),
        sampled=len(samples),
        pairs=len(pairs),
    )


def _sample_optimum(p: Planned[OptimumTask], part: Instance) -> _Sample:
    took = []
    for _ in range(2):  # the first time compiles the replay of the schedule
        began = time.perf_counter()
        best_known(p.task, part)
        took.append(time.perf_counter() - began)
    return _Sample(took[1] / len(part.log.edge), 0.0, max(0.0, took[0] - took[1]))


def _pair(cell: Cell) -> tuple[str, ...]:
    if isinstance(cell, ClusterCell):
        return cell.table, cell.router, cell.eviction, cell.view
    return cell.table, cell.eviction


def _sample(cell: Cell, part: Instance) -> _Sample:
    few = replace(cell, seeds=min(cell.seeds, LANES))
    took, compiling = [], 0.0
    for _ in range(2):  # the second time nothing is compiled or traced
        began = time.perf_counter()
        if isinstance(few, ClusterCell):
            rows = cluster_rows(few, part)
        else:
            rows = cache_rows(few, part, Known(1.0, 1.0, "", ""))
        took.append(time.perf_counter() - began)
        compiling += rows.compile_seconds
    positions = len(part.log.edge)
    lane = rows.lane_seconds / positions / few.seeds
    return _Sample(
        (took[1] - rows.lane_seconds) / positions, lane, max(compiling, took[0] - took[1])
    )


def _mean(samples: list[_Sample]) -> _Sample:
    numbers = zip(*((s.cell, s.lane, s.compiling) for s in samples), strict=True)
    return _Sample(*(sum(some) / len(samples) for some in numbers))


def _results(planned: Plan, p: Planned[Cell]) -> int:
    each = CLUSTER_BYTES if isinstance(p.task, ClusterCell) else 4
    return planned.sizes[p.source].requests * p.task.seeds * each


def _peak() -> int:
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return told if sys.platform == "darwin" else 1024 * told
