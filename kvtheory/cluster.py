"""Workers: their capacities, costs and speeds; and capacities written as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance
from kvtheory.tree import frozen


@dataclass(frozen=True, eq=False)
class Cluster:
    """M workers with their own caches. Immutable.

    Parameters
    ----------
    capacity
        int32[M]; units that each worker's cache holds, B_i.
    block_size
        Tokens in one unit; must equal that of the instance it serves.
    alpha_cached, alpha_miss
        float64[M]; seconds per cached and per missed unit of a query.
    alpha_out
        float64[M]; seconds per output token.
    overhead
        float64[M]; constant seconds per query.
    speed
        float64[M]; divides every service time on that worker.
    alpha_depth
        float64[M]; seconds that a missed unit costs more for each unit down to it, as attention
        does: a unit at depth d (1 at the root) costs α_miss + α_depth·d.
    speed_changes
        (seconds, worker, speed) triples: a service that begins on the worker then or later has
        that speed, until the next change.

    A scalar stands for the same value on every worker.
    """

    capacity: np.ndarray
    block_size: int = 1
    alpha_cached: np.ndarray = 0.0  # type: ignore[assignment]
    alpha_miss: np.ndarray = 1.0  # type: ignore[assignment]
    alpha_out: np.ndarray = 0.0  # type: ignore[assignment]
    overhead: np.ndarray = 0.0  # type: ignore[assignment]
    speed: np.ndarray = 1.0  # type: ignore[assignment]
    alpha_depth: np.ndarray = 0.0  # type: ignore[assignment]
    speed_changes: tuple[tuple[float, int, float], ...] = ()

    def __post_init__(self) -> None:
        capacity = frozen(np.atleast_1d(self.capacity), np.int32, "capacity")
        if len(capacity) == 0:
            raise bad("capacity", [], "a cluster has at least one worker")
        if (capacity < 1).any():
            i = int(np.flatnonzero(capacity < 1)[0])
            raise bad(f"capacity[{i}]", int(capacity[i]), "must be at least 1 unit")
        object.__setattr__(self, "capacity", capacity)
        if self.block_size < 1:
            raise bad("block_size", self.block_size, "must be at least 1 token")
        for key in ("alpha_cached", "alpha_miss", "alpha_out", "overhead", "speed", "alpha_depth"):
            value = np.asarray(getattr(self, key), np.float64)
            if value.ndim == 0:
                value = np.full(len(capacity), value)
            value = frozen(value, np.float64, key)
            if len(value) != len(capacity):
                raise bad(key, f"{len(value)} values", f"need one per worker, {len(capacity)}")
            if not np.isfinite(value).all() or (value < 0).any():
                raise bad(key, value.tolist(), "must be finite and not negative")
            if key == "speed" and (value == 0).any():
                raise bad(key, value.tolist(), "a worker needs a positive speed")
            object.__setattr__(self, key, value)
        changes = tuple(sorted(tuple(change) for change in self.speed_changes))
        for change in changes:
            at, worker, speed = change
            if not 0 <= worker < len(capacity):
                raise bad("speed_changes", change, f"its worker must be below {len(capacity)}")
            if not (at >= 0 and np.isfinite(at) and speed > 0 and np.isfinite(speed)):
                rule = "needs a time of at least 0 seconds and a positive speed"
                raise bad("speed_changes", change, rule)
        object.__setattr__(self, "speed_changes", changes)

    @property
    def workers(self) -> int:
        """Number of workers, M."""
        return len(self.capacity)

    def speeds_over_time(self) -> tuple[np.ndarray, np.ndarray]:
        """Times float64[K] of the changes, and speeds float64[K + 1, M] before and after each."""
        rows = [self.speed]
        for _, worker, speed in self.speed_changes:
            rows.append(rows[-1].copy())
            rows[-1][worker] = speed
        return np.array([at for at, _, _ in self.speed_changes], np.float64), np.stack(rows)


def capacity_units(capacity: int | str, instance: Instance) -> int:
    """A capacity in units of ``instance``.

    ``64`` are units; ``"5%"`` is max(1, ⌈5·(distinct units)/100⌉), in exact arithmetic;
    ``"192000tok"`` is ⌊tokens / block size⌋.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2, 3], [1, 4]], block_size=16)
    >>> [capacity_units(c, instance) for c in (3, "50%", "40tok")]
    [3, 2, 2]
    """
    rule = "must be a positive number of units (64), tokens (192000tok) or per cent (5%)"
    text = str(capacity).strip()
    try:
        if text.endswith("%"):
            share = Fraction(text[:-1].strip())
            if share <= 0:
                raise bad("capacity", capacity, rule)
            units = max(1, -(-(share * instance.tree.units) // 100))
        elif text.endswith("tok"):
            tokens = int(text[:-3])
            if 0 < tokens < instance.block_size:
                raise bad(
                    "capacity", capacity, f"is less than one block of {instance.block_size} tokens"
                )
            units = tokens // instance.block_size
        else:
            units = int(text)
    except InputError:
        raise
    except (ValueError, ZeroDivisionError):
        raise bad("capacity", capacity, rule) from None
    if units < 1 or isinstance(capacity, bool):
        raise bad("capacity", capacity, rule)
    if units >= 2**31:
        raise bad("capacity", capacity, "must fit 31 bits")
    return units


def similar_workers(
    instance: Instance,
    workers: int,
    capacity: int | str,
    *,
    alpha_miss: float,
    alpha_cached: float,
    alpha_out: float,
    speeds: Sequence[float] | None = None,
) -> Cluster:
    """Workers that differ in speed at most.

    Parameters
    ----------
    instance
        Whose block size they have, and that a capacity in per cent refers to.
    workers
        How many.
    capacity
        Of each, as `capacity_units` reads it.
    alpha_miss, alpha_cached, alpha_out
        Milliseconds per missed, cached and output token.
    speeds
        Of each; 1 by default.
    """
    size = instance.block_size
    return Cluster(
        capacity=np.full(workers, capacity_units(capacity, instance)),
        block_size=size,
        alpha_miss=np.full(workers, alpha_miss * size / 1000),
        alpha_cached=np.full(workers, alpha_cached * size / 1000),
        alpha_out=np.full(workers, alpha_out / 1000),
        speed=np.array(speeds if speeds is not None else [1.0] * workers),
    )
