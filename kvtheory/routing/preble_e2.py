"""Preble's E2: exploit a match of more than half of the query, else explore by recent load."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from kvtheory.cache import Scalar, Tape, write
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first, near_least


class PrebleState(NamedTuple):
    """What was sent when and where, query by query, and how many were; of the window the oldest
    query, and the counts and the load."""

    worker: Int[Array, " requests"]
    when: Float[Array, " requests"]
    work: Float[Array, " requests"]
    sent: Scalar
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
    watches_prefill: ClassVar[bool] = False

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
            zero,
            jnp.zeros(workers, jnp.int32),
            jnp.zeros(workers, float),
        )

    def propose(self, state: PrebleState, tape: Tape, seen: Seen) -> tuple[PrebleState, Scalar]:
        since = seen.now - self.window

        def forget(carry: tuple[Scalar, Array, Array]) -> tuple[Scalar, Array, Array]:
            oldest, count, load = carry
            worker = state.worker[oldest]
            count = count.at[worker].add(-1)
            load = load.at[worker].add(-state.work[oldest])
            # what is left over of an empty window is rounding
            return oldest + 1, count, jnp.where(count == 0, 0.0, load)

        oldest, count, load = lax.while_loop(
            lambda carry: (carry[0] < state.sent) & (state.when[carry[0]] <= since),
            forget,
            (state.oldest, state.count, state.load),
        )
        longest = seen.hits.max()
        exploit = longest > seen.length - longest
        among = (seen.hits == longest) | ~exploit
        # the notes are read before they are written
        (oldest, count, load), state = lax.optimization_barrier(((oldest, count, load), state))
        state = state._replace(oldest=oldest, count=count, load=load)
        return state, first(near_least(load, among))

    def dispatch(self, state: PrebleState, tape: Tape, seen: Seen, worker: Scalar) -> PrebleState:
        work = seen.miss_work[worker]
        return PrebleState(
            write(state.worker, state.sent, worker),
            write(state.when, state.sent, seen.now),
            write(state.work, state.sent, work),
            state.sent + 1,
            state.oldest,
            state.count.at[worker].add(1),
            state.load.at[worker].add(work),
        )
