"""Whether a router treats workers alike: another order of them in what it sees.

A driver starts with idle workers and so with ties. Here a router is shown made-up queries and
clusters whose values all differ; what it chooses is completed after a while.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key
from scipy import stats

from kvtheory.cache import Scalar, Tape, tape_of
from kvtheory.instance import Instance
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.testing.small_cluster_driver import padded_rows

WORKERS = 4
STEPS = 16
SEQUENCES = 12
IN_FLIGHT = 3  # queries between a decision and its completion
DRAWS = 512
ERROR = 1e-9 / SEQUENCES


def unlike_permuted(router: RoutingPolicy, seed: int) -> tuple[str, str] | None:
    """What is wrong and in which case, or None.

    The first decision of a randomised router is compared in law, all decisions of another one.
    """
    rng = np.random.default_rng(seed)
    instance = _instance(rng)
    orders = np.stack([rng.permutation(WORKERS) for _ in range(SEQUENCES)])
    with jax.enable_x64(True):
        tape = tape_of(instance)
        rows = padded_rows(router.prepare(instance, WORKERS), STEPS)
        shown = [_shown(rng, instance, tape) for _ in range(SEQUENCES)]
        keys = jax.random.split(jax.random.key(seed), (2, DRAWS if router.randomised else 1))
        first = 1 if router.randomised else STEPS
        both = [shown, [_permuted(s, order) for s, order in zip(shown, orders, strict=True)]]
        policy = jax.tree.map(jnp.asarray, router)
        plain, other = (
            np.asarray(_decisions(policy, tape, rows, _stacked(some), k))[:, :, :first]
            for some, k in zip(both, keys, strict=True)
        )
    for k, order in enumerate(orders):
        here, there = plain[k], order[np.clip(other[k], 0, WORKERS - 1)]
        if not router.randomised:
            wrong = np.flatnonzero(here[0] != there[0])
            if len(wrong):
                t = int(wrong[0])
                return (
                    f"query {t} goes to worker {here[0, t]}, but to what was worker {there[0, t]} "
                    f"if the workers are in the order {order.tolist()}",
                    f"seed {seed}, hits {np.asarray(shown[k].hits)[t].tolist()}, in flight "
                    f"{np.asarray(shown[k].in_flight)[t].tolist()}",
                )
            continue
        counts = np.stack([np.bincount(x.ravel(), minlength=WORKERS) for x in (here, there)])
        counts = counts[:, counts.sum(axis=0) > 0]
        if counts.shape[1] > 1 and stats.chi2_contingency(counts).pvalue < ERROR:
            return (
                f"the first query goes to the workers {counts[0].tolist()} times of {DRAWS}, but "
                f"{counts[1].tolist()} times if the workers are in the order {order.tolist()}",
                f"seed {seed}, hits {np.asarray(shown[k].hits)[0].tolist()}",
            )
    return None


def _instance(rng: np.random.Generator) -> Instance:
    # long queries, so that shares of hits differ too
    trunk = rng.integers(2, size=60).tolist()
    queries = [[*trunk[: rng.integers(20, 60)], *range(9, rng.integers(15, 50))] for _ in range(5)]
    return Instance.from_tokens([queries[k] for k in rng.integers(5, size=STEPS)])


def _shown(rng: np.random.Generator, instance: Instance, tape: Tape) -> Seen:
    """[steps, workers] of each field; each of the first queries suits one worker in all respects.

    So every worker has been used before values are drawn, and no zeros of a router are left to tie.
    """
    length = np.diff(instance.tree.depth[instance.query], prepend=0).cumsum()
    at = np.arange(STEPS)
    suits = at[:, None] == rng.permutation(WORKERS)[None, :]

    def whole(low: int, high: int, best: int | np.ndarray) -> np.ndarray:
        rows = [rng.choice(np.arange(low, high), WORKERS, replace=False) for _ in at]
        return np.where(suits, np.reshape(best, (-1, 1)), np.stack(rows)).astype(np.int32)

    def real(low: float) -> np.ndarray:
        return np.where(suits, low, low + rng.uniform(0.1, 10, (STEPS, WORKERS)))

    in_flight, pending = whole(3, 20, 0), whole(1_000, 100_000, 0)
    hits = np.stack([rng.choice(n, WORKERS, replace=False) for n in length])
    hits = np.where(suits, length[:, None], np.where(suits.any(axis=1)[:, None], hits // 9, hits))
    fields: dict[str, np.ndarray] = {
        "t": at.astype(np.int32),
        "now": np.cumsum(rng.uniform(0.5, 1.5, STEPS)),
        "length": length.astype(np.int32),
        "first": np.asarray(tape.start)[:STEPS],
        "stop": np.asarray(tape.start)[1 : STEPS + 1],
        "block_size": np.ones(STEPS, np.int32),
        "hits": hits.astype(np.int32),
        "tree": whole(1_000, 9_000, 0),
        "capacity": whole(10_000, 20_000, 20_000),
        "in_flight": in_flight,
        "queued": (in_flight * 2) // 3,
        "pending": pending,
        "waiting": pending // 2,
        "work": real(0.0),
        "true_work": real(0.0),
        "total": real(0.0),
        "service": real(0.01),
        "miss_work": real(0.005),
        "alpha_miss": rng.uniform(0.01, 0.1, (STEPS, WORKERS)),
    }
    return Seen(**{name: jnp.asarray(values) for name, values in fields.items()})


def _permuted(seen: Seen, order: np.ndarray) -> Seen:
    return jax.tree.map(lambda x: x[:, order] if x.ndim == 2 else x, seen)


def _stacked(some: list[Seen]) -> Seen:
    return jax.tree.map(lambda *x: jnp.stack(x), *some)


@partial(jax.jit)
def _decisions(
    router: RoutingPolicy,
    tape: Tape,
    prepared: dict[str, Array],
    shown: Seen,
    keys: Key[Array, " draws"],
) -> Int[Array, "sequences draws steps"]:
    def sequence(seen: Seen, key: Key[Array, ""]) -> Array:
        def event(t: Scalar, worker: Scalar, now: Array) -> Event:
            return Event(
                t=t,
                worker=worker,
                time=now,
                arrival=seen.now[t],
                before=seen.now[t],
                length=seen.length[t],
                hits=seen.hits[t, worker],
                service=seen.service[t, worker],
            )

        def one(carry: tuple, t: Scalar) -> tuple:
            state, sent = carry
            look = jax.tree.map(lambda x: x[t], seen)
            done = t - IN_FLIGHT

            def finish(state: object) -> object:
                seen_of_it = event(done, sent[done], look.now)
                state = router.first_token(state, tape, seen_of_it)
                return router.complete(state, tape, seen_of_it)

            state = lax.cond(done >= 0, finish, lambda state: state, state)
            state, worker = router.propose(state, tape, look)
            worker = jnp.clip(jnp.asarray(worker).astype(jnp.int32), 0, WORKERS - 1)
            state = router.dispatch(state, tape, look, worker)
            return (state, sent.at[t].set(worker)), None

        first = router.init(tape, WORKERS, prepared, key)
        steps = jnp.arange(STEPS, dtype=jnp.int32)
        return lax.scan(one, (first, jnp.zeros(STEPS, jnp.int32)), steps)[0][1]

    return lax.map(lambda seen: lax.map(lambda key: sequence(seen, key), keys), shown)
