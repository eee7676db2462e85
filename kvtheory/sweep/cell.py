"""The cells of a sweep as frozen dataclasses: one cache, or a cluster, at one set of parameters."""

import math
from collections.abc import Callable, Collection
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from kvtheory.cluster import capacity_units
from kvtheory.dispatch import ViewName
from kvtheory.errors import InputError, bad, unknown
from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.offline.schedule import Admission
from kvtheory.oversize import Oversize
from kvtheory.parameters import label, parse_speeds
from kvtheory.ratio.empirical import Kind
from kvtheory.routing import router
from kvtheory.sweep.source import Source

MOST_SEEDS = 2**32


@dataclass(frozen=True, kw_only=True)
class CellBase:
    """What all cells have: where the requests come from, the cache, the policy and the seeds.

    Parameters
    ----------
    source, format, ids, block_size
        As for `kvtheory.instances.source`.
    capacity
        As `kvtheory.cluster.capacity_units` reads it; on a cluster that of each worker.
    eviction
        Policy with parameters. It is kept in its shortest spelling.
    oversize
        What is done with queries longer than a cache.
    seeds, seed
        Lanes, and the seed of their random streams: lane s is that of the other commands. Where
        nothing is random both are set to 1 lane of seed 0, so that equal work is one cell.

    Raises
    ------
    InputError
        For an unknown name or a bad value. What depends on the requests is checked by
        `kvtheory.sweep.plan.plan`.
    """

    table: ClassVar[str] = ""

    source: str
    format: str = "auto"
    ids: Literal["global", "local"] | None = None
    block_size: int | None = None
    capacity: str
    eviction: str
    oversize: Oversize = "error"
    seeds: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for f in fields(self):
            self._put(f.name, _typed(f.name, getattr(self, f.name), hints[f.name]))
        if self.seeds < 1:
            raise bad("seeds", self.seeds, "must be at least 1")
        if not 0 <= self.seed < MOST_SEEDS:
            raise bad("seed", self.seed, "must lie between 0 and 2^32 - 1")
        self._put("capacity", self.capacity.strip())
        capacity_units(self.capacity, _ONE)
        self._put("eviction", _shortest(policy, self.eviction))
        self._check()
        if not self.randomised:
            self._put("seeds", 1)
            self._put("seed", 0)

    def _check(self) -> None:
        pass

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def randomised(self) -> bool:
        """Whether the lanes differ."""
        return _randomised(policy, self.eviction)

    def source_of(self) -> Source:
        """Where the requests come from."""
        return Source(self.source, self.format, self.ids, self.block_size)

    def parameters(self) -> dict[str, object]:
        """The fields by name, after the table that the cell belongs to."""
        return {"table": self.table, **asdict(self)}

    def with_seed(self, seed: int) -> Self:
        """The same cell with another seed."""
        return replace(self, seed=seed)


@dataclass(frozen=True, kw_only=True)
class CacheCell(CellBase):
    """An eviction policy on one cache, beside the offline optimum.

    Parameters
    ----------
    admission
        Of the optimum; the policies always admit what they serve.
    kind
        Of the ratio. ``"strict"``: of the misses on the whole sequence. ``"asymptotic"``: of the
        increase of both over the second half.

    Examples
    --------
    >>> CacheCell(source="zipf", capacity="5%", eviction="rlt:phase=token").eviction
    'rlt'
    """

    table: ClassVar[str] = "cache"

    admission: Admission = "forced"
    kind: Kind = "strict"


