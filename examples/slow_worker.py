# %% [markdown]
# # A slow worker that the router does not know of
#
# The generated shared prefixes of Wu, Silwal and Zhang (arXiv:2601.18999) on four workers, one of
# which is four times slower than configured, from the beginning or from the middle of the run on.
# LBGR learns service times from completions; without learning it believes what it was told.
#
# Run me with `python examples/slow_worker.py`; with a file behind it (slow.png), also as a figure.

# %%
import sys
from dataclasses import replace

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.cross_table import CrossRow, cross_table
from kvtheory.instances import shared_prefix
from kvtheory.report.table import Column, decimal, duration, table

BLOCK, WORKERS, SEEDS = 16, 4, 4
RATES = (8.0, 10.0, 12.0)
ROUTERS = ("lbgr:learner=none", "lbgr", "exponential_potential")

gsp = shared_prefix(block_size=BLOCK, rate=RATES[-1])
believed = Cluster(
    capacity=np.full(WORKERS, 192_000 // BLOCK),
    block_size=BLOCK,
    alpha_miss=np.full(WORKERS, 0.16e-3 * BLOCK),
)


def simulate(cluster: Cluster, rate: float) -> list[CrossRow]:
    return cross_table(gsp, cluster, ROUTERS, ["llru"], rate=rate, seeds=SEEDS, believed=believed)


# %% [markdown]
# ## Slow from the beginning, and from the middle on

# %%
body, pictures = [], []
gains: dict[tuple[str, float], float] = {}
for rate in RATES:
    middle = gsp.requests / rate / 2
    slow = {
        "always": replace(believed, speed=np.array([0.25, 1.0, 1.0, 1.0])),
        "from the middle": replace(believed, speed_changes=((middle, 0, 0.25),)),
    }
    for when, cluster in slow.items():
        rows = simulate(cluster, rate)
        gains[when, rate] = rows[0].latency_p95.mean / rows[1].latency_p95.mean
        if rate == RATES[1]:
            pictures.append((when, rows))
        for row in rows:
            numbers = (row.latency_p50.mean, row.latency_p95.mean, row.makespan.mean)
            body.append(
                [
                    f"{rate:g}",
                    when,
                    row.router,
                    decimal(row.hit_rate_units.mean, 3),
                    decimal(row.share[0], 3),
                    *map(duration, numbers),
                ]
            )
print(f"{gsp.requests} queries, {WORKERS} workers, worker 0 at a quarter of its believed speed\n")
print(
    table(
        [
            Column("queries", "per s"),
            Column("slow", right=False),
            Column("router", right=False),
            Column("hit rate"),
            Column("share of", "worker 0"),
            Column("P50", "s"),
            Column("P95", "s"),
            Column("makespan", "s"),
        ],
        body,
    )
)

# %% [markdown]
# ## What learning is worth

# %%
print("\nP95 without learning over P95 with it:")
for (when, rate), gain in gains.items():
    print(f"  slow {when}, {rate:g} queries/s: {gain:.0f}")
print(
    "\nOne worker at a quarter of its speed leaves 3.25 of 4 workers. At 12 queries/s that is\n"
    "less than the workload needs even with what LBGR hits: queues grow whatever is learned."
)

# %%
if len(sys.argv) > 1:
    from kvtheory.report.cluster_plot import latencies, legend_below
    from kvtheory.report.plot import blank, save

    picture = blank(10.0, 4.4)
    axes = picture.subplots(1, 2, sharey=True)
    for ax, (when, rows) in zip(axes, pictures, strict=True):
        latencies(rows, ax).set_title(f"slow {when}, {RATES[1]:g} queries/s")
    legend_below(picture, axes[0], 3)
    save(picture, sys.argv[1])
    print(f"\nDrawn into {sys.argv[1]}")
