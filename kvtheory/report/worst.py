"""The seeds on which randomised policies fared worst, with the call that runs each again."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvtheory.ratio.comparison import Comparison
from kvtheory.report.data import Lane

SHOWN = 12


@dataclass(frozen=True, eq=False)
class LaneRun:
    """The lanes of one policy at one capacity.

    Parameters
    ----------
    row
        What they come to.
    seed
        Of the key of the run.
    misses
        int64[lanes]; units.
    """

    row: Comparison
    seed: int
    misses: np.ndarray


def worst_lanes(runs: Sequence[LaneRun], shown: int = SHOWN) -> tuple[Lane, ...]:
    """The lanes with most misses of each run that has several, the largest ratios first.

    Parameters
    ----------
    runs
        Runs with one lane, whose seed means nothing, are left out.
    shown
        Lanes in all; each run has an equal share of them, at least one and at most three.
    """
    several = [run for run in runs if len(run.misses) > 1]
    each = max(1, min(3, shown // max(1, len(several))))
    lanes = []
    for run in several:
        best = run.row.optimum_high
        for lane in np.argsort(-run.misses, kind="stable")[:each].tolist():
            misses = int(run.misses[lane])
            lanes.append(
                Lane(
                    policy=run.row.policy,
                    capacity_units=run.row.capacity_units,
                    seed=run.seed,
                    lane=lane,
                    misses=misses,
                    ratio=misses / best if best > 0 else float("nan"),
                    mean_ratio=run.row.ratio,
                    replay=replay_call(run, lane),
                )
            )
    return tuple(sorted(lanes, key=lambda lane: -lane.ratio if lane.ratio == lane.ratio else 0.0))


def replay_call(run: LaneRun, lane: int) -> str:
    """Python that runs one lane of an ``instance`` again, with ``fold_in(key(seed), lane)``."""
    row = run.row
    oversize = "" if row.oversize == "error" else f", oversize={row.oversize!r}"
    call = (
        f"simulate(instance, {row.capacity_units}, policy({row.policy!r}), "
        f"key=key({run.seed}), first_seed={lane}{oversize})"
    )
    if row.kind == "asymptotic":
        return f"(run := {call}).misses - run.misses_of_first({row.requests // 2})"
    return f"{call}.misses"