@dataclass(frozen=True, kw_only=True)
class ClusterCell(CellBase):
    """A router and an eviction policy on several workers.

    Parameters
    ----------
    router
        Router with parameters, kept in its shortest spelling.
    workers, speeds
        Number of workers, and a speed for each as text, ``"1,1,0.5"``; 1 by default.
    rate
        Queries per second of Poisson arrivals: lane s draws its own with seed ``seed + s``. None:
        the arrivals of the source.
    view, view_capacity, refresh
        As in `kvtheory.simulate_cluster.simulate_cluster`.
    alpha_miss, alpha_cached, alpha_out
        Milliseconds per missed, cached and output token.
    """

    table: ClassVar[str] = "cluster"

    router: str
    workers: int = 4
    speeds: str | None = None
    rate: float | None = None
    view: ViewName = "routed"
    view_capacity: str | None = None
    refresh: float | None = None
    alpha_miss: float = 0.16
    alpha_cached: float = 0.0
    alpha_out: float = 0.0

    def _check(self) -> None:
        self._put("router", _shortest(router, self.router))
        if self.workers < 1:
            raise bad("workers", self.workers, "must be at least 1")
        for name in ("alpha_miss", "alpha_cached", "alpha_out"):
            if not 0 <= getattr(self, name) < math.inf:
                raise bad(name, getattr(self, name), "must be finite and not negative")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise bad("rate", self.rate, "must be a positive number of queries per second")
        if self.seed + self.seeds > MOST_SEEDS:
            raise bad("seed", self.seed, f"must leave room for {self.seeds} lanes below 2^32")
        if (self.view == "stale") != (self.refresh is not None):
            raise bad("refresh", self.refresh, "belongs to view = 'stale', which needs it")
        if self.refresh is not None and not 0 < self.refresh < math.inf:
            raise bad("refresh", self.refresh, "must be a positive number of seconds")
        if self.view_capacity is not None:
            if self.view != "routed":
                raise bad("view_capacity", self.view_capacity, "belongs to view = 'routed'")
            capacity_units(self.view_capacity, _ONE)
        self.speed_of_each()

    @property
    def randomised(self) -> bool:
        """Whether the lanes differ."""
        policies = ((policy, self.eviction), (router, self.router))
        return self.rate is not None or any(_randomised(*pair) for pair in policies)

    def speed_of_each(self) -> list[float] | None:
        """The speed of each worker; None if they are all 1."""
        return parse_speeds("speeds", self.speeds, self.workers)


Cell = CacheCell | ClusterCell
TABLES: dict[str, type[CellBase]] = {kind.table: kind for kind in (CacheCell, ClusterCell)}
_ONE = Instance.from_tokens([[0]], block_size=1)  # a capacity in it tells bad text from good


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


@cache
def _shortest(parse: Callable[[str], Any], text: str) -> str:
    return label(parse(text))


@cache
def _randomised(parse: Callable[[str], Any], text: str) -> bool:
    return parse(text).randomised


def _typed(name: str, value: object, hint: object) -> object:
    """The value as the type that a field wants: whole numbers may stand for others and for text."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    kind = next(k for k in kinds if k is not NoneType)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise bad(name, value, f"must be one of {', '.join(map(str, get_args(kind)))}")
        return value
    if not isinstance(value, bool):
        if isinstance(value, kind):  # type: ignore[arg-type]
            return value
        if kind is float and isinstance(value, int):
            return float(value)
        if kind is str and name in ("capacity", "view_capacity") and isinstance(value, int):
            return str(value)
    what = {int: "a whole number", float: "a number", str: "text"}[kind]  # type: ignore[index]
    raise bad(name, value, f"must be {what}")


def check_names(names: Collection[str], kind: type[CellBase]) -> None:
    """Raise `InputError` for a name that the cell does not have, and for one that it lacks."""
    wanted = {f.name: f.default is MISSING for f in fields(kind)}
    for name in names:
        if name in wanted:
            continue
        if name in {f.name for f in fields(ClusterCell)}:
            raise InputError(f"{name}: belongs to clusters; name a router")
        if name in {f.name for f in fields(CacheCell)}:
            raise InputError(f"{name}: belongs to single caches; leave the router out")
        raise unknown("parameter of a sweep", name, wanted)
    missing = [name for name, needed in wanted.items() if needed and name not in names]
    if missing:
        raise InputError(f"missing in the grid: {', '.join(missing)}")
