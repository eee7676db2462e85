# %% [markdown]
# # Hard sequences: made, computed and searched for
#
# Three ways to make an eviction policy look bad, on the same broom: a path of L − 1 units with
# single units below its end. Run me with `python examples/adversary.py`.

# %%
import jax

from kvtheory.eviction import policy
from kvtheory.instances import cyclic_broom, distribution_aware, yao_uniform
from kvtheory.ratio import compare, exact, harmonic, search, to_instance

CAPACITY, LENGTH = 6, 3
k = CAPACITY - LENGTH + 1
h = float(harmonic(k))
print(
    f"B = {CAPACITY}, L = {LENGTH}: k = B − L + 1 = {k}, H_k = {h:.3f}, 2·H_k − 1 = {2 * h - 1:.3f}"
)

# %% [markdown]
# ## Made by hand
#
# One leaf more than fits, asked for in turn, is the worst case of leaf LRU. On uniform leaves every
# policy has the ratio H_k, but for luck. And against the law of a randomised policy, each query can
# be the one that it is most likely to miss.

# %%
hand_made = {
    "in turn": cyclic_broom(CAPACITY, LENGTH, rounds=400),
    "uniform": yao_uniform(CAPACITY, LENGTH, requests=4000),
    "against rlt": distribution_aware(
        "rlt", f"broom:L={LENGTH},leaves={k + 1}", CAPACITY, "leaves", 2000
    ),
}
for name, instance in hand_made.items():
    rows = compare(instance, ["llru", "rlt"], CAPACITY, seeds=16, kind="asymptotic")
    print(f"{name:12}", *(f"{row.policy} {row.ratio:.3f}  " for row in rows))

# %% [markdown]
# ## Computed
#
# On a small tree the worst case is found exactly. With two leaves more than fit, RLT has the ratio
# 2·H_k − 1, twice what is possible, up to a constant.

# %%
tree = f"broom:L={LENGTH},leaves={k + 2}"
for name in ("llru", "rlt", "lrlt"):
    worst = exact(name, tree, CAPACITY, queries="leaves")
    print(
        f"{name:5} exactly {worst.fraction}, {worst.states} states, a cycle of {len(worst.cycle)}"
    )

# %%
worst = exact("rlt", tree, CAPACITY, queries="leaves")
instance = to_instance(worst, cycles=300)
(row,) = compare(
    instance,
    ["rlt"],
    CAPACITY,
    seeds=128,
    kind="asymptotic",
    key=jax.random.key(1),
    confidence=0.999,
)
print(f"simulated on its cycle: {row.ratio:.3f} in [{row.ratio_low:.3f}, {row.ratio_high:.3f}]")
assert row.ratio_low <= worst.ratio <= row.ratio_high

# %% [markdown]
# ## Searched for
#
# Where exact is too large, an evolutionary search looks for a cycle; what it finds is a lower
# bound.

# %%
found = search(
    policy("llru"), tree, CAPACITY, queries="leaves", length=8, population=32, generations=10
)
print(f"search: {found.ratio.mean:.3f} against llru, by the cycle {list(found.cycle)}")
