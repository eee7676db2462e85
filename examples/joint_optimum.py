# %% [markdown]
# # The best that routing and eviction could have done together
#
# A small instance is solved exactly, a larger one between bounds; routers are set beside both.
#
# Run me with `python examples/joint_optimum.py`.

# %%
import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.cross_table import cross_table
from kvtheory.instances import shared_prefix
from kvtheory.offline.joint import joint_optimum

BLOCK = 64


def workers(count: int, units: int) -> Cluster:
    """Workers with 0.16 ms for a missed token."""
    return Cluster(
        np.full(count, units), block_size=BLOCK, alpha_miss=np.full(count, 0.16e-3 * BLOCK)
    )


# %% [markdown]
# ## Exact
#
# 24 prompts in 6 groups on two workers. The integer program proves that no schedule is better; the
# schedule has been carried out by the driver.

# %%
small, pair = shared_prefix(groups=6, prompts=4, block_size=BLOCK), workers(2, 150)
best = joint_optimum(small, pair, "makespan", method="mip", time_limit=10)
print(f"makespan in [{best.lower:.3f}, {best.upper:.3f}] s, {best.status}, {best.seconds:.1f} s")
print("worker of each query:", "".join(map(str, best.schedule.worker.tolist())))

# %% [markdown]
# ## Between bounds
#
# 1,536 prompts on four workers: pooled caches from below, partitions and local search from above.

# %%
large, four = shared_prefix(groups=64, prompts=24, block_size=BLOCK), workers(4, 1500)
bounds = joint_optimum(large, four, "makespan", method="pooled", time_limit=5)
print(f"makespan in [{bounds.lower:.2f}, {bounds.upper:.2f}] s: {bounds.upper / bounds.lower:.4f}")

# %% [markdown]
# ## Routers beside it
#
# All queries arrive at time 0, so that the makespan is all that counts.

# %%
routers = ["round_robin", "max_hit", "lbgr", "exponential_potential"]
rows = cross_table(large, four, routers, ["llru"], rate=1e6, seeds=1, optimum=bounds)
for row in rows:
    low, high = row.makespan.mean / bounds.upper, row.makespan.mean / bounds.lower
    print(f"{row.router:22} {row.makespan.mean:7.2f} s, {low:.3f} to {high:.3f} times the least")
