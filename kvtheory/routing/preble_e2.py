"""Preble's E2: exploit a match of more than half of the query, else explore by recent load."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from kvtheory.cache import Scalar, Tape, write
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first, near_least


class PrebleState(NamedTuple):
    """What was sent when and where, the oldest query in the window, and the load in it."""

    worker: Int[Array, " requests"]
    when: Float[Array, " requests"]
    work: Float[Array, " requests"]
    oldest: Scalar
    count: Int[Array, " workers"]
    load: Float[Array, " workers"]


class PrebleE2(RoutingPolicy):
    """If h > L − h for the longest match h, the holder with the least recent load; else the least.

    The recent load of a worker are the believed seconds of the misses and the output of what was
    sent there in the last ``window`` seconds. Ties to the index.

    Parameters
    ----------
    window
        Seconds.
    """

    window: float = 180.0

    name: ClassVar[str] = "preble_e2"
    source: ClassVar[str] = "Preble, ICLR 2025"

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> PrebleState:
        requests = tape.query_length.shape[0]
        seconds = jnp.zeros(requests, float)
        zero = jnp.zeros((), jnp.int32)
        return PrebleState(
            jnp.zeros(requests, jnp.int32),
            seconds,
            seconds,
            zero,
            jnp.zeros(workers, jnp.int32),
            jnp.zeros(workers, float),
        )

    def propose(self, state: PrebleState, tape: Tape, seen: Seen) -> tuple[PrebleState, Scalar]:
        def forget(s: PrebleState) -> PrebleState:
            worker = s.worker[s.oldest]
            count = s.count.at[worker].add(-1)
            load = s.load.at[worker].add(-s.work[s.oldest])
            # what is left over of an empty window is rounding
            load = jnp.where(count == 0, 0.0, load)
            return s._replace(oldest=s.oldest + 1, count=count, load=load)

        since = seen.now - self.window
        state = lax.while_loop(
            lambda s: (s.oldest < seen.t) & (s.when[s.oldest] <= since), forget, state
        )
        longest = seen.hits.max()
        exploit = longest > seen.length - longest
        among = (seen.hits == longest) | ~exploit
        return state, first(near_least(state.load, among))

    def dispatch(self, state: PrebleState, tape: Tape, seen: Seen, worker: Scalar) -> PrebleState:
        work = seen.miss_work[worker]
        return PrebleState(
            write(state.worker, seen.t, worker),
            write(state.when, seen.t, seen.now),
            write(state.work, seen.t, work),
            state.oldest,
            state.count.at[worker].add(1),
            state.load.at[worker].add(work),
        )
