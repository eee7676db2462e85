"""The optimum at every capacity, from its values at a few."""

from collections.abc import Callable, Sequence

import numpy as np

from kvtheory.cache import tape_of
from kvtheory.curve.concave import concave
from kvtheory.curve.hit_curve import HitCurve, check_serves, largest_capacity, smallest_capacity
from kvtheory.instance import Instance
from kvtheory.layers.device import increases
from kvtheory.oversize import path_units
from kvtheory.rows import check_queries_alone


def optimum_curve(
    instance: Instance, *, progress: Callable[[int], object] | None = None
) -> HitCurve:
    """The most hits that one cache can have, at every capacity that can serve every query.

    Parameters
    ----------
    instance
        The request sequence.
    progress
        Called with 1 for each capacity at which the optimum has been computed.

    Returns
    -------
    HitCurve
        Σ|q| less the misses of `kvtheory.offline.optimum` at each capacity, forced admission.

    Raises
    ------
    InputError
        For an instance with warm caches or end nodes.

    Notes
    -----
    Guarantee: exact with equal miss costs. On units the optimum is a linear program in which the
    capacity stands on the right side only: at each query, at most B − (its units) units are kept
    across it. Its value is therefore concave in B, and its matrix is totally unimodular, so that
    at whole B the value is the optimum. A concave function is known from its values around its
    corners (`kvtheory.curve.concave`), each of which is one pass over the layers
    (`kvtheory.layers`).

    Cost: O(path · α) a query and pass; at most 6·(1 + √(2·hits)) passes, on real traces far fewer:
    211 for the 182,544 capacities of Mooncake's conversation trace.

    References
    ----------
    Belady (1966), A study of replacement algorithms for a virtual-storage computer; Mattson,
    Gecsei, Slutz, Traiger (1970), Evaluation techniques for storage hierarchies.

    Examples
    --------
    >>> curve = optimum_curve(Instance.from_blocks([[1], [2], [3], [4]] * 4))
    >>> curve.capacities, curve.hits
    (array([1, 2, 3, 4]), array([ 0,  4,  8, 12]))
    """
    check_queries_alone(instance, "the optimum")
    smallest, largest = smallest_capacity(instance), largest_capacity(instance)
    value = _passes(instance, progress)
    return HitCurve(instance, "optimum", smallest, concave(value, smallest, largest))


def optimum_hits(
    instance: Instance,
    capacities: Sequence[int],
    *,
    progress: Callable[[int], object] | None = None,
) -> np.ndarray:
    """int64[capacities]; the most hits at these capacities in units, as `optimum_curve` has them.

    One pass each: less than the whole curve for up to some three capacities a corner.

    Raises
    ------
    InputError
        For a capacity that cannot serve the longest path, or as `optimum_curve`.
    """
    check_queries_alone(instance, "the optimum")
    check_serves(instance, capacities)
    value = _passes(instance, progress)
    return np.array([value(capacity) for capacity in capacities], np.int64)


def _passes(instance: Instance, progress: Callable[[int], object] | None) -> Callable[[int], int]:
    """The most hits at a capacity, by one pass over the layers."""
    tape, units = tape_of(instance), int(path_units(instance).sum())
    used = np.zeros(instance.tree.edges, bool)
    used[instance.log.edge] = True
    distinct = int(instance.tree.length[used].sum(dtype=np.int64))

    def hits(capacity: int) -> int:
        misses = distinct  # of a cache that holds everything
        if capacity < distinct:
            each = np.asarray(increases(tape, capacity))
            misses = int(each[: instance.requests].sum(dtype=np.int64))
        if progress is not None:
            progress(1)
        return units - misses

    return hits
