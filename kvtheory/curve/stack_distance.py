"""Stack distances of leaf LRU on a tree: how many units are more recent than an edge."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from kvtheory.cache import NEVER, Scalar, Tape, add, read, write


@jax.jit
def distances(tape: Tape) -> Int[Array, " positions"]:
    """For each use of an edge, the units used after the edge was used last.

    Parameters
    ----------
    tape
        The paths, in the order in which a cache meets them.

    Returns
    -------
    int32[positions]
        Distinct units that are more recent than the top unit of the edge when the query comes;
        unit i of the edge (from 0) has i more. `NEVER` at the first use of an edge.

    Notes
    -----
    Units last used by the same query are the deepest of its path, for whoever uses a unit uses
    those above it. So they are one run of the path of the next query that meets them, and a count
    per query is enough: a Fenwick tree over the queries holds how many units each was the last
    to use.

    Cost: O(log requests) a run, at most one run an edge.
    """
    requests = tape.query_length.shape[0]
    zero = jnp.zeros((), jnp.int32)

    def upto(tree: Array, query: Scalar) -> Scalar:
        """Units last used by queries 1 … ``query``."""
        return lax.while_loop(
            lambda c: c[0] > 0, lambda c: (c[0] & (c[0] - 1), c[1] + tree[c[0]]), (query, zero)
        )[1]

    def change(tree: Array, query: Scalar, units: Scalar) -> Array:
        return lax.while_loop(
            lambda c: c[0] <= requests,
            lambda c: (c[0] + (c[0] & -c[0]), add(c[1], c[0], units)),
            (query, tree),
        )[1]

    def serve(
        carry: tuple[Array, Array, Array, Scalar], t: Scalar
    ) -> tuple[tuple[Array, Array, Array, Scalar], None]:
        user, tree, out, distinct = carry
        first = tape.start[t]

        def user_of(p: Scalar, user: Array) -> tuple[Scalar, Array]:
            return read(user, tape.edge[jnp.maximum(p, first)])

        def run(
            carry: tuple[Scalar, Scalar, Array, Array, Array],
        ) -> tuple[Scalar, Scalar, Array, Array, Array]:
            p, last, user, tree, out = carry
            newer = distinct - upto(tree, last)
            newer, tree = lax.optimization_barrier((newer, tree))

            def same(carry: tuple[Scalar, Scalar, Scalar, Array, Array]) -> Array:
                p, now, *_ = carry
                return (p >= first) & (now == last)

            def one(
                carry: tuple[Scalar, Scalar, Scalar, Array, Array],
            ) -> tuple[Scalar, Scalar, Scalar, Array, Array]:
                p, _, above, user, out = carry
                edge = tape.edge[p]
                out = write(out, p, jnp.where(last > 0, newer + above, NEVER))
                now, user = user_of(p - 1, write(user, edge, t + 1))
                return p - 1, now, above + tape.length[edge], user, out

            p, now, units, user, out = lax.while_loop(same, one, (p, last, zero, user, out))
            # query 0 stands for "not used before" and is in no sum
            tree = change(tree, jnp.where(last > 0, last, requests + 1), -units)
            return p, now, user, tree, out

        p = tape.start[t + 1] - 1
        last, user = user_of(p, user)
        _, _, user, tree, out = lax.while_loop(
            lambda c: c[0] >= first, run, (p, last, user, tree, out)
        )
        fresh = lax.fori_loop(
            first,
            tape.start[t + 1],
            lambda p, n: n + jnp.where(out[p] == NEVER, tape.length[tape.edge[p]], 0),
            zero,
        )
        tree, out = lax.optimization_barrier((tree, out))
        tree = change(tree, t + 1, tape.query_length[t])
        return (user, tree, out, distinct + fresh), None

    start = (
        jnp.zeros(tape.edges, jnp.int32),
        jnp.zeros(requests + 1, jnp.int32),
        jnp.full(tape.edge.shape[0], NEVER, jnp.int32),
        zero,
    )
    (_, _, out, _), _ = lax.scan(serve, start, jnp.arange(requests, dtype=jnp.int32))
    return out
