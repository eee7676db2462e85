"""The program of one cache whose units differ in value or size, and proofs by its prices."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kvtheory.instance import Instance
from kvtheory.next_use import NEVER, next_use, query_of
from kvtheory.offline.joint_gaps import joint_gaps
from kvtheory.offline.schedule import Admission
from kvtheory.offline.sparse_rows import Rows


class Pairs(NamedTuple):
    """Pairs of consecutive uses of a unit, and what keeping it in between takes and gives."""

    position: np.ndarray  # int64[m]; in the log of the uncompressed instance, of the earlier use
    enter: np.ndarray  # int64[m]; first query at which the unit takes space
    leave: np.ndarray  # int64[m]; first query at which it no longer does
    value: np.ndarray  # float64[m]
    size: np.ndarray  # int64[m]
    below: np.ndarray  # int64[K]; a pair, for each …
    above: np.ndarray  # int64[K]; … pair of the unit above within it; none without the leaf rule
    room: np.ndarray  # int64[n]; space beside the path that is served


@dataclass(frozen=True, eq=False)
class WeightedCertificate:
    """Prices that prove an upper bound on the saved value (`saved_bound`).

    Parameters
    ----------
    space
        float64[n]; price of space of size 1 while each query is served.
    nested
        float64[K]; price of keeping a unit without the one above it.
    """

    space: np.ndarray
    nested: np.ndarray


def saved_bound(certificate: WeightedCertificate, pairs: Pairs) -> float:
    """A value that no schedule saves more than, for any prices (negative ones count as 0).

    A pair pays for its space and for being kept without the unit above, and receives what pairs
    below it pay: what is left of its value, if anything, can be saved at most, beside what all
    room is worth.
    """
    price = np.maximum(certificate.space, 0)
    nested = np.maximum(certificate.nested, 0)
    total = np.zeros(len(price) + 1)
    np.cumsum(price, out=total[1:])
    left = pairs.value - pairs.size * (total[pairs.leave] - total[pairs.enter])
    left = left - np.bincount(pairs.below, nested, len(left))
    left = left + np.bincount(pairs.above, nested, len(left))
    return float(np.maximum(left, 0).sum() + price @ pairs.room)


def weighted_pairs(
    units: Instance,
    capacity: int,
    admission: Admission,
    value: np.ndarray,
    size: np.ndarray,
    leaf_rule: bool,
) -> Pairs:
    """All pairs of consecutive uses; ``units`` is uncompressed, ``value`` and ``size`` per unit."""
    log, n = units.log, units.requests
    gaps = joint_gaps(units, deep=True)
    position = np.flatnonzero(next_use(log) != NEVER)  # the order of the gaps
    forced = admission == "forced"
    path = np.bincount(query_of(log), size[log.edge], n).astype(np.int64)
    none = np.zeros(0, np.int64)
    return Pairs(
        position=position,
        enter=gaps.enter + forced,
        leave=gaps.leave,
        value=value[log.edge[position]],
        size=size[log.edge[position]],
        below=gaps.below if leaf_rule else none,
        above=gaps.above if leaf_rule else none,
        room=capacity - path if forced else np.full(n, capacity, np.int64),
    )


def weighted_program(pairs: Pairs, n: int, *, integer: bool = False) -> tuple[Any, Any, Any]:
    """The cvxpy problem (None if nothing can be kept), its z, and its constraints."""
    count = len(pairs.position)
    if count == 0:
        return None, None, None
    import cvxpy as cp

    z = cp.Variable(count, bounds=[np.zeros(count), np.ones(count)], integer=integer)
    occupancy = cp.Variable(n)  # never negative, but a bound would share in the price of room
    query = np.arange(n)
    spans = np.flatnonzero(pairs.enter < pairs.leave)
    change = Rows(count)
    size = pairs.size[spans].astype(np.float64)
    change.add(
        "starts", n, 0.0, (pairs.enter[spans], spans, size), (pairs.leave[spans], spans, -size)
    )
    step = Rows(n)
    step.add("step", n, 0.0, (query, query, 1.0), (query[1:], query[:-1], -1.0))
    constraints = [step.matrix()[0] @ occupancy == change.matrix()[0] @ z, occupancy <= pairs.room]
    if len(pairs.below):
        nested = Rows(count)
        row = np.arange(len(pairs.below))
        nested.add("nested", len(row), 0.0, (row, pairs.below, 1.0), (row, pairs.above, -1.0))
        constraints.append(nested.matrix()[0] @ z <= 0)
    problem = cp.Problem(cp.Minimize(-pairs.value @ z), constraints)
    return problem, z, constraints


def better(certificate: WeightedCertificate, limits: Any, pairs: Pairs) -> WeightedCertificate:
    """The better of a certificate and the duals of a linear program that has been solved."""
    space = limits[1].dual_value
    nested = limits[2].dual_value if len(pairs.below) else np.zeros(0)
    if space is None or nested is None:
        return certificate
    other = WeightedCertificate(
        np.maximum(np.atleast_1d(space), 0), np.maximum(np.atleast_1d(nested), 0)
    )
    if not (np.isfinite(other.space).all() and np.isfinite(other.nested).all()):
        return certificate
    return min(certificate, other, key=lambda prices: saved_bound(prices, pairs))
