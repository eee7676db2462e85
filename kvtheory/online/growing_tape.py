"""A tape that grows query by query, with one unit per edge so that no edge is ever split.

It has room for some queries, units and so on, all powers of two. When it is full a larger one
takes its place, and who uses it serves the whole log again from the start, which costs less than
it sounds: each time the log is several times as long, and the device serves millions of queries
a second.
"""

from functools import partial
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

from kvtheory.cache import Prepared, Scalar, Tape, padded, write
from kvtheory.errors import InputError, bad

MOST = 1 << 30  # of anything, so that flat indices and log positions fit 32 bits
GROWTH = 4
_EDGES = ("edge", "parent")  # fields that hold edges, "no edge" among them


class Room(NamedTuple):
    """How many queries, units on all their paths, and distinct units fit; and the longest path."""

    requests: int
    positions: int
    units: int
    longest: int

    @classmethod
    def of(cls, units: int, workers: int = 1) -> Self:
        """Room for so many distinct units, and for as much else as they are likely to need.

        Raises
        ------
        InputError
            If there are none, or they do not fit.
        """
        if not 1 <= units < MOST // max(4, workers):
            raise bad("units", units, f"must be at least 1 and below 2³⁰/{max(4, workers)}")
        size = padded(units + 1)
        return cls(max(64, size // 16), 4 * size, size, min(1024, size))

    def grown(self, requests: int, positions: int, units: int, longest: int, workers: int) -> Self:
        """Room for at least so many, the same if they fit.

        Raises
        ------
        InputError
            If they do not fit 32 bits.
        """
        needs = (requests, positions, units + 1, longest)  # one more edge stands for "no edge"
        limits = (MOST, MOST, 1 << (MOST // workers).bit_length() - 1, MOST)
        sizes = []
        for size, need, most in zip(self, needs, limits, strict=True):
            if need > most:
                raise InputError(
                    f"{requests - 1:,} queries have filled the history: {positions:,} units, or "
                    f"{units:,} distinct ones on each of {workers} workers, do not fit 30 bits; "
                    "call clear()"
                )
            while size < need:
                size = min(GROWTH * size, most)
            sizes.append(size)
        return type(self)(*sizes)


def blank(room: Room, prepared: Prepared) -> Tape:
    """A tape without queries."""
    null = room.units - 1
    return Tape(
        start=jnp.zeros(room.requests + 1, jnp.int32),
        edge=jnp.full(room.positions, null, jnp.int32),
        query_length=jnp.zeros(room.requests, jnp.int32),
        length=jnp.zeros(room.units, jnp.int32),
        parent=jnp.full(room.units, null, jnp.int32),
        depth=jnp.zeros(room.units, jnp.int32),
        prepared=prepared,
    )


def moved(old: Tape, room: Room, prepared: Prepared) -> Tape:
    """A tape with more room and the same queries."""
    new = blank(room, prepared)

    def move(field: str, kept: int) -> Array:
        now, was = np.array(getattr(new, field)), np.asarray(getattr(old, field))[:kept]
        now[:kept] = np.where(was == old.null, new.null, was) if field in _EDGES else was
        return jnp.asarray(now)

    requests, positions = old.query_length.shape[0], old.edge.shape[0]
    return Tape(
        start=move("start", requests + 1),
        edge=move("edge", positions),
        query_length=move("query_length", requests),
        length=move("length", old.null),
        parent=move("parent", old.null),
        depth=move("depth", old.null),
        prepared=prepared,
    )


def append(tape: Tape, t: Scalar, path: Int[Array | np.ndarray, " longest"], size: Scalar) -> Tape:
    """Put query ``t`` on the tape: a path of ``size`` units, the deepest first.

    To put the last query there again changes nothing.
    """
    first = tape.start[t]

    def one(i: Scalar, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        edge, length, parent, depth = arrays
        unit = path[i]
        above = jnp.where(i + 1 < size, path[i + 1], tape.null)
        return (
            write(edge, first + i, unit),
            write(length, unit, jnp.int32(1)),
            write(parent, unit, above),
            write(depth, unit, size - i),
        )

    arrays = (tape.edge, tape.length, tape.parent, tape.depth)
    edge, length, parent, depth = lax.fori_loop(0, size, one, arrays)
    return Tape(
        start=write(tape.start, t + 1, first + size),
        edge=edge,
        query_length=write(tape.query_length, t, size),
        length=length,
        parent=parent,
        depth=depth,
        prepared=tape.prepared,
    )


def path_array(path: list[int], longest: int) -> np.ndarray:
    """int32[longest]; a path from the root down as `append` takes it."""
    out = np.zeros(longest, np.int32)
    out[: len(path)] = path[::-1]
    return out


@partial(jax.jit, static_argnums=0)
def lookup(
    workers: int,
    cached: Int[Array, " workers*edges"],
    path: Int[Array, " longest"],
    size: Scalar,
) -> Int[Array, " workers"]:
    """Units of a path that each worker holds."""
    cached = cached.reshape(workers, -1)
    return lax.fori_loop(
        0, size, lambda i, units: units + cached[:, path[i]], jnp.zeros(workers, jnp.int32)
    )


def to_cpu[T](tree: T) -> T:
    """Arrays of their own on the CPU, to be donated: single decisions are no work for a GPU."""
    cpu = jax.local_devices(backend="cpu")[0]
    return jax.tree.map(lambda x: jnp.copy(jax.device_put(x, cpu)), tree)
