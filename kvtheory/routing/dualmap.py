"""DualMap: two candidate workers by two hashes of the first units."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Key

from kvtheory.cache import Scalar, Tape, once
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.hashing import digest, prefixes


class DualMapState(NamedTuple):
    """Keys of each query at each length, their workers, which are hot, and the counts so far."""

    key: Int[Array, "requests lengths"]
    pair: Int[Array, "requests lengths 2"]
    last: Int[Array, " requests"]
    hot: Bool[Array, " keys"]
    count: Int[Array, " keys"]
    total: Int[Array, ""]


class DualMap(RoutingPolicy):
    """Of two workers the one with more cached, unless too much is pending there.

    A query is hashed twice by its first units to two distinct workers. The one with more cached
    units is taken (ties: less pending, then the first hash), unless its tokens to prefill, this
    query's included, exceed ``budget``: then the one with less pending (ties: more cached, then the
    first hash). Every ``window`` queries a key that had more than 2/M of them is made twice as
    long, so that hot prefixes spread.

    Parameters
    ----------
    budget
        Tokens.
    prefix
        Units of a key at first.
    window
        Queries over which the share of a key is taken.
    """

    budget: int = 65_536
    prefix: int = eqx.field(static=True, default=4)
    window: int = 1_000

    name: ClassVar[str] = "dualmap"
    source: ClassVar[str] = "DualMap"
    watches_starts: ClassVar[bool] = False

    def __check_init__(self) -> None:
        if self.prefix < 1:
            raise bad("prefix", self.prefix, "must be at least 1 unit")

    def prepare(self, instance: Instance, workers: int) -> dict[str, Any]:
        longest = max(1, int(instance.query_length.max(initial=1)))
        lengths = [self.prefix]
        while lengths[-1] < longest:
            lengths.append(2 * lengths[-1])
        shape = (instance.requests, len(lengths))
        key, pair = np.zeros(shape, np.int32), np.zeros((*shape, 2), np.int32)
        last = np.zeros(instance.requests, np.int32)
        names: dict[tuple[int, ...], int] = {}
        pairs: list[tuple[int, int]] = []
        for t, ids in enumerate(prefixes(instance)):
            last[t] = next(k for k, n in enumerate(lengths) if n >= len(ids))
            for k in range(last[t] + 1):
                units = ids[: lengths[k]]
                if units not in names:
                    names[units] = len(names)
                    pairs.append(_pair(units, workers))
                key[t, k] = names[units]
                pair[t, k] = pairs[names[units]]
        return {"key": key, "pair": pair, "last": last}

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> DualMapState:
        keys = prepared["key"].size
        return DualMapState(
            prepared["key"],
            prepared["pair"],
            prepared["last"],
            jnp.zeros(keys, bool),
            jnp.zeros(keys, jnp.int32),
            jnp.zeros((), jnp.int32),
        )

    def propose(self, state: DualMapState, tape: Tape, seen: Seen) -> tuple[DualMapState, Scalar]:
        t = seen.t
        length = _length(state, t)
        one, two = state.pair[t, length, 0], state.pair[t, length, 1]
        hits, pending = seen.hits, seen.pending
        more = (hits[two] > hits[one]) | ((hits[two] == hits[one]) & (pending[two] < pending[one]))
        choice = jnp.where(more, two, one)
        prefill = (pending[choice] + seen.length - hits[choice]) * seen.block_size
        full = prefill > self.budget
        less = (pending[two] < pending[one]) | (
            (pending[two] == pending[one]) & (hits[two] > hits[one])
        )
        return state, jnp.where(full, jnp.where(less, two, one), choice)

    def dispatch(self, state: DualMapState, tape: Tape, seen: Seen, worker: Scalar) -> DualMapState:
        key = state.key[seen.t, _length(state, seen.t)]
        key, state = lax.optimization_barrier((key, state))
        counted = state._replace(count=state.count.at[key].add(1), total=state.total + 1)

        def lengthen(s: DualMapState) -> DualMapState:
            hot = s.hot | (s.count * seen.workers > 2 * self.window)
            return s._replace(hot=hot, count=s.count * 0, total=s.total * 0)

        return once(counted.total == self.window, lengthen, counted)


def _length(state: DualMapState, t: Scalar) -> Scalar:
    # which of its lengths the key of a query has
    return lax.while_loop(
        lambda k: (k < state.last[t]) & state.hot[state.key[t, k]],
        lambda k: k + 1,
        jnp.zeros((), jnp.int32),
    )


def _pair(units: tuple[int, ...], workers: int) -> tuple[int, int]:
    one = digest(("first", units)) % workers
    if workers == 1:
        return one, one
    return one, (one + 1 + digest(("second", units)) % (workers - 1)) % workers
