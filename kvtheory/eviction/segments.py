"""When units were loaded: runs of units of an edge that came together, a stack per edge.

The tail of the edge is on top. Units of an edge that went and came back have another history
than those that stayed, so a record per edge would not do. An edge has at most one run per unit
and at most one per use, so the stacks of all edges fit into as many slots as the log has.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int

from kvtheory.cache import Query, Scalar, Tape, once, over_path, read, write
from kvtheory.instance import Instance


class Segments(NamedTuple):
    """Runs of each edge; and of each run its first unit, its query and the record then."""

    size: Int[Array, " workers*(edges+1)"]
    begin: Int[Array, " workers*segments"]
    loaded: Int[Array, " workers*segments"]
    record: Int[Array, " workers*segments"]


def starts(instance: Instance) -> dict[str, np.ndarray]:
    """Where the stack of each edge begins, to be prepared per edge."""
    uses = np.bincount(instance.log.edge, minlength=instance.tree.edges)
    most = np.minimum(uses, instance.tree.length)
    return {"stack": np.cumsum(np.append(0, most))[:-1]}


def init(tape: Tape, workers: int) -> Segments:
    """Nothing loaded."""
    slots = jnp.zeros(workers * tape.edge.shape[0], jnp.int32)
    return Segments(jnp.zeros(workers * tape.edges, jnp.int32), slots, slots, slots)


def _slot(tape: Tape, query: Query, edge: Scalar, size: Scalar) -> Scalar:
    first = query.worker * tape.edge.shape[0] + tape.prepared.edge["stack"][edge]
    return first + jnp.maximum(size - 1, 0)


def top(of: Segments, tape: Tape, query: Query, edge: Scalar) -> tuple[Scalar, Scalar]:
    """Query that loaded the last cached unit of an edge, and the record of the edge then."""
    slot = _slot(tape, query, edge, of.size[query.base + edge])
    return of.loaded[slot], of.record[slot]


def take(
    of: Segments, tape: Tape, query: Query, edge: Scalar, cached: Scalar, units: Scalar
) -> tuple[Segments, Scalar]:
    """Take units from the tail, not beyond the top run; and how many they are."""
    at = query.base + edge
    size = of.size[at]
    begin = of.begin[_slot(tape, query, edge, size)]
    units = jnp.minimum(units, cached - begin)
    used_up = (cached - units == begin) & (units > 0)
    of, used_up, units, size = lax.optimization_barrier((of, used_up, units, size))
    return of._replace(size=write(of.size, at, size - used_up)), units


def load_path(of: Segments, tape: Tape, query: Query, record: Array) -> Segments:
    """The missing units of the path have been loaded, one run on each edge that lacked some."""

    def one(_: Scalar, edge: Scalar, of: Segments) -> Segments:
        had = query.cached_before(tape, edge)

        def push(of: Segments) -> Segments:
            size, sizes = read(of.size, query.base + edge)
            slot = _slot(tape, query, edge, size + 1)
            return Segments(
                write(sizes, query.base + edge, size + 1),
                write(of.begin, slot, had),
                write(of.loaded, slot, query.t),
                write(of.record, slot, record[query.base + edge]),
            )

        return once(had < tape.length[edge], push, of)

    return over_path(tape, query, one, of)
