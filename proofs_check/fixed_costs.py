"""Routers of the package on queries whose costs are given, all of them at time 0."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kvtheory.cache import tape_of
from kvtheory.instance import Instance
from kvtheory.router import RoutingPolicy, Seen


def route(router: RoutingPolicy, costs: np.ndarray) -> np.ndarray:
    """Who serves each query, if the costs do not depend on earlier routing.

    Parameters
    ----------
    router
        A policy that looks at costs and loads only.
    costs
        float[cases, n, M]; of each query on each worker.

    Returns
    -------
    int32[cases, n]
    """
    with jax.enable_x64(True):
        return np.asarray(_route(router, jnp.asarray(costs, jnp.float64)))


@partial(jax.jit, static_argnums=0)
def _route(router: RoutingPolicy, costs: Any) -> Any:
    _, n, workers = costs.shape
    tape = tape_of(Instance.from_tokens([[i] for i in range(n)]))
    one, none = jnp.int32(1), jnp.zeros(workers, jnp.int32)

    def case(rows: Any) -> Any:
        def step(carry: Any, given: Any) -> Any:
            (state, load), (t, cost) = carry, given
            seen = Seen(
                t=t,
                now=jnp.zeros(()),
                length=one,
                first=t,
                stop=t + 1,
                block_size=one,
                hits=none,
                tree=none,
                capacity=none + n,
                in_flight=none,
                queued=none,
                pending=none,
                waiting=none,
                work=load,
                true_work=load,
                total=load,
                service=cost,
                miss_work=cost,
                alpha_miss=jnp.ones(workers),
            )
            state, worker = router.propose(state, tape, seen)
            state = router.dispatch(state, tape, seen, worker)
            return (state, load.at[worker].add(cost[worker])), worker

        start = router.init(tape, workers, {}, jax.random.key(0))
        steps = (jnp.arange(n, dtype=jnp.int32), rows)
        return jax.lax.scan(step, (start, jnp.zeros(workers)), steps)[1]

    return jax.vmap(case)(costs)
