# %% [markdown]
# # A router of one's own
#
# Affinity as long as it is cheap: the worker that holds most of the query, unless its work in
# flight exceeds that of the idlest worker by more than what the hits save; then the idlest.
#
# Run me with `python examples/own_router.py`.

# %%
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.cluster import Cluster
from kvtheory.cross_table import cross_table
from kvtheory.instances import shared_prefix
from kvtheory.router import RoutingPolicy, Seen
from kvtheory.routing.ties import first_least
from kvtheory.testing.check_routing import check_routing


class WorthTheWait(RoutingPolicy):
    """The worker with most hits if they are worth the wait, otherwise the one with least work."""

    patience: float = 1.0

    name: ClassVar[str] = "worth_the_wait"
    watches_prefill: ClassVar[bool] = False

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> tuple[()]:
        return ()

    def propose(self, state: tuple[()], tape: Tape, seen: Seen) -> tuple[tuple[()], Scalar]:
        most = first_least(-seen.hits, seen.work)
        idlest = first_least(seen.work, -seen.hits)
        saved = seen.alpha_miss[most] * (seen.hits[most] - seen.hits[idlest])
        waits = seen.work[most] - seen.work[idlest]
        return state, jnp.where(waits <= self.patience * saved, most, idlest)


# %% [markdown]
# ## Is it right?
#
# Every query goes to a worker that is there, the future plays no part, workers count by what is
# seen of them alone, nothing compiles anew.

# %%
report = check_routing(WorthTheWait(), examples=5)
print(f"{report.policy} passes: {', '.join(report.ran)}")

# %% [markdown]
# ## Is it good?
#
# Generated shared prefixes on four workers, near saturation.

# %%
BLOCK, WORKERS = 64, 4
instance = shared_prefix(groups=64, prompts=24, block_size=BLOCK)
cluster = Cluster(
    np.full(WORKERS, 96_000 // BLOCK),
    block_size=BLOCK,
    alpha_miss=np.full(WORKERS, 0.16e-3 * BLOCK),
)
routers = ["max_hit", "least_work_left", "lbgr", WorthTheWait(), WorthTheWait(patience=4.0)]
for row in cross_table(instance, cluster, routers, ["llru"], rate=12.0, seeds=4):
    print(
        f"{row.router:28} hit rate {row.hit_rate_units.mean:.3f}, "
        f"P50 {row.latency_p50.mean:6.2f} s, "
        f"P95 {row.latency_p95.mean:6.2f} s, makespan {row.makespan.mean:.0f} s"
    )
