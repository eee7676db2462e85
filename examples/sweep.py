# %% [markdown]
# # A sweep: many cells, in many processes, kept as they finish
#
# How does the advantage of RLT over leaf LRU depend on the capacity, and how sure are we of it?
#
# Run me with `python examples/sweep.py`, or cell by cell in an editor that knows `# %%`. The same
# from the command line, with the grid in a file:
#
# ```toml
# [grid]
# source = "zipf:documents=500,requests=5000,levels=2,branching=8"
# capacity = ["2%", "5%", "10%", "20%", "40%"]
# eviction = ["llru", "rlt"]
# seeds = 16
# seed = [0, 1]
# ```
#
# ```bash
# kvtheory sweep grid.toml --out results --jobs 2
# ```

# %%
import tempfile
from pathlib import Path

from kvtheory.sweep import grid, load, plan, run, summary

# %% [markdown]
# ## A grid
#
# A value or a list for each parameter; all combinations are cells. L-LRU draws nothing, so that
# its two seeds are one cell.

# %%
cells = grid(
    source="zipf:documents=500,requests=5000,levels=2,branching=8",
    capacity=["2%", "5%", "10%", "20%", "40%"],
    eviction=["llru", "rlt"],
    seeds=16,
    seed=[0, 1],
)
planned = plan(cells)
print(
    f"{len(planned.cells)} cells with {planned.lanes} lanes; {planned.programs} programs to "
    f"compile; {len(planned.optima)} optima, each computed once for all policies"
)

# %% [markdown]
# ## Two processes
#
# A cell is a file as soon as it is finished, and whatever stops the sweep, those files stay. Here
# it is stopped after five cells, and goes on.

# %%
folder = Path(tempfile.mkdtemp()) / "results"
finished = 0


def stop(what: str, done: float) -> None:
    global finished
    finished += done > 0
    if finished == 5:
        raise KeyboardInterrupt


try:
    run(planned, folder, progress=stop)
except KeyboardInterrupt:
    print(f"stopped: {len(list(folder.glob('cells/*')))} cells are there")
report = run(planned, folder, executor="loky", jobs=2, resume=True)
print(f"{report.before} cells were there, {report.done} came; {len(report.failures)} failed")

# %% [markdown]
# ## The table
#
# One row for each lane, with the parameters of its cell; `.to_pandas()` makes a data frame of it.

# %%
table = load(folder)
print(f"{table.num_rows} rows of {', '.join(table.column_names)}")

# %% [markdown]
# ## Means over lanes and seeds, with intervals

# %%
for row in summary(table):
    print(
        f"{row['capacity']:>4} {row['eviction']:5} hit rate {row['hit_rate_units']:.3f}, "
        f"ratio {row['ratio']:.3f} in [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}], "
        f"lanes: {row['lanes']}"
    )
