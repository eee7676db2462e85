"""The cache on the device and the interface of an eviction policy.

Everything is flat over workers: worker w owns the slots from ``w·(edges + 1)`` on of each
per-edge array, and the last slot of each block stands for "no edge". Arrays are padded to powers
of two, so that an instance of similar size does not compile anew.
"""

import abc
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Key

from kvtheory.instance import Instance

Scalar = Int[Array, ""]
Admission = Literal["forced", "bypass"]
NEVER = np.int32(2**31 - 1)


class Prepared(NamedTuple):
    """What a policy made on the host: arrays per log position and per edge, padded with zeros."""

    position: Mapping[str, Any] = MappingProxyType({})
    edge: Mapping[str, Any] = MappingProxyType({})


class Tape(NamedTuple):
    """An instance on the device, padded; read-only during a run.

    The last edge, ``NULL``, stands for "no edge": it is the parent of an edge at the root and
    has no units. Padded queries have an empty path.
    """

    start: Int[Array, " requests+1"]
    edge: Int[Array, " positions"]
    query_length: Int[Array, " requests"]
    length: Int[Array, " edges+1"]
    parent: Int[Array, " edges+1"]
    depth: Int[Array, " edges+1"]
    prepared: Prepared

    @property
    def edges(self) -> int:
        """Slots of a per-edge array, the one for "no edge" included."""
        return self.length.shape[0]

    @property
    def null(self) -> int:
        """The edge that stands for "no edge"."""
        return self.length.shape[0] - 1


class Cache(NamedTuple):
    """What the workers hold.

    ``cached[e]`` units of edge e are cached, always a prefix of it; ``kids[e]`` edges directly
    below it hold at least one unit; ``last[e]`` is the log position of its last use, −1 if it
    was never used (older uses have smaller positions; inside a query deeper edges do).
    """

    cached: Int[Array, " workers*(edges+1)"]
    kids: Int[Array, " workers*(edges+1)"]
    last: Int[Array, " workers*(edges+1)"]
    used: Int[Array, " workers"]


class Query(NamedTuple):
    """The query being served; int32 scalars.

    ``first … stop − 1`` are the positions of its path in ``tape.edge``, deepest edge first; the
    range is empty if the query changes nothing. ``hits`` of its ``length`` units are cached and
    ``need`` units must go before the others fit. ``base`` is added to an edge to index a
    per-edge array of its ``worker``, whose cache holds ``capacity`` units, ``used`` of them.
    """

    t: Scalar
    worker: Scalar
    base: Scalar
    first: Scalar
    stop: Scalar
    length: Scalar
    hits: Scalar
    need: Scalar
    used: Scalar
    capacity: Scalar

    @property
    def misses(self) -> Scalar:
        """Units of the query that are not cached."""
        return self.length - self.hits

    @property
    def serves(self) -> Bool[Array, ""]:
        """Whether the query is not empty and fits, so that it changes the cache."""
        return self.stop > self.first

    def cached_before(self, tape: "Tape", edge: Scalar) -> Scalar:
        """Units of an edge of the path that were cached when the query came."""
        length = tape.length[edge]
        return jnp.clip(self.hits - (tape.depth[edge] - length), 0, length)


class EvictionPolicy(eqx.Module):
    """What an eviction policy provides: a state of its own and the three steps of a query.

    The fields of the module are its hyper-parameters. For each query the driver calls `touch`;
    then `evict` until `need` units are gone, and `emptied` for each edge that loses its last
    unit; then `load`. Most policies are a key per unit and derive from
    `kvtheory.eviction.keyed.KeyPolicy` instead.

    Class attributes
    ----------------
    name, source, guarantee
        As shown by ``kvtheory policies``; a policy without a guarantee is a heuristic.
    randomised
        Whether it uses its key, so that it is run on several lanes.
    online
        False if it sees the future.
    per_unit
        True if its records can differ inside an edge: it is run on one unit per edge.
    trusted
        True for a policy that `kvtheory.testing.check_eviction` has passed and whose evictions
        are so cheap that checking each victim again would show; the others are checked.
    admission
        ``"forced"``: victims go before the query is loaded and are never on its path.
        ``"bypass"``: the path is loaded first and may go as well.
    """

    name: ClassVar[str] = ""
    source: ClassVar[str] = ""
    guarantee: ClassVar[str] = "heuristic"
    randomised: ClassVar[bool] = False
    online: ClassVar[bool] = True
    per_unit: ClassVar[bool] = False
    trusted: ClassVar[bool] = False

    @property
    def admission(self) -> Admission:
        """When victims go; see the class."""
        return "forced"

    def prepare(self, instance: Instance, served: np.ndarray | None = None) -> Prepared:
        """Arrays made once on the host from the whole instance, then ``tape.prepared``.

        For policies that see the future or that need a size derived from the instance.
        ``served`` bool[n] tells which queries change the cache; None means all.
        """
        return Prepared()

    def stripped(self) -> Self:
        """The policy without fields that only `prepare` reads: what goes to the device."""
        return self

    @abc.abstractmethod
    def init(
        self, tape: Tape, workers: int, capacity: Int[Array, " workers"], key: Key[Array, ""]
    ) -> Any:
        """The state before the first query."""

    def touch(self, state: Any, tape: Tape, cache: Cache, query: Query) -> Any:
        """The query is seen: its hits are refreshed before anything is evicted for it.

        ``cache.last`` already shows this use.
        """
        return state

    @abc.abstractmethod
    def evict(
        self, state: Any, tape: Tape, cache: Cache, query: Query, need: Scalar
    ) -> tuple[Any, Scalar, Scalar]:
        """Next state, a victim edge, and how many units to take from its tail.

        Called while units must go. The edge must have no cached child and, with forced
        admission, not be on the path; the units, at most those cached, may be 0 ("none found
        yet, call again") and should not exceed ``need`` unless the policy frees whole nodes.
        """

    def emptied(
        self, state: Any, tape: Tape, cache: Cache, query: Query, edge: Scalar, need: Scalar
    ) -> Any:
        """An edge has lost its last unit, as ``cache`` shows; ``need`` more units must go.

        Its parent is a leaf now if it has no cached child left.
        """
        return state

    def unfinished(self, state: Any, query: Query) -> Bool[Array, ""] | bool:
        """Whether more must go although enough room is free (policies that free whole nodes)."""
        return False

    def load(self, state: Any, tape: Tape, cache: Cache, query: Query) -> Any:
        """The missing units have been loaded; `Query.cached_before` tells which they were."""
        return state


