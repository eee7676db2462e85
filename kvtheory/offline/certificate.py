"""Proof of a hit count by prices: weak duality of the interval LP, in numpy alone.

Every unit kept between two consecutive uses saves one miss and takes space in between. Charge
``price[r]`` for a unit of space at query r: then no cache saves more than what all space costs
plus, for each pair of consecutive uses, what is left of the saved miss after paying.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.next_use import NEVER, next_use, query_of
from kvtheory.offline.schedule import Admission, check_admission
from kvtheory.oversize import path_units

TOLERANCE = 1e-6


class Uses(NamedTuple):
    """The pairs of consecutive uses of an edge: one per log position that is used again."""

    position: np.ndarray  # int64[m]; in the log, of the earlier use
    enter: np.ndarray  # int64[m]; first query at which a kept unit takes space
    leave: np.ndarray  # int64[m]; first query at which it no longer does: that of the later use
    length: np.ndarray  # int64[m]; units of the edge


@dataclass(frozen=True, eq=False)
class Certificate:
    """Prices of cache space, and the units to keep that they show to be optimal.

    Parameters
    ----------
    price
        float64[n]; price of one unit of space while query r is served, not negative. Any such
        prices give a valid upper bound on the hits.
    kept
        float64[P] or None; for each position of the log, the units of its edge that stay until
        the next use, 0 where there is none.
    """

    price: np.ndarray
    kept: np.ndarray | None = None


class Check(NamedTuple):
    """What a certificate proves; see `check_certificate`."""

    hits: float
    bound: float
    primal: float
    dual: float
    slackness: float

    @property
    def gap(self) -> float:
        """(bound − hits) / max(1, bound)."""
        return (self.bound - self.hits) / max(1.0, self.bound)

    @property
    def ok(self) -> bool:
        """Whether everything is feasible and the gap closed, to 1e-6."""
        return max(self.primal, self.dual, self.slackness, abs(self.gap)) <= TOLERANCE


def consecutive_uses(instance: Instance, admission: Admission) -> Uses:
    """All pairs of consecutive uses of an edge.

    A unit kept between uses at queries s < t takes space at s < r < t with forced admission,
    where the path of s is cached at s anyway, and at s <= r < t with bypass.
    """
    log = instance.log
    following = next_use(log)
    position = np.flatnonzero(following != NEVER)
    owner = query_of(log)
    enter = owner[position].astype(np.int64) + (admission == "forced")
    leave = owner[following[position]].astype(np.int64)
    return Uses(position, enter, leave, instance.tree.length[log.edge[position]].astype(np.int64))


def room(instance: Instance, capacity: int, admission: Admission) -> np.ndarray:
    """int64[n]; units that may be kept across each query."""
    if admission == "bypass":
        return np.full(instance.requests, capacity, np.int64)
    return capacity - path_units(instance)


def hits_bound(price: np.ndarray, uses: Uses, space: np.ndarray) -> float:
    """Hits that no schedule exceeds, for any prices (negative ones count as 0).

    ``price`` float64[n], ``uses`` and ``space`` as `consecutive_uses` and `room` give them.
    """
    price = np.maximum(price, 0)
    left = np.maximum(0, 1 - _toll(price, uses))
    return float(price @ space + uses.length @ left)


def check_certificate(
    certificate: Certificate, instance: Instance, capacity: int, admission: Admission = "forced"
) -> Check:
    """Check primal and dual feasibility, complementary slackness and the gap from scratch.

    Parameters
    ----------
    certificate
        With prices, and the units kept.
    instance, capacity, admission
        What it is a certificate for; the instance already cut to the capacity.

    Returns
    -------
    Check
        ``hits`` of the units kept, the ``bound`` that the prices prove, and the largest
        violations: ``primal`` (a kept length outside its edge, or too little room), ``dual`` (a
        negative price), ``slackness`` (paying for room that is free, keeping a unit whose toll
        exceeds 1, or dropping one whose toll is below 1), all in units. ``ok`` if all are
        within 1e-6, the gap relative to the bound.

    Raises
    ------
    InputError
        If the arrays do not belong to the instance.
    """
    check_admission(admission)
    log, n = instance.log, instance.requests
    price = np.asarray(certificate.price, np.float64)
    if price.shape != (n,):
        raise bad("certificate.price", price.shape, f"need one price per query, {n}")
    if certificate.kept is None:
        raise bad("certificate.kept", None, "proves a bound, but no solution to compare it with")
    everywhere = np.asarray(certificate.kept, np.float64)
    if everywhere.shape != (len(log.edge),):
        raise bad("certificate.kept", everywhere.shape, f"need {len(log.edge)} values")
    for name, values in (("price", price), ("kept", everywhere)):
        if not np.isfinite(values).all():
            raise bad(f"certificate.{name}", values, "must be finite")
    uses = consecutive_uses(instance, admission)
    kept = everywhere[uses.position]
    again = np.zeros(len(everywhere), bool)
    again[uses.position] = True
    space = room(instance, capacity, admission)
    change = np.bincount(uses.enter, kept, n + 1) - np.bincount(uses.leave, kept, n + 1)
    free = space - np.cumsum(change)[:n]
    toll = _toll(price, uses)
    return Check(
        hits=float(kept.sum()),
        bound=hits_bound(price, uses, space),
        primal=_most(-kept, kept - uses.length, -free, np.abs(everywhere[~again])),
        dual=_most(-price),
        slackness=_most(price * free, kept * (toll - 1), (uses.length - kept) * (1 - toll)),
    )


def _toll(price: np.ndarray, uses: Uses) -> np.ndarray:
    """float64[m]; what one unit pays to stay between each pair of uses."""
    total = np.zeros(len(price) + 1)
    np.cumsum(price, out=total[1:])
    return total[uses.leave] - total[uses.enter]


def _most(*violations: np.ndarray) -> float:
    return max(0.0, *(float(v.max(initial=0.0)) for v in violations))
