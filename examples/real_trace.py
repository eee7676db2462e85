# %% [markdown]
# # A real trace: hit rates, and how far they are from the best
#
# Run me with `python examples/real_trace.py TRACE`, any file that `kvtheory trace info` reads.
# Without a file I take the Mooncake conversation trace if it lies in the folder that
# KVTHEORY_TRACES names or in ../shared/traces, and otherwise a generated workload of the same kind:
# multi-turn chats in blocks of 512 tokens. I say which it is.

# %%
import os
import sys
from pathlib import Path

from kvtheory.instance import Instance
from kvtheory.instances import multi_turn
from kvtheory.ratio import compare
from kvtheory.traces import read, trace_info

NAME = "mooncake/conversation_trace.jsonl.gz"


def requests() -> Instance:
    """The trace that was asked for, or the first that is there, or a generated one."""
    if len(sys.argv) > 1:
        return read(sys.argv[1])
    above = Path(__file__).resolve().parents
    folders = [Path(os.environ.get("KVTHEORY_TRACES", ".")), above[2] / "shared" / "traces"]
    for folder in folders:
        if (folder / NAME).is_file():
            return read(folder / NAME)
    print("no trace: a generated workload takes its place; its numbers are not those of a server")
    return multi_turn(conversations=2000, turns=6, block_size=512, rate=0.3, seed=0)


instance = requests()
info = trace_info(instance)
print(instance)
print(f"from an empty cache no policy hits more than {info.ceiling_hit_rate:.4f} of the units\n")

# %% [markdown]
# ## Policies beside the optimum
#
# A real trace begins in the middle of something, so the first tenth of the queries warms the cache
# and is not counted. The optimum of the rest begins with whatever cache is best for it, so that it
# bounds every policy.

# %%
longest = int(instance.query_length.max())
capacities = [max(longest, instance.tree.units // part) for part in (100, 20, 5)]
rows = compare(
    instance,
    ["llru", "slru", "lfu", "rlt", "lrlt"],
    capacities,
    seeds=4,
    warmup=instance.requests // 10,
)
for row in rows:
    spread = "" if row.seeds == 1 else f" [{row.ratio_low:.3f}, {row.ratio_high:.3f}]"
    print(
        f"B = {row.capacity_units:6,}  {row.policy:5} hit rate {row.hit_rate_units:.4f}, "
        f"ratio {row.ratio:.3f}{spread}"
    )