def padded(size: int, floor: int = 16) -> int:
    """The next power of two, at least ``floor``."""
    return max(floor, 1 << (max(size, 1) - 1).bit_length())


def tape_of(instance: Instance, prepared: Prepared | None = None, requests: int = 0) -> Tape:
    """The instance on the device, padded with empty queries, to ``requests`` or more, and edges."""
    tree, log = instance.tree, instance.log
    requests = max(requests, instance.requests)
    positions, edges = len(log.edge), tree.edges
    null = padded(edges + 1) - 1

    def fill(values: np.ndarray, size: int, rest: int) -> Array:
        out = np.full((size, *values.shape[1:]), rest, np.result_type(values.dtype, np.int8))
        out[: len(values)] = values
        return jnp.asarray(out if out.dtype.kind == "f" else out.astype(np.int32))

    prepared = prepared or Prepared()
    depth = np.append(tree.depth, 0)[instance.query]
    return Tape(
        start=fill(log.start, padded(requests) + 1, positions),
        edge=fill(log.edge, padded(positions), null),
        query_length=fill(depth, padded(requests), 0),
        length=fill(tree.length, null + 1, 0),
        parent=fill(np.where(tree.parent < 0, null, tree.parent), null + 1, null),
        depth=fill(tree.depth, null + 1, 0),
        prepared=Prepared(
            {k: fill(v, padded(positions), 0) for k, v in prepared.position.items()},
            {k: fill(v, null + 1, 0) for k, v in prepared.edge.items()},
        ),
    )


def read(array: Array, index: Scalar) -> tuple[Array, Array]:
    """``array[index]`` and the array, in an order that lets a later write happen in place.

    Without the barrier XLA copies the whole array at each step of a loop.
    """
    value = array[index]
    return lax.optimization_barrier((value, array))


def write(array: Array, index: Scalar, value: Array) -> Array:
    """``array`` with one entry set; the index must be in bounds."""
    return array.at[index].set(value, mode="promise_in_bounds")


def add(array: Array, index: Scalar, value: Array) -> Array:
    """``array`` with ``value`` added to one entry."""
    old, array = read(array, index)
    return write(array, index, old + value)


def once[T](condition: Bool[Array, ""], step: Callable[[T], T], state: T) -> T:
    """``step(state)`` if the condition holds: a loop of at most one turn, which copies nothing."""
    return lax.while_loop(
        lambda carry: carry[0],
        lambda carry: (jnp.zeros((), bool), step(carry[1])),
        (condition, state),
    )[1]


def leaf_of_path(tape: Tape, cache: Cache, query: Query) -> Scalar:
    """The edge of the path that is a leaf of the cached tree, ``tape.null`` if there is none.

    At most one is: the deepest cached one.
    """
    return over_path(
        tape,
        query,
        lambda _, e, found: jnp.where(
            (cache.cached[query.base + e] > 0) & (cache.kids[query.base + e] == 0), e, found
        ),
        jnp.int32(tape.null),
    )


def over_path[T](tape: Tape, query: Query, step: Callable[[Scalar, Scalar, T], T], state: T) -> T:
    """``step(position, edge, state)`` over the path of the query, deepest edge first."""
    return lax.fori_loop(query.first, query.stop, lambda p, s: step(p, tape.edge[p], s), state)
