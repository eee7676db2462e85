"""Routing that is PARTITION: two workers and queries as long as some numbers."""

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, whole


def partition_gadget(numbers: tuple[int, ...] = (2, 2, 2, 3, 3)) -> Instance:
    """One query at time 0 for each number, a chain of so many units, and two empty workers.

    Defeats every router in polynomial time, unless P = NP: nothing is shared, so the loads are the
    sums of the numbers on either side, and the makespan is half of the total if and only if the
    numbers can be split into two halves of equal sum. The default can, into 3 + 3 and 2 + 2 + 2,
    but greedy gets 7 instead of 6.

    Parameters
    ----------
    numbers
        At least one, each at least 1; in the text of a generator they stand between slashes.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range.

    Examples
    --------
    >>> partition_gadget((3, 1, 2)).query_length.tolist()
    [3, 1, 2]

    References
    ----------
    Karp, Reducibility among combinatorial problems, 1972.
    """
    parameters = dict(locals())
    _check(numbers)
    n = len(numbers)
    return from_runs(
        np.arange(n),
        np.arange(n + 1),
        np.array(numbers),
        arrival=np.zeros(n),
        **named("partition_gadget", parameters),
    )


def partition_gadget_cluster(numbers: tuple[int, ...] = (2, 2, 2, 3, 3)) -> Cluster:
    """The cluster of `partition_gadget`: two workers, α_miss = 1, caches that hold everything."""
    return Cluster(np.full(2, sum(numbers)), alpha_miss=1.0)  # type: ignore[arg-type]


def partition_gadget_makespan(numbers: tuple[int, ...] = (2, 2, 2, 3, 3)) -> float:
    """The least makespan of `partition_gadget`, by the sums that some of the numbers have.

    Cost: O(n · total / 64), which is not polynomial in the length of the numbers.

    Examples
    --------
    >>> partition_gadget_makespan((2, 2, 2, 3, 3)), partition_gadget_makespan((2, 2, 3))
    (6.0, 4.0)
    """
    total, sums = sum(numbers), 1
    for number in numbers:
        sums |= sums << number
    half = sums & ((1 << (total // 2 + 1)) - 1)
    return float(total - (half.bit_length() - 1))


def _check(numbers: tuple[int, ...]) -> None:
    if not numbers:
        raise bad("numbers", numbers, "must hold at least one number")
    for number in numbers:
        whole(1, numbers=number)
