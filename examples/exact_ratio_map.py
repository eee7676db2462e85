# %% [markdown]
# # A map of exact ratios: randomised eviction against leaf LRU on every small tree
#
# Every rooted forest of up to five units at every capacity, 61 pairs, solved exactly. RLT is
# usually better than leaf LRU and sometimes worse; LRLT never is.
#
# Run me with `python examples/exact_ratio_map.py`; with a file behind it (map.png), also as a
# figure of the 191 pairs of up to six units.

# %%
import sys
from fractions import Fraction

from kvtheory.ratio import exact, harmonic
from kvtheory.ratio.exact_engine import Forest
from kvtheory.ratio.exact_engine.enumerate_forests import pairs
from kvtheory.ratio.width import effective_width

POLICIES = ("llru", "rlt", "lrlt", "lrlt:stem=true")


def exactly(policy: str, forest: Forest, capacity: int) -> Fraction:
    """The ratio, which is finite for these policies."""
    fraction = exact(policy, forest, capacity).fraction
    assert fraction is not None
    return fraction


found = []
for forest, capacity in pairs(5):
    ratios = [exactly(policy, forest, capacity) for policy in POLICIES]
    found.append((forest, capacity, ratios))
print(f"{len(found)} pairs of a forest and a capacity")

# %% [markdown]
# ## Against the bounds
#
# Leaf LRU is at the effective width k on each; no randomised policy can be below H_k.

# %%
widths = [effective_width(forest.as_tree(), capacity) for forest, capacity, _ in found]
for i, policy in enumerate(POLICIES):
    at_k = sum(ratios[i] == k for k, (_, _, ratios) in zip(widths, found, strict=True))
    at_h = sum(ratios[i] == harmonic(k) for k, (_, _, ratios) in zip(widths, found, strict=True))
    worst = max(ratios[i] for _, _, ratios in found)
    print(f"{policy:15} = k on {at_k:2}, = H_k on {at_h:2}, largest {worst}")

# %% [markdown]
# ## Where RLT is worse

# %%
for forest, capacity, (llru, rlt, lrlt, _) in found:
    if rlt > llru:
        print(
            f"parents {list(forest.parents)}, B = {capacity}: rlt {rlt}, llru {llru}, lrlt {lrlt}"
        )

# %%
if len(sys.argv) > 1:
    from proofs_check.worse_map import draw

    draw(sys.argv[1])
    print(f"drawn into {sys.argv[1]}")
