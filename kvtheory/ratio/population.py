"""Many request sequences on one prefix tree, run in one compiled batch beside their optima."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from kvtheory.cache import EvictionPolicy, Prepared, Scalar, Tape, padded
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.layers.device import increases
from kvtheory.programs import program
from kvtheory.result import PolicyError
from kvtheory.step import FAULTS, OK, init, serve
from kvtheory.tree import PrefixTree


class Costs(NamedTuple):
    """What the sequences of a batch cost inside their windows, in missed units."""

    policy: np.ndarray  # int64[words, seeds]
    optimum: np.ndarray  # int64[words]


class Arena:
    """One tree, one policy and one capacity, on which batches of sequences are run.

    All sequences have ``requests`` queries, so that a batch of so many is compiled once. The
    optimum comes from the layers, in the same call.

    Parameters
    ----------
    policy
        An online eviction policy.
    tree
        The prefix tree; a query is the end of an edge.
    capacity
        B, in units; no query may have more.
    requests
        Queries of each sequence.

    Raises
    ------
    InputError
        For a policy that sees the future.
    """

    def __init__(
        self, policy: EvictionPolicy, tree: PrefixTree, capacity: int, requests: int
    ) -> None:
        if not policy.online:
            raise bad(
                "policy", policy.name, "sees the future; only online policies have worst cases"
            )
        self.policy = policy
        self.capacity = capacity
        self.requests = requests
        every = Instance(tree, np.arange(tree.edges))
        self._run = every.uncompressed() if policy.per_unit else every
        run = self._run.tree
        # the path of each query, deepest edge first, filled up with "no edge"
        null = padded(run.edges + 1) - 1
        longest = int(run.level[self._run.query].max())
        self._path = np.full((tree.edges, longest), null, np.int32)
        here = self._run.query.astype(np.int64)
        for k in range(longest):
            self._path[:, k] = np.where(here >= 0, here, null)
            here = np.where(here >= 0, run.parent[here], -1)
        self._levels = (self._path < null).sum(axis=1)
        self._null = null
        self._shared = self._tree_arrays()

    def costs(
        self,
        words: np.ndarray,
        first: np.ndarray,
        stop: np.ndarray,
        keys: Key[Array, " seeds"],
    ) -> Costs:
        """Misses of the policy on each seed, and of the optimum, from query first[w] to stop[w].

        Parameters
        ----------
        words
            int[w, requests]; edges at whose ends the queries end.
        first, stop
            int[w]; the windows.
        keys
            One per lane; all words have the same.

        Raises
        ------
        PolicyError
            If the policy breaks the rules of eviction.
        """
        arguments = (
            jax.tree.map(jnp.asarray, self.policy.stripped()),
            self._shared,
            self._written(words),
            jnp.asarray(self.capacity, jnp.int32),
            jnp.asarray(np.stack([first, stop], axis=1), jnp.int32),
            keys,
        )
        batching = "map" if jax.default_backend() == "cpu" else "vmap"
        run, _ = program(_jitted, batching, *arguments)
        policy, optimum, fault = (np.asarray(a) for a in run(*arguments))
        if (fault != OK).any():
            problem = FAULTS[int(fault[fault != OK][0])]
            raise PolicyError(f"eviction policy {self.policy.name!r} {problem}")
        return Costs(policy.astype(np.int64), optimum.astype(np.int64))

    def _tree_arrays(self) -> Tape:
        tree, null = self._run.tree, self._null

        def fill(values: np.ndarray, rest: int) -> Array:
            out = np.full(null + 1, rest, np.int32)
            out[: len(values)] = values
            return jnp.asarray(out)

        none = jnp.zeros(0, jnp.int32)
        return Tape(
            start=none,
            edge=none,
            query_length=none,
            length=fill(tree.length, 0),
            parent=fill(np.where(tree.parent < 0, null, tree.parent), null),
            depth=fill(tree.depth, 0),
            prepared=Prepared({}, {}),
        )

    def _written(self, words: np.ndarray) -> "Written":
        count, size = len(words), self.requests * self._path.shape[1]
        start = np.zeros((count, self.requests + 1), np.int32)
        np.cumsum(self._levels[words], axis=1, out=start[:, 1:])
        edge = self._path[words].reshape(count, size)
        # the paths of a word follow each other without gaps
        order = np.argsort(edge == self._null, axis=1, kind="stable")
        edge = np.take_along_axis(edge, order, axis=1)
        depth = self._run.tree.depth[self._run.query]
        return Written(start, edge, depth[words].astype(np.int32), self._prepared(words, size))

    def _prepared(self, words: np.ndarray, size: int) -> Prepared:
        """What the policy prepares for each word, if anything, padded to one shape."""
        if type(self.policy).prepare is EvictionPolicy.prepare:
            return Prepared({}, {})
        each = [
            self.policy.prepare(Instance(self._run.tree, self._run.query[word])) for word in words
        ]

        def stacked(name: str, size: int) -> dict[str, np.ndarray]:
            out = {}
            for key in getattr(each[0], name):
                rows = [np.asarray(getattr(prepared, name)[key]) for prepared in each]
                kind = np.float32 if rows[0].dtype.kind == "f" else np.int32
                out[key] = np.zeros((len(rows), size, *rows[0].shape[1:]), kind)
                for full, row in zip(out[key], rows, strict=True):
                    full[: len(row)] = row
            return out

        return Prepared(stacked("position", size), stacked("edge", self._null + 1))


class Written(NamedTuple):
    """The words as tapes: the fields of `kvtheory.cache.Tape` that differ between them."""

    start: Int[Array, "words requests+1"] | np.ndarray
    edge: Int[Array, "words positions"] | np.ndarray
    query_length: Int[Array, "words requests"] | np.ndarray
    prepared: Prepared


def _batch(
    batching: str,
    policy: EvictionPolicy,
    shared: Tape,
    written: Written,
    capacity: Scalar,
    window: Int[Array, "words 2"],
    keys: Key[Array, " seeds"],
) -> tuple[Int[Array, "words seeds"], Int[Array, " words"], Int[Array, "words seeds"]]:
    def one(args: tuple[Written, Array]) -> tuple[Array, Array, Array]:
        word, (first, stop) = args
        tape = shared._replace(**word._asdict())
        requests = jnp.arange(tape.query_length.shape[0], dtype=jnp.int32)
        inside = (requests >= first) & (requests < stop)
        size = capacity[None]

        def lane(key: Key[Array, ""]) -> tuple[Array, Array]:
            state, hits = lax.scan(
                lambda state, t: serve(policy, tape, size, state, t),
                init(policy, tape, size, key),
                requests,
            )
            return jnp.where(inside, tape.query_length - hits, 0).sum(dtype=jnp.int32), state.fault

        cost, fault = jax.vmap(lane)(keys) if batching == "vmap" else lax.map(lane, keys)
        optimum = jnp.where(inside, increases(tape, capacity), 0).sum(dtype=jnp.int32)
        return cost, optimum, fault

    if batching == "vmap":
        return jax.vmap(one)((written, window))
    return lax.map(one, (written, window))


_jitted = jax.jit(_batch, static_argnums=0)
