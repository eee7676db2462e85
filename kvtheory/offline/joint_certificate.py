"""Proof of a bound on every routing and eviction by prices: weak duality in numpy alone.

Charge each worker's queries, the units that stay cached and the loads by given prices. What is
left falls apart into one small choice for each query, which worker serves it, and is solved
exactly: no schedule costs less. The prices come from a solver, and need not be trusted.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance
from kvtheory.offline.joint_gaps import Costs, Gaps, joint_costs, joint_gaps, tolls
from kvtheory.offline.objective import Objective, check_objective, check_plain
from kvtheory.offline.schedule import Admission, check_admission
from kvtheory.oversize import path_units

TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class JointCertificate:
    """Prices that prove ``bound``; G gaps and K pairs of nested gaps as `joint_gaps` gives them.

    Parameters
    ----------
    space
        float64[M, n]; price of a unit of space on each worker while query r is served anywhere.
    load
        float64[M]; price of a second on each worker. For the makespan they sum to 1, otherwise
        they are all 1.
    link
        float64[M, G]; price of a unit that enters a gap because its query is served here.
    nested
        float64[M, K]; price of keeping less of an edge than of the edge below, as parts of their
        lengths; empty unless costs depend on depth.
    bound
        What the prices are said to prove.
    by_unit
        Whether the gaps are those of the uncompressed instance.

    All prices are at least 0, in the unit of the objective.
    """

    space: np.ndarray
    load: np.ndarray
    link: np.ndarray
    nested: np.ndarray
    bound: float
    by_unit: bool = False


class JointCheck(NamedTuple):
    """What the prices do prove; see `check_joint_certificate`."""

    bound: float
    negative: float
    load: float
    excess: float

    @property
    def ok(self) -> bool:
        """Whether the prices are prices, and prove what they are said to, to 1e-6."""
        scale = max(1.0, abs(self.bound))
        return max(self.negative, self.load, self.excess / scale) <= TOLERANCE


def check_joint_certificate(
    certificate: JointCertificate,
    instance: Instance,
    cluster: Cluster,
    objective: Objective,
    admission: Admission = "forced",
) -> JointCheck:
    """Compute from scratch what the prices prove.

    Parameters
    ----------
    certificate
        The prices, and the bound claimed.
    instance, cluster, objective, admission
        What it is a certificate for.

    Returns
    -------
    JointCheck
        ``bound``: no schedule has a smaller objective. ``negative``: the lowest price below 0,
        ``load``: how far the prices of load are from summing to 1 (or from 1), ``excess``: what
        is claimed beyond the bound. ``ok`` if all three are within 1e-6.

    Raises
    ------
    InputError
        If the arrays do not belong to the instance.

    Notes
    -----
    A bound that is too small is no error: any prices prove something. Negative prices count as 0.
    """
    check_objective(objective)
    check_admission(admission)
    check_plain(instance, cluster)
    deep = bool(np.any(cluster.alpha_depth)) and objective != "misses"
    if certificate.by_unit:
        instance = instance.uncompressed()
    gaps = joint_gaps(instance, deep=deep)
    costs = joint_costs(instance, cluster, gaps, objective)
    workers = cluster.workers
    shapes = {
        "space": (workers, instance.requests),
        "load": (workers,),
        "link": (workers, len(gaps.enter)),
        "nested": (workers, len(gaps.below)),
    }
    negative = 0.0
    for name, shape in shapes.items():
        values = np.asarray(getattr(certificate, name), np.float64)
        if values.shape != shape:
            raise bad(f"certificate.{name}", values.shape, f"must have the shape {shape}")
        if not np.isfinite(values).all():
            raise bad(f"certificate.{name}", values, "must be finite")
        negative = max(negative, float((-values).max(initial=0.0)))
    load = np.asarray(certificate.load, np.float64)
    off = abs(load.sum() - 1) if objective == "makespan" else np.abs(load - 1).max()
    bound = joint_bound(certificate, instance, cluster, gaps, costs, objective, admission)
    excess = certificate.bound - bound
    return JointCheck(bound, negative, float(off), float(excess) if excess == excess else np.inf)


def joint_bound(
    prices: JointCertificate,
    instance: Instance,
    cluster: Cluster,
    gaps: Gaps,
    costs: Costs,
    objective: Objective,
    admission: Admission,
) -> float:
    """An objective that no schedule goes below, for any prices (negative ones count as 0).

    Notes
    -----
    Let x_ir say that worker i serves query r, and for a gap g of ℓ units on worker i let a units be
    kept over the gap to be hit at its end t, and b units to be carried into the next gap: a <= ℓ
    x_it, b <= ℓ (1 − x_it). What is in a gap has been carried there or was on the path of its first
    query s, which i served: a_g + b_g <= Σ b of the gaps before + ℓ x_is, and the cache has room:
    used_ir <= B_i. With prices π of space, σ of links and μ of load (Σ μ = 1, and max_i P_i >= Σ
    μ_i P_i for the makespan), every schedule has an objective of at least

        Σ_ir μ_i c_ir x_ir − Σ_ig μ_i saved_ig a_ig + Σ_ir π_ir (used_ir − B_i)
          + Σ_ig σ_ig (a_ig + b_ig − Σ b before − ℓ_g x_is).

    Collected by variables, a has the coefficient A = toll + σ − μ·saved, and b has B = toll' + σ −
    σ of the next gap. At its best a is ℓ x_it if A < 0 and else 0, b likewise with 1 − x_it. So the
    minimum is a constant plus Σ_r of the coefficient of x_ir, smallest over the workers i that
    have room for query r. With prices that are optimal for the linear program it is its optimum.
    Nested gaps of an edge and the edge above add a price that one pays and the other receives.

    Cost: O(M (n + G)).
    """
    space, link, nested = (np.maximum(a, 0.0) for a in (prices.space, prices.link, prices.nested))
    load = np.maximum(prices.load, 0.0)
    if objective != "makespan":
        load = np.ones(cluster.workers)
    elif load.sum() > 0:
        load = load / load.sum()
    n, units = instance.requests, gaps.units
    hit, carried = tolls(space, gaps, admission)
    workers = range(cluster.workers)
    if nested.size:
        count = len(units)
        for i in workers:
            paid = np.bincount(gaps.below, nested[i], count)
            paid -= np.bincount(gaps.above, nested[i], count)
            hit[i] += paid / units
            carried[i] += paid / units
    then = np.where(gaps.carried, gaps.following, 0)
    from_hit = units * np.minimum(0.0, hit + link - load[:, None] * costs.saved)
    from_carried = units * np.minimum(0.0, carried + link - link[:, then]) if len(units) else hit
    from_carried = np.where(gaps.carried, from_carried, 0.0)
    charge = load[:, None] * costs.missed
    if admission == "forced":
        charge = charge + space * path_units(instance)
    for i in workers:
        charge[i] -= np.bincount(gaps.enter, units * link[i], n)
        charge[i] += np.bincount(gaps.leave, from_hit[i] - from_carried[i], n)
    charge = np.where(costs.fits, charge, np.inf)
    nowhere = np.flatnonzero(np.isinf(charge).all(axis=0))
    if len(nowhere):
        raise too_long(instance, cluster, int(nowhere[0]))
    constant = from_carried.sum() - (space * cluster.capacity[:, None]).sum()
    return float(charge.min(axis=0).sum() + constant)


def too_long(instance: Instance, cluster: Cluster, query: int) -> InputError:
    """The error for a query that is longer than every cache."""
    return InputError(
        f"query {query} has {int(path_units(instance)[query])} units and the largest cache only "
        f"{int(cluster.capacity.max())}: use a larger one, or cut the instance"
    )
