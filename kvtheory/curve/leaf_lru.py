"""Leaf LRU at every capacity in one pass, by stack distances on the tree."""

from collections.abc import Sequence

import numpy as np

from kvtheory.cache import NEVER, tape_of
from kvtheory.curve.hit_curve import HitCurve, check_serves, largest_capacity, smallest_capacity
from kvtheory.curve.stack_distance import distances
from kvtheory.instance import Instance
from kvtheory.next_use import query_of
from kvtheory.rows import Rows, rows_of


def leaf_lru_curve(instance: Instance) -> HitCurve:
    """Hits of leaf LRU at every capacity that can serve every query.

    Parameters
    ----------
    instance
        The request sequence; warm paths and output units are served in their turn.

    Returns
    -------
    HitCurve
        Equal to `kvtheory.simulate.simulate` with ``llru`` at each capacity.

    Notes
    -----
    Guarantee: exact. Let the list of a moment be the units used so far, the latest query first
    and inside a query the shallower unit first. While every path so far has had at most B units,
    the cache of leaf LRU is the first B units of the list:

    - It is so before the first query, and stays so. A query with d <= B units moves its path to
      the front. Of the first B units of the old list at least B − d are off the path; leaf LRU
      keeps the path and, of those, the B − d foremost, for it evicts from the back and stops when
      the path fits. These are the first B units of the new list.
    - The last unit of the list that is cached and off the path is a leaf of the cached tree: its
      descendants were used no later, and at the same query stand behind it. None of them is on
      the path, which would hold the unit too.

    The list does not depend on B, so caches are nested, and a unit hits iff fewer than B units
    stand before it (`kvtheory.curve.stack_distance`). With a longer path this ends: a truncated
    query leaves units out of the list of small caches only, and a skipped one does not reorder it.

    Cost: O(path · log requests) a query, and O(units) once.

    References
    ----------
    Mattson, Gecsei, Slutz, Traiger (1970), Evaluation techniques for storage hierarchies.

    Examples
    --------
    >>> curve = leaf_lru_curve(Instance.from_tokens([[1, 2], [1, 3], [4], [1, 2]]))
    >>> curve.capacities, curve.hits
    (array([2, 3, 4]), array([2, 2, 3]))
    """
    rows, distance = _distances(instance)
    log = rows.instance.log
    length = rows.instance.tree.length[log.edge].astype(np.int64)
    known = distance != NEVER
    if rows.instance is not instance:
        asked = np.zeros(rows.instance.requests, bool)
        asked[rows.query] = True
        known &= asked[query_of(log)]
    top, length = distance[known].astype(np.int64), length[known]
    smallest = smallest_capacity(instance)
    most = largest_capacity(instance)
    # a use of an edge hits with one unit more for each capacity from top + 1 to top + length
    change = np.bincount(top + 1, minlength=most + 2) - np.bincount(
        top + length + 1, minlength=most + 2
    )
    hits = np.cumsum(np.cumsum(change))
    return HitCurve(instance, "llru", smallest, hits[smallest : most + 1])


def leaf_lru_hits(instance: Instance, capacities: Sequence[int]) -> np.ndarray:
    """Hits of every query under leaf LRU, at several capacities by one pass.

    Parameters
    ----------
    instance
        The request sequence.
    capacities
        Units, each at least that of the longest path.

    Returns
    -------
    int32[capacities, n]
        As ``hits`` of `kvtheory.result.Result`.

    Raises
    ------
    InputError
        For a smaller capacity.
    """
    check_serves(instance, capacities)
    rows, distance = _distances(instance)
    log = rows.instance.log
    length = rows.instance.tree.length[log.edge]
    total = np.zeros((len(capacities), len(log.edge) + 1), np.int64)
    for i, capacity in enumerate(capacities):
        # NEVER is more than any capacity
        np.cumsum(np.clip(capacity - distance.astype(np.int64), 0, length), out=total[i, 1:])
    hits = total[:, log.start[1:]] - total[:, log.start[:-1]]
    return hits[:, rows.query].astype(np.int32)


def _distances(instance: Instance) -> tuple[Rows, np.ndarray]:
    rows = rows_of(instance)
    distance = np.asarray(distances(tape_of(rows.instance)))
    return rows, distance[: len(rows.instance.log.edge)]
