# %% [markdown]
# # Quickstart: how far is an eviction policy from the optimum?
#
# Run me with `python examples/quickstart.py`, or cell by cell in an editor that knows `# %%`.

# %%
import jax

from kvtheory.instances import cyclic_broom, shared_prefix
from kvtheory.ratio import bound, compare

# %% [markdown]
# ## A request sequence
#
# 32 groups of 16 prompts; the prompts of a group share the first half of their blocks.

# %%
instance = shared_prefix(groups=32, prompts=16, block_size=16, seed=1)
print(instance)
print(f"{instance.units_requested:,} units asked for, {instance.tree.units:,} distinct")

# %% [markdown]
# ## Policies beside the optimum
#
# Deterministic policies run once; the others on 16 seeds, which is where the intervals come from.

# %%
rows = compare(
    instance,
    ["llru", "rlt", "rlt:phase=query", "fifo", "random_leaf"],
    capacities=["2%", "10%"],
    seeds=16,
    key=jax.random.key(0),
)
for row in rows:
    print(
        f"{row.policy:16} {row.capacity_units:5} units: hit rate {row.hit_rate_units:.3f}, "
        f"ratio {row.ratio:.3f} in [{row.ratio_low:.3f}, {row.ratio_high:.3f}]"
    )

# %% [markdown]
# ## The worst case of leaf LRU
#
# One leaf more than fits, asked for in turn: leaf LRU misses every time, the optimum once in
# B − L + 1 queries. The asymptotic ratio forgets the cold start, and shows the bound.

# %%
worst = cyclic_broom(capacity=8, length=3, rounds=200)
for row in compare(worst, ["llru", "rlt"], 8, kind="asymptotic"):
    print(f"{row.policy:5} asymptotic ratio {row.ratio:.3f}, bound {row.bound:.3f}")
print(bound("llru", worst, 8))
