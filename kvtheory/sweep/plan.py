"""The plan of a sweep: what is to be done, in an order that compiles early and once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from kvtheory.cluster import capacity_units
from kvtheory.errors import InputError, bad
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.oversize import check_oversize
from kvtheory.routing import router
from kvtheory.sweep.cell import CacheCell, Cell, ClusterCell
from kvtheory.sweep.cluster_rows import cluster_of
from kvtheory.sweep.identity import name_of, versions
from kvtheory.sweep.source import Size, Source, size_of
from kvtheory.sweep.work import OptimumTask


@dataclass(frozen=True)
class Planned[T]:
    """A cell, or an optimum that cells wait for.

    Parameters
    ----------
    name
        Hash of the parameters, the instance served and the versions.
    task
        The cell or the optimum.
    source, digest
        Where to read the requests from anywhere on this machine, and what they must be.
    weight
        Positions of all paths times lanes: what the time of a policy grows with.
    group
        Cells with the same one share a compiled program; −1 for an optimum.
    needs
        Name of the optimum that a cell waits for.
    """

    name: str
    task: T
    source: Source
    digest: str
    weight: int
    group: int = -1
    needs: str | None = None


@dataclass(frozen=True)
class Plan:
    """Cells in the order given, the optima they need, and the sizes of the sources."""

    cells: tuple[Planned[Cell], ...]
    optima: dict[str, Planned[OptimumTask]]
    sizes: dict[Source, Size] = field(repr=False)

    @property
    def programs(self) -> int:
        """Programs to compile for the cells. Each optimum may take one more, for its replay."""
        return len({planned.group for planned in self.cells})

    @property
    def lanes(self) -> int:
        """Lanes of all cells: the rows of the table."""
        return sum(planned.task.seeds for planned in self.cells)

    def order(self) -> list[Planned[Cell]]:
        """The cells in the order of work: by source, the first of each group before all others.

        So processes compile different programs at first, and load each other's later.
        """
        places: dict[Source, int] = {}
        for planned in self.cells:
            places.setdefault(planned.source, len(places))
        cells = sorted(self.cells, key=lambda p: (places[p.source], p.group))
        first = {planned.group: planned.name for planned in reversed(cells)}
        return sorted(cells, key=lambda p: first[p.group] != p.name)


def plan(cells: Sequence[Cell], progress: Callable[[str, float], object] | None = None) -> Plan:
    """Read every source once and check every cell against it.

    Parameters
    ----------
    cells
        As from `kvtheory.sweep.grid.grid`; equal ones count once.
    progress
        Called with a description and the share just finished of a source.

    Raises
    ------
    InputError
        For a source that cannot be read, a capacity that a query does not fit, arrival times that
        are missing, and whatever else is known before anything has run; it names the cell.

    Notes
    -----
    Cost: that of reading, no compilation.
    """
    if not cells:
        raise bad("cells", [], "name at least one")
    tell = progress or (lambda what, done: None)
    by_source: dict[Source, list[Cell]] = {}
    for cell in dict.fromkeys(cells):
        by_source.setdefault(cell.source_of(), []).append(cell)
    sizes: dict[Source, Size] = {}
    found: dict[Cell, Planned[Cell]] = {}
    optima: dict[str, Planned[OptimumTask]] = {}
    groups: dict[object, int] = {}
    for source, members in by_source.items():
        tell(f"reading {source.text}", 0.0)
        where = source.absolute()
        instance, digest = where.read()
        size = sizes[where] = size_of(instance, digest)
        for cell in members:
            try:
                capacity = _checked(cell, instance)
            except InputError as error:
                raise InputError(f"{describe(cell)}: {error}") from None
            needs = None
            if isinstance(cell, CacheCell):
                task = OptimumTask(where, capacity, cell.admission, cell.oversize, cell.kind)
                needs = name_of(
                    ["optimum", size.digest, *(getattr(task, f) for f in _OPTIMUM), versions()]
                )
                optima[needs] = Planned(needs, task, where, size.digest, size.positions)
            shape = _shape(cell, size, capacity)
            found[cell] = Planned(
                name=name_of([cell.parameters(), size.digest, versions()]),
                task=cell,
                source=where,
                digest=size.digest,
                weight=size.positions * cell.seeds,
                group=groups.setdefault(shape, len(groups)),
                needs=needs,
            )
        tell(f"reading {source.text}", 1.0)
    return Plan(tuple(found[cell] for cell in dict.fromkeys(cells)), optima, sizes)


_OPTIMUM = ("capacity", "admission", "oversize", "kind")


def describe(task: Cell | OptimumTask) -> str:
    """A cell or an optimum in a few words."""
    if isinstance(task, OptimumTask):
        return f"optimum of {task.source.text} at {task.capacity} units"
    router = "" if isinstance(task, CacheCell) else f"{task.router} with "
    seed = f", seed {task.seed}" if task.randomised else ""
    return f"{router}{task.eviction} at {task.capacity} on {task.source}{seed}"


def _checked(cell: Cell, instance: Instance) -> int:
    """The capacity in units, if the cell can run on the instance."""
    capacity = capacity_units(cell.capacity, instance)
    if cell.oversize == "error":
        check_oversize(instance, capacity, cell.oversize)
    if isinstance(cell, ClusterCell):
        cluster_of(cell, instance)
        if cell.rate is None and instance.arrival is None:
            raise InputError("the source has no arrival times: give the grid a rate")
        if cell.view_capacity is not None:
            trees = capacity_units(cell.view_capacity, instance)
            longest = int(np.append(instance.tree.depth, 0).max())
            if cell.oversize == "truncate":
                longest = min(longest, capacity)
            if trees < longest:
                rule = f"must hold the longest query, {longest} units"
                raise bad("view_capacity", cell.view_capacity, rule)
    return capacity


def _shape(cell: Cell, size: Size, capacity: int) -> object:
    """What a compiled program depends on; policies with other numbers share it."""
    eviction = policy(cell.eviction)
    alone = capacity if cell.oversize == "truncate" else None
    common = (cell.table, _structure(eviction), size.shape(eviction.per_unit), alone)
    if isinstance(cell, CacheCell):
        return (*common, cell.seeds)
    lanes = 1 if cell.rate is not None or jax.default_backend() == "cpu" else cell.seeds
    return (*common, _structure(router(cell.router)), cell.workers, cell.view, lanes)


def _structure(policy: object) -> object:
    return jax.tree.structure(policy)
