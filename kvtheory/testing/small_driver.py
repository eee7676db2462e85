"""The driver on tiny instances that all have one shape, with the whole cache in sight.

Everything is padded to `SMALL`, so that a policy is compiled once for all of them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Key

from kvtheory.cache import Cache, EvictionPolicy, Prepared, Scalar, Tape, tape_of
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.oversize import path_units
from kvtheory.step import State, init, serve


class Shape(NamedTuple):
    """Sizes of a padded tape; ``edges`` counts the slot for "no edge"."""

    edges: int
    positions: int
    requests: int


SMALL = Shape(edges=16, positions=64, requests=16)
WIDE = Shape(edges=32, positions=128, requests=32)

_traces = 0


class Run(NamedTuple):
    """What a run showed, query by query; a policy with records per unit sees one unit an edge.

    ``cache`` holds the arrays after each query, of all slots. ``fault`` is that of
    `kvtheory.simulate.State` and ``nan`` tells whether a policy state ever held a NaN.
    """

    instance: Instance
    hits: np.ndarray  # int32[requests]
    cache: Cache
    fault: int
    nan: bool


def run_small(
    policy: EvictionPolicy,
    instance: Instance,
    capacity: int,
    key: Key[Array, ""] | None = None,
    *,
    shape: Shape = SMALL,
    trusted: bool = False,
) -> Run:
    """Serve an instance; a query longer than the capacity is skipped.

    The driver looks for faults unless ``trusted``, whatever the policy says of itself.
    """
    (run,) = run_lanes(
        policy, instance, [capacity], [key], batching="map", shape=shape, trusted=trusted
    )
    return run


def run_lanes(
    policy: EvictionPolicy,
    instance: Instance,
    capacities: Sequence[int],
    keys: Sequence[Key[Array, ""] | None],
    *,
    batching: Literal["map", "vmap"],
    shape: Shape = SMALL,
    trusted: bool = False,
) -> list[Run]:
    """`run_small` on several lanes, each with its capacity and key."""
    seen = instance.uncompressed() if policy.per_unit else instance
    out = run_on_device(
        batching,
        trusted,
        on_device(policy),
        small_tape(policy, seen, min(capacities), shape),
        np.asarray(capacities, np.int32)[:, None],
        jnp.stack([jax.random.key(0) if key is None else key for key in keys]),
    )
    hits, cache, fault, nan = jax.tree.map(np.asarray, out)
    n = instance.requests
    return [
        Run(seen, hits[i, :n], Cache(*(a[i, :n] for a in cache)), int(fault[i]), bool(nan[i]))
        for i in range(len(keys))
    ]


def run_eagerly(
    policy: EvictionPolicy, instance: Instance, capacity: int, key: Key[Array, ""]
) -> np.ndarray:
    """int32[requests]; the hits without compilation, operation by operation."""
    seen = instance.uncompressed() if policy.per_unit else instance
    tape = small_tape(policy, seen, capacity)
    policy, size = on_device(policy), jnp.asarray([capacity], jnp.int32)
    hits = []
    with jax.disable_jit():
        state = init(policy, tape, size, key)
        for t in range(instance.requests):
            state, hit = serve(policy, tape, size, state, jnp.int32(t))
            hits.append(int(hit))
    return np.array(hits, np.int32)


def on_device(policy: EvictionPolicy) -> EvictionPolicy:
    """The policy as the driver takes it: its hyper-parameters are arrays."""
    return jax.tree.map(jnp.asarray, policy.stripped())


def small_tape(
    policy: EvictionPolicy, instance: Instance, capacity: int, shape: Shape = SMALL
) -> Tape:
    """The instance as the policy prepares it for a capacity, on the device, padded to ``shape``.

    Raises
    ------
    InputError
        If the instance is larger than that.
    """
    tape = tape_of(instance, policy.prepare(instance, path_units(instance) <= capacity))
    sizes = Shape(tape.edges, len(tape.edge), len(tape.query_length))
    if any(have > room for have, room in zip(sizes, shape, strict=True)):
        raise bad("instance", instance, f"must fit {shape._asdict()}")
    null = shape.edges - 1

    def fill(values: Any, size: int, rest: int) -> Any:
        out = np.full((size, *values.shape[1:]), rest, values.dtype)
        out[: len(values)] = np.asarray(values)
        return out

    def edges(values: Any, size: int) -> Any:
        return fill(np.where(np.asarray(values) == tape.null, null, values), size, null)

    return Tape(
        start=fill(tape.start, shape.requests + 1, int(tape.start[-1])),
        edge=edges(tape.edge, shape.positions),
        query_length=fill(tape.query_length, shape.requests, 0),
        length=fill(tape.length, shape.edges, 0),
        parent=edges(tape.parent, shape.edges),
        depth=fill(tape.depth, shape.edges, 0),
        prepared=Prepared(
            {k: fill(v, shape.positions, 0) for k, v in tape.prepared.position.items()},
            {k: fill(v, shape.edges, 0) for k, v in tape.prepared.edge.items()},
        ),
    )


@partial(jax.jit, static_argnames=("batching", "trusted"))
def run_on_device(
    batching: str,
    trusted: bool,
    policy: EvictionPolicy,
    tape: Tape,
    capacity: Int[Array, "lanes workers"],
    keys: Key[Array, " lanes"],
) -> tuple[Int[Array, "lanes requests"], Cache, Int[Array, " lanes"], Bool[Array, " lanes"]]:
    """Hits and caches after each query, the fault, and whether there was a NaN; all by lane."""
    global _traces
    _traces += 1

    def lane(args: tuple[Array, Array]) -> tuple[Array, Cache, Array, Array]:
        size, key = args

        def one(
            carry: tuple[State, Array], t: Scalar
        ) -> tuple[tuple[State, Array], tuple[Array, Cache]]:
            state, nan = carry
            state, hits = serve(policy, tape, size, state, t)
            return (state, nan | _has_nan(state.policy)), (hits, state.cache)

        first = init(policy, tape, size, key)
        requests = jnp.arange(tape.query_length.shape[0], dtype=jnp.int32)
        (state, nan), (hits, cache) = lax.scan(one, (first, _has_nan(first.policy)), requests)
        return hits, cache, state.fault, nan

    with mock.patch.object(type(policy), "trusted", trusted):
        if batching == "vmap":
            return jax.vmap(lane)((capacity, keys))
        return lax.map(lane, (capacity, keys))


def compilations() -> int:
    """How many times `run_on_device` has been compiled so far."""
    return _traces


def _has_nan(state: Any) -> Bool[Array, ""]:
    floats = [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.array([jnp.isnan(x).any() for x in floats], bool).any()
