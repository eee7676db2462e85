"""An adversary that knows the law of a policy and asks each time for what hurts it most."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from kvtheory.cache import EvictionPolicy, Prepared, Scalar, Tape, padded
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.layers.units import Layers, mask_of
from kvtheory.online.growing_tape import Room, append, blank, path_array
from kvtheory.result import PolicyError
from kvtheory.step import FAULTS, OK, State, init, serve
from kvtheory.tree import PrefixTree


def worst_queries(
    policy: EvictionPolicy,
    tree: PrefixTree,
    capacity: int,
    nodes: np.ndarray,
    requests: int,
    keys: Key[Array, " seeds"],
) -> np.ndarray:
    """Queries, each the one with the largest expected miss per unit by which it raises the optimum.

    Parameters
    ----------
    policy
        An online eviction policy.
    tree, nodes
        The prefix tree, and the edges at whose ends queries may end.
    capacity
        B, in units.
    requests
        How many queries.
    keys
        Lanes of the policy; the expectation is their mean.

    Returns
    -------
    int32[requests]
        Edges of the tree. A query that raises the optimum by nothing goes before any that does; of
        equal ones the one with more misses, then the lower edge.

    Raises
    ------
    InputError
        For a policy that sees the future, or prepares something from the whole sequence.
    PolicyError
        If the policy breaks the rules of eviction.

    Notes
    -----
    Cost: one call of a compiled function a query, which serves it on all lanes and looks up all
    nodes, and O(nodes · B) operations on bit masks for the layers of the optimum.
    """
    every = Instance(tree, np.arange(tree.edges)).uncompressed()
    paths = [every.tree.path(unit) for unit in every.query[nodes].tolist()]
    masks = [mask_of(path) for path in paths]
    depth = every.tree.depth[every.query[nodes]].astype(np.int64)
    longest = int(depth.max())
    table = np.full((len(nodes), longest), padded(every.tree.edges + 1) - 1, np.int32)
    for row, path in zip(table, paths, strict=True):
        row[: len(path)] = path
    room = Room(requests, requests * longest, padded(every.tree.edges + 1), longest)
    tape = blank(room, _prepared(policy, every, room.units))
    rule = jax.tree.map(jnp.asarray, policy.stripped())
    size = jnp.asarray([capacity], jnp.int32)
    states = jax.vmap(lambda key: init(rule, tape, size, key))(keys)
    layers = Layers.init(capacity)
    expected = depth.astype(np.float64)
    word = np.empty(requests, np.int32)
    for t in range(requests):
        raises = np.array([layers.offset(mask) for mask in masks])
        pick = _worst(expected, raises)
        word[t] = nodes[pick]
        _, layers = layers.serve(paths[pick])
        path = path_array(paths[pick], longest)
        tape, states, missed = _step(
            rule, size, table, tape, states, np.int32(t), path, np.int32(depth[pick])
        )
        expected = depth - np.asarray(missed, np.float64)
    fault = int(np.asarray(states.fault).max())
    if fault != OK:
        raise PolicyError(f"eviction policy {policy.name!r} {FAULTS[fault]}")
    return word


def _worst(expected: np.ndarray, raises: np.ndarray) -> int:
    free = (raises == 0) & (expected > 0)
    if free.any():
        return int(np.argmax(np.where(free, expected, 0.0)))
    rate = np.where(raises > 0, expected / np.maximum(raises, 1), 0.0)
    return int(np.argmax(np.where(rate == rate.max(), expected, -1.0)))


def _prepared(policy: EvictionPolicy, every: Instance, units: int) -> Prepared:
    """What the policy prepares from a sequence in which each unit is used, one unit an edge."""
    if not policy.online:
        raise bad("policy", policy.name, "sees the future; only online policies have worst cases")
    prepared = policy.prepare(every)
    if prepared.position:
        raise bad("policy", policy.name, "prepares something for each use of a unit in advance")
    edge = {}
    for key, values in prepared.edge.items():
        rows = np.asarray(values)
        edge[key] = np.zeros((units, *rows.shape[1:]), np.int32)
        edge[key][: len(rows)] = rows
    return Prepared({}, jax.tree.map(jnp.asarray, edge))


@partial(jax.jit, donate_argnums=(3, 4))
def _step(
    policy: EvictionPolicy,
    capacity: Int[Array, " workers"],
    table: Int[Array, "nodes longest"],
    tape: Tape,
    states: Any,
    t: Scalar,
    path: Int[Array, " longest"],
    units: Scalar,
) -> tuple[Tape, Any, Float[Array, " nodes"]]:
    """Serve one query on all lanes; mean hits of every node after it."""
    tape = append(tape, t, path, units)

    def lane(state: State) -> tuple[State, Array]:
        state, _ = serve(policy, tape, capacity, state, t)
        return state, state.cache.cached[table].sum(axis=1)

    states, hits = lax.map(lane, states)
    return tape, states, hits.astype(float).mean(axis=0)
