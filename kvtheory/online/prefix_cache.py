"""A cache with an eviction policy, served one query at a time."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import EvictionPolicy, Prepared, Scalar, Tape
from kvtheory.errors import InputError, bad
from kvtheory.eviction import policy as eviction_policy
from kvtheory.instance import Instance
from kvtheory.online.growing_tape import Room, append, blank, lookup, moved, path_array, to_cpu
from kvtheory.online.lane import lane_key
from kvtheory.online.units import Units, ids_of
from kvtheory.oversize import MODES, Oversize
from kvtheory.result import PolicyError
from kvtheory.step import FAULTS, OK, State, init, serve


class Served(NamedTuple):
    """What a query did: its units that hit, those that missed, and units evicted for it."""

    hits: int
    misses: int
    evicted: int


class PrefixCache:
    """One cache that evicts as an eviction policy says.

    Parameters
    ----------
    policy
        A policy, or its text such as ``"rlt:phase=query"``. One that sees the future is refused.
    capacity
        Units that the cache holds.
    seed, key
        Of the random choices: ``fold_in(key, seed)``, ``key`` being ``jax.random.key(0)`` if None.
    oversize
        What a query longer than the capacity is: an ``"error"``, served on its first units
        (``"truncate"``, the others always miss), or left out of the cache (``"skip"``).
    units
        Distinct units to expect. More may come, but see the cost.

    Raises
    ------
    InputError
        For bad arguments, or a policy that is not online.

    Guarantee
    ---------
    The hits are those of lane ``seed`` of `kvtheory.simulate.simulate` on the same queries, with
    the same ``key``, on one unit per edge (`kvtheory.instance.Instance.uncompressed`).

    Notes
    -----
    Cost: O(path + evictions), some 0.3 ms for a query of 200 units, half of it whatever the length;
    on a CPU, wherever JAX would run otherwise. The first query compiles (one to three seconds). So
    does one that finds no more room, four times as much being made each time; it also serves all
    earlier queries again, which makes the result exact for any policy and costs O(1) a query on
    average.

    Memory: the whole history, 4 bytes per requested unit (16 for policies that remember when units
    were loaded), and about 300 bytes per distinct unit; up to four times that just after it has
    grown. A history of more than 2³⁰ requested units is refused; `clear` forgets it.

    Not for several threads at once.

    Examples
    --------
    >>> cache = PrefixCache("llru", capacity=4)
    >>> cache.serve([1, 2, 3])
    Served(hits=0, misses=3, evicted=0)
    >>> cache.serve([1, 2, 4, 5])
    Served(hits=2, misses=2, evicted=1)
    >>> cache.hits([1, 2, 3]), len(cache)
    (2, 4)
    """

    def __init__(
        self,
        policy: EvictionPolicy | str,
        capacity: int,
        *,
        seed: int = 0,
        key: Key[Array, ""] | None = None,
        oversize: Oversize = "error",
        units: int = 1 << 16,
    ) -> None:
        policy = eviction_policy(policy) if isinstance(policy, str) else policy
        if not isinstance(policy, EvictionPolicy):
            raise bad("policy", policy, "must be an EvictionPolicy or the text of one")
        if not policy.online:
            rule = "sees the queries to come: run it with kvtheory.simulate.simulate"
            raise bad("policy", policy.name, rule)
        if isinstance(capacity, bool) or not 1 <= capacity < 2**31:
            raise bad("capacity", capacity, "must be at least 1 unit and fit 31 bits")
        if oversize not in MODES:
            raise bad("oversize", oversize, f"must be one of {', '.join(MODES)}")
        self._room = Room.of(units)
        _check_prepared(policy)
        self.policy = policy
        self.capacity = capacity
        self._oversize = oversize
        with jax.enable_x64(False):
            self._key = lane_key(key, seed)
            self._device_policy = to_cpu(jax.tree.map(jnp.asarray, policy.stripped()))
            self._device_capacity = to_cpu(jnp.asarray([capacity], jnp.int32))
        self.clear()

    def clear(self) -> None:
        """Empty the cache and forget all queries, as if it had just been made."""
        self._units = Units()
        self._queries = self._positions = self._used = 0
        with jax.enable_x64(False):
            self._tape = to_cpu(blank(self._room, _prepared(self.policy, self._room)))
            self._state = self._blank_state()

    def __len__(self) -> int:
        """Units in the cache."""
        return self._used

    def hits(self, tokens: Sequence[int] | np.ndarray) -> int:
        """Units of a query that are cached; changes nothing."""
        path = self._units.known(ids_of(tokens)[: self._room.longest])
        query = path_array(path, self._room.longest), np.int32(len(path))
        with jax.enable_x64(False):
            return np.asarray(lookup(1, self._state.cache.cached, *query)).item()

    def serve(self, tokens: Sequence[int] | np.ndarray) -> Served:
        """Serve a query, given by the ids of its units from the root down.

        Raises
        ------
        InputError
            If they are no integers, or more than the capacity unless ``oversize`` allows it.
        PolicyError
            If the policy breaks the rules of eviction.
        """
        ids = ids_of(tokens)
        length = len(ids)
        if length > self.capacity:
            if self._oversize == "error":
                rule = f"longer than the cache of {self.capacity} units; see oversize="
                raise bad("len(tokens)", length, rule)
            if self._oversize == "truncate":
                ids = ids[: self.capacity]
        hits, used = self._advance(ids)
        evicted = 0 if len(ids) > self.capacity else self._used + len(ids) - hits - used
        self._used = used
        return Served(hits, length - hits, evicted)

    def _advance(self, ids: list[int]) -> tuple[int, int]:
        """Put a query on the tape and serve it: its hits, and the units cached then."""
        t, positions, path = self._queries, self._positions + len(ids), self._units.path(ids)
        room = self._room.grown(t + 1, positions, len(self._units), len(ids), 1)
        with jax.enable_x64(False):
            if room != self._room:
                self._tape = to_cpu(moved(self._tape, room, _prepared(self.policy, room)))
                self._room, self._state = room, self._blank_state()
                first = 0
            else:
                first = t
            self._tape, self._state, report = _serve(
                self._device_policy,
                self._tape,
                self._state,
                self._device_capacity,
                path_array(path, room.longest),
                np.array([first, t, len(ids)], np.int32),
            )
        self._queries, self._positions = t + 1, positions
        hits, used, fault = np.asarray(report).tolist()
        if fault != OK:
            raise PolicyError(f"eviction policy {self.policy.name!r} {FAULTS[fault]}")
        return hits, used

    def _blank_state(self) -> State:
        return to_cpu(init(self._device_policy, self._tape, self._device_capacity, self._key))


@partial(jax.jit, donate_argnums=(1, 2))
def _serve(
    policy: EvictionPolicy,
    tape: Tape,
    state: State,
    capacity: Int[Array, " 1"],
    path: Int[Array, " longest"],
    numbers: Int[Array, " 3"],
) -> tuple[Tape, State, Int[Array, " 3"]]:
    """Put query ``t`` on the tape, serve ``first`` … ``t``; hits of the last, units used, fault."""
    first, t, size = numbers
    tape = append(tape, t, path, size)

    def one(i: Scalar, carry: tuple[State, Scalar]) -> tuple[State, Scalar]:
        return serve(policy, tape, capacity, carry[0], i)

    state, hits = lax.fori_loop(first, t + 1, one, (state, jnp.zeros((), jnp.int32)))
    return tape, state, jnp.stack([hits, state.cache.used[0], state.fault])


def _prepared(policy: EvictionPolicy, room: Room) -> Prepared:
    """What the policy prepares per edge when every edge is one unit."""
    if type(policy).prepare is EvictionPolicy.prepare:
        return Prepared({}, {})
    units = room.units - 1
    edge = policy.prepare(Instance.from_flat(np.arange(units), np.arange(units + 1))).edge
    return Prepared({}, {name: _with_null(a) for name, a in edge.items()})


def _with_null(array: np.ndarray) -> np.ndarray:
    full = np.concatenate([array, np.zeros_like(array[:1])])
    return full if full.dtype.kind == "f" else full.astype(np.int32)


def _check_prepared(policy: EvictionPolicy) -> None:
    """Raise InputError if what a policy prepares depends on the queries to come.

    Arrays per edge may depend on the lengths of edges, which are all 1, but not on the tree.
    """
    star = policy.prepare(Instance.from_tokens([[0], [1], [2]]))
    chain = policy.prepare(Instance.from_tokens([[0], [0, 1], [0, 1, 2], [0, 1]]))
    alike = star.edge.keys() == chain.edge.keys() and all(
        np.array_equal(star.edge[name], chain.edge[name]) for name in star.edge
    )
    if star.position or chain.position or not alike:
        raise InputError(
            f"eviction policy {policy.name!r} prepares arrays from the whole sequence of queries: "
            "run it with kvtheory.simulate.simulate"
        )
