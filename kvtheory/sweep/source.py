"""Where the requests of a cell come from; each is read once per process."""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kvtheory.cache import padded
from kvtheory.errors import InputError
from kvtheory.instance import Ids, Instance
from kvtheory.instances import source as read_source

KEPT = 2  # instances that a process keeps


@dataclass(frozen=True)
class Source:
    """A trace file or a generator with parameters, as for `kvtheory.instances.source`."""

    text: str
    format: str = "auto"
    ids: Ids | None = None
    block_size: int | None = None

    def absolute(self) -> "Source":
        """The same with the whole path of a file, for processes that run elsewhere."""
        if os.path.isfile(self.text):
            return replace(self, text=str(Path(self.text).resolve()))
        return self

    def read(self) -> tuple[Instance, str]:
        """The instance and its `digest`; kept for the next cell of this process."""
        file = os.stat(self.text) if os.path.isfile(self.text) else None
        return _read(self, file and (file.st_mtime_ns, file.st_size, file.st_ino))


@lru_cache(maxsize=KEPT)
def _read(source: Source, stamp: tuple[int, ...] | None) -> tuple[Instance, str]:
    instance = read_source(source.text, source.format, source.ids, source.block_size)
    return instance, digest(instance)


@dataclass(frozen=True)
class Size:
    """What a plan has to know of an instance.

    Parameters
    ----------
    digest
        SHA-256 of all that is served: tree, queries, times and lengths, not the name of the file.
    requests, positions, edges
        Queries, edges on all their paths, edges of the tree.
    units, units_distinct
        Units asked for, with repetitions and without.
    timed
        Whether it has arrival times.
    """

    digest: str
    requests: int
    positions: int
    edges: int
    units: int
    units_distinct: int
    timed: bool

    def shape(self, per_unit: bool) -> tuple[int, int, int]:
        """Padded queries, positions and edges; ``per_unit`` with one unit per edge."""
        positions, edges = self.positions, self.edges
        if per_unit:
            positions, edges = self.units, self.units_distinct
        return padded(self.requests), padded(positions), padded(edges + 1)


def size_of(instance: Instance, digest: str) -> Size:
    """The size of an instance with this digest.

    Raises
    ------
    InputError
        If it asks for nothing.
    """
    if instance.units_requested == 0:
        raise InputError(f"source {instance.name!r} asks for no units: there is nothing to cache")
    return Size(
        digest=digest,
        requests=instance.requests,
        positions=len(instance.log.edge),
        edges=instance.tree.edges,
        units=instance.units_requested,
        units_distinct=instance.tree.units,
        timed=instance.arrival is not None,
    )


def digest(instance: Instance) -> str:
    """SHA-256 of what is served; the same file elsewhere, or compressed, has the same."""
    return replace(instance, name="", source="", parameters={}).digest()
