"""Sweeps: many cells of policies, capacities and seeds, in many processes, kept as they finish.

::

    cells = grid(source="zipf:documents=500,requests=5000", capacity=["5%", "20%"],
                 eviction=["llru", "rlt", "lfu"], seeds=16)
    run(cells, "out", executor="loky", jobs=2)
    load("out").to_pandas().groupby(["eviction", "capacity"]).ratio.mean()
"""

from kvtheory.sweep.cell import CacheCell, Cell, ClusterCell
from kvtheory.sweep.grid import grid, read_grid
from kvtheory.sweep.outcome import CellFailure, PoolLost, Report
from kvtheory.sweep.plan import Plan, plan
from kvtheory.sweep.processes import share_programs
from kvtheory.sweep.runner import run
from kvtheory.sweep.summary import summary
from kvtheory.sweep.table import load

__all__ = [
    "CacheCell",
    "Cell",
    "CellFailure",
    "ClusterCell",
    "Plan",
    "PoolLost",
    "Report",
    "grid",
    "load",
    "plan",
    "read_grid",
    "run",
    "share_programs",
    "summary",
]
