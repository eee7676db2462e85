"""The optimum of every prefix of a sequence in one online pass over its layers."""

import numpy as np

from kvtheory.cluster import capacity_units
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.oversize import Oversize, check_oversize, path_units
from kvtheory.rows import check_queries_alone


def optimum_over_time(
    instance: Instance, capacity: int | str, *, oversize: Oversize = "error"
) -> np.ndarray:
    """The fewest misses with which one cache can serve the first t queries, for every t.

    Parameters
    ----------
    instance
        The request sequence.
    capacity
        Units of the cache, or text as for `kvtheory.cluster.capacity_units`.
    oversize
        What to do with queries longer than the cache (`kvtheory.oversize`). ``"skip"`` must have
        nothing to skip: the layers do not describe it.

    Returns
    -------
    int64[n]
        OPT after each query, in units, those below a cut included. Forced admission: the served
        path must be cached, as for every policy.

    Raises
    ------
    InputError
        For a query that does not fit, or an instance with warm caches or end nodes.

    Notes
    -----
    Guarantee: exact with equal miss costs. Every prefix has its own optimal schedule; that one
    pass gives all their costs, without looking ahead, is what the layers are for
    (`kvtheory.layers.Layers`).

    Cost: amortised O(path · α) a query, one jitted scan.

    References
    ----------
    As for `kvtheory.layers.Layers`.

    Examples
    --------
    >>> cycle = Instance.from_blocks([[1], [2], [3], [4]] * 2)
    >>> optimum_over_time(cycle, 3)
    array([1, 2, 3, 4, 4, 4, 5, 5])
    """
    check_queries_alone(instance, "the optimum")
    size = capacity_units(capacity, instance)
    seen = check_oversize(instance, size, oversize)
    skipped = int((path_units(seen) > size).sum())
    if skipped:
        raise InputError(
            f"{skipped} queries are longer than the cache of {size} units, and the layers have no "
            "way to skip them: use oversize='truncate'"
        )
    from kvtheory.cache import tape_of
    from kvtheory.layers.device import increases

    each = np.asarray(increases(tape_of(seen), size))
    total = np.cumsum(each[: seen.requests], dtype=np.int64)
    return total if seen.beyond is None else total + np.cumsum(seen.beyond)
