"""Lower bounds on every routing and eviction: one pooled cache, and work that cannot be avoided."""

from typing import NamedTuple

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.next_use import query_of
from kvtheory.offline.belady import belady
from kvtheory.offline.objective import Objective, check_objective, check_plain, service
from kvtheory.offline.schedule import Admission, check_admission
from kvtheory.oversize import path_units


class Bound(NamedTuple):
    """No schedule has a smaller objective than ``value``, but for rounding (1e-9, relative)."""

    name: str
    value: int | float


class Work(NamedTuple):
    """What a query costs at least, wherever it goes: seconds, ∞ on a worker that it does not fit.

    With k misses beyond its ``compulsory`` ones, 0 <= k <= ``again``, query j on worker i costs at
    least ``least[i, j] + k * extra[i, j]``.
    """

    compulsory: np.ndarray  # int64[n]; units never asked for before: missed on any worker
    again: np.ndarray  # int64[n]; the other units
    least: np.ndarray  # float64[M, n]
    extra: np.ndarray  # float64[M, n], not negative


def lower_bounds(
    instance: Instance, cluster: Cluster, objective: Objective, admission: Admission = "forced"
) -> list[Bound]:
    """Everything proved here about an objective, the largest bound first.

    Parameters
    ----------
    instance
        The request sequence, without queries longer than every cache.
    cluster
        The workers.
    objective
        ``"misses"`` in units, ``"cost"`` or ``"makespan"`` in seconds.
    admission
        ``"forced"`` or ``"bypass"``.

    Returns
    -------
    list of Bound
        For ``misses``: ``compulsory`` (first uses) and ``pooled`` (`pooled_misses`). For ``cost``
        and ``makespan``: ``unavoidable`` and ``pooled``, the relaxation of `priced_bound` without
        and with the pooled misses; for ``makespan`` also ``longest query`` and ``longest queries``
        (`longest_queries`).

    Raises
    ------
    InputError
        For a query that fits no worker, or what `check_plain` refuses.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2], [3, 4], [5, 6], [1, 2]])
    >>> for bound in lower_bounds(instance, Cluster([2, 2]), "makespan"):
    ...     print(bound.name, bound.value)
    longest queries 4.0
    pooled 3.0
    unavoidable 3.0
    longest query 2.0
    """
    check_objective(objective)
    check_admission(admission)
    check_plain(instance, cluster)
    work = unavoidable(instance, cluster)
    first = int(work.compulsory.sum())
    pooled = pooled_misses(instance, cluster, admission)
    if objective == "misses":
        bounds = [Bound("pooled", pooled), Bound("compulsory", first)]
    else:
        pair = (("pooled", pooled - first), ("unavoidable", 0))
        bounds = [Bound(name, priced_bound(work, cluster, objective, k)) for name, k in pair]
        if objective == "makespan":
            bounds += longest_queries(work.least)
    return sorted(bounds, key=lambda bound: -bound.value)


def pooled_misses(instance: Instance, cluster: Cluster, admission: Admission = "forced") -> int:
    """Misses of Belady's rule on one cache of Σ B_i units: no cluster misses less.

    Notes
    -----
    Proof. Take any schedule of the cluster and let U be the union of its caches: a set of at most
    Σ B_i units, with every ancestor of its units in it. A query only loads its path on its own
    worker, so U afterwards lies in what U was and the path, and with forced admission it contains
    the path: one cache of Σ B_i units can keep U all along, of the other workers' paths it need
    keep nothing. It hits every unit that the worker hits. Units below a cut are missed by both.

    Σ B_i counts what the caches hold in all; a bound with M·max B_i would be weaker, and one with
    max B_i wrong.
    """
    _, hits = belady(instance, int(cluster.capacity.sum(dtype=np.int64)), admission)
    return instance.units_requested - int(hits.sum())


def unavoidable(instance: Instance, cluster: Cluster) -> Work:
    """What each query costs at least on each worker.

    Notes
    -----
    A unit of query j that no earlier query contains is in no cache: it is missed, on any worker,
    and so is what lies below a cut. These units are the deepest of the path; let r be the number
    of the others. The service time as a function of the hits h <= r,
    (α_cached·h + α_miss·(|q| − h) + α_depth·(|q|(|q|+1) − h(h+1))/2 + O) / s, is linear less a
    convex term, so concave: it lies above its chord between h = r and h = 0, whichever end is
    higher. With a higher end at h = 0, the chord rises by ``extra`` for each further miss.
    """
    log, length = instance.log, instance.query_length
    _, first = np.unique(log.edge, return_index=True)
    seen_first = np.bincount(
        query_of(log)[first], instance.tree.length[log.edge[first]], instance.requests
    ).astype(np.int64)
    units = path_units(instance)
    again = units - seen_first
    shape = (cluster.workers, instance.requests)
    best, worst = np.empty(shape), np.empty(shape)
    for i in range(cluster.workers):
        best[i] = service(instance, cluster, i, again)
        worst[i] = service(instance, cluster, i, np.zeros(instance.requests))
    least = np.minimum(best, worst)
    least[units > cluster.capacity[:, None]] = np.inf
    nowhere = np.flatnonzero(np.isinf(least).all(axis=0))
    if len(nowhere):
        t = int(nowhere[0])
        raise InputError(
            f"query {t} has {int(units[t])} units and the largest cache only "
            f"{int(cluster.capacity.max())}: use a larger one, or cut the instance"
        )
    extra = np.maximum(worst - best, 0) / np.maximum(again, 1)
    return Work(length - again, again, least, extra)


