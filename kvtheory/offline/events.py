"""What happens to each edge of each cache, as one sorted list.

An edge is loaded, read by a query that changes nothing, or changed by the schedule. What is
cached before an event is what the last load or change left, so a whole run is array work and no
step needs to be interpreted one by one.
"""

from typing import NamedTuple

import numpy as np

from kvtheory.instance import Instance
from kvtheory.next_use import query_of
from kvtheory.offline.schedule import Schedule

LOAD, READ, CHANGE = 0, 1, 2


class Events(NamedTuple):
    """Sorted by (slot, step, order inside the step); a slot is worker·edges + edge."""

    slot: np.ndarray  # int64[m]
    step: np.ndarray  # int64[m]
    kind: np.ndarray  # int8[m]
    before: np.ndarray  # int64[m]; units cached before the event
    after: np.ndarray  # int64[m]
    source: np.ndarray  # int64[m]; log position, or P + index of the change


def events_of(schedule: Schedule, instance: Instance, skipped: np.ndarray) -> Events:
    """All events of a run; ``skipped`` bool[n] are the queries that load nothing.

    Takes any schedule whose edges and workers exist; whether it can be carried out shows in
    ``before`` and ``after``.
    """
    tree, log = instance.tree, instance.log
    use_step, change_step = query_of(log), schedule.step_of()
    step = np.concatenate([use_step, change_step]).astype(np.int64)
    edge = np.concatenate([log.edge, schedule.edge]).astype(np.int64)
    slot = schedule.worker[step].astype(np.int64) * tree.edges + edge
    kind = np.full(len(step), CHANGE, np.int8)
    kind[: len(log.edge)] = np.where(skipped[use_step], READ, LOAD)
    first = kind == CHANGE if schedule.admission == "forced" else kind != CHANGE
    order = np.argsort(slot * (2 * schedule.steps) + 2 * step + ~first, kind="stable")
    slot, step, kind = slot[order], step[order], kind[order]
    left = np.concatenate([tree.length[log.edge], schedule.kept]).astype(np.int64)[order]
    writer = latest(kind != READ)
    before, after = np.zeros(len(slot), np.int64), np.zeros(len(slot), np.int64)
    known = (writer >= 0) & (slot[np.maximum(writer, 0)] == slot)
    after[known] = left[writer[known]]
    same = slot[1:] == slot[:-1]
    before[1:][same] = after[:-1][same]
    return Events(slot, step, kind, before, after, order)


def latest(mask: np.ndarray) -> np.ndarray:
    """The latest index up to each place where ``mask`` holds, −1 if there is none."""
    return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))