def priced_bound(work: Work, cluster: Cluster, objective: Objective, further: int) -> float:
    """A bound on the cost or the makespan, given that many misses beyond the compulsory ones.

    Parameters
    ----------
    work
        As `unavoidable` gives it.
    cluster, objective
        The workers, and ``"cost"`` or ``"makespan"``.
    further
        Misses that every schedule has beyond the compulsory ones, K.

    Notes
    -----
    Proof. Let w >= 0 be a price of time on each worker and μ >= 0 a reward for each further miss.
    If query j goes to worker i with k further misses, a schedule with Σ k >= K has

        Σ_i w_i P_i >= Σ_j (w_i least_ij + k_j (w_i extra_ij − μ)) + μK
                    >= Σ_j min_i (w_i least_ij + min(0, (w_i extra_ij − μ) r_j)) + μK.

    The sum of costs is the case w = 1; for the makespan Σ_i w_i P_i <= Σ w_i · max_i P_i, so that
    bound is divided by Σ w_i. All w and μ are right, the best ones make it the value of the linear
    program in which queries may be split. With equal costs it is attained at w = s, the speeds, and
    μ the extra seconds of a miss: the bound (α_cached·U + (α_miss − α_cached)·misses + Σ O) / Σ s.
    Then a price rises where the relaxed load is above the mean, for some steps; workers that
    differ in nothing but speed need none.

    Cost: O(M·n) for each pair (w, μ).
    """
    if objective == "cost":
        return _best_reward(np.ones(cluster.workers), work, further)[0]
    price = cluster.speed / cluster.speed.sum()
    best, load = _best_reward(price, work, further)
    scaled = work.least * cluster.speed[:, None]
    if np.isfinite(scaled).all() and np.allclose(scaled, scaled[:1], rtol=1e-12):
        return best
    for step in range(_STEPS):
        if (most := float(load.max())) <= 0:
            break
        price = price * np.exp(load / most / (1 + step / 4))
        price /= price.sum()
        value, load = _best_reward(price, work, further)
        best = max(best, value)
    return best


_STEPS = 60


def longest_queries(least: np.ndarray) -> list[Bound]:
    """Bounds on the makespan from queries that cannot be split; ``least`` as in `Work`.

    Notes
    -----
    Query j takes p_j = min_i least_ij or more wherever it goes. Of the kM + 1 longest some k + 1
    share a worker, which serves at least the k + 1 shortest of them: for k = 0 the longest query.
    """
    workers, n = least.shape
    p = np.sort(least.min(axis=0))[::-1]
    total = np.append(0.0, np.cumsum(p))
    k = np.arange((n - 1) // workers + 1) if n else np.zeros(0, np.int64)
    together = total[k * workers + 1] - total[k * (workers - 1)]
    return [
        Bound("longest query", float(p[0]) if n else 0.0),
        Bound("longest queries", float(together.max(initial=0.0))),
    ]


def _best_reward(price: np.ndarray, work: Work, further: int) -> tuple[float, np.ndarray]:
    """The bound for these prices with the best μ, and a load of each worker with K further misses.

    The bound is concave and piecewise linear in μ, and falls beyond the largest toll: tangents from
    both sides meet at the next μ to try, until that is where the bound is. The loads of the pieces
    to both sides are mixed so that the further misses are K: the bound changes with the prices as
    that load does.
    """
    open_to = np.isfinite(work.least)
    seconds = np.where(open_to, work.least, 0.0)
    paid = np.where(open_to, price[:, None] * seconds, np.inf)
    toll = price[:, None] * work.extra
    query = np.arange(len(work.again))

    def at(reward: float, ties: bool = False) -> _Piece:
        total = paid + np.minimum(0.0, toll - reward) * work.again
        i = total.argmin(axis=0)
        due = toll[i, query]
        missed = np.where(due <= reward if ties else due < reward, work.again, 0)
        load = np.bincount(i, seconds[i, query] + missed * work.extra[i, query], len(price))
        value = float(total[i, query].sum()) + reward * further
        return _Piece(reward, value, further - float(missed.sum()), load)

    left, right = at(0.0), at(float(toll.max(initial=0.0)), ties=True)
    best = max(left.value, right.value)
    while left.slope > 0 > right.slope:
        rise = right.value - left.value + left.slope * left.reward - right.slope * right.reward
        reward = rise / (left.slope - right.slope)
        if not left.reward < reward < right.reward:
            break
        middle = at(reward)
        best = max(best, middle.value)
        if middle.slope in (left.slope, right.slope):
            break
        left, right = (middle, right) if middle.slope > 0 else (left, middle)
    if left.slope <= 0:
        return best, left.load
    share = left.slope / max(left.slope - right.slope, 1e-300)
    return best, (1 - share) * left.load + share * right.load


class _Piece(NamedTuple):
    """The bound as a function of μ near one value, a line; and the loads that it stands for."""

    reward: float
    value: float
    slope: float
    load: np.ndarray
