"""`check_routing`: what every router has to satisfy, on many tiny random clusters.

For authors of routers. Nothing beyond the package itself is needed.
"""

import dataclasses
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import jax
import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.router import RoutingPolicy
from kvtheory.testing.check_eviction import Report
from kvtheory.testing.permuted_workers import unlike_permuted
from kvtheory.testing.small_cluster_driver import ClusterRun, compilations, run_small_cluster
from kvtheory.testing.small_clusters import (
    REQUESTS,
    VIEWS,
    ClusterCase,
    Unlike,
    followed,
    random_clusters,
)
from kvtheory.testing.small_driver import Shape
from kvtheory.testing.twin_router import RouterTwin

__all__ = ["RoutingCheckFailed", "check_routing"]

TwinFactory = Callable[[int], RouterTwin]
"""``twin(workers)``: a fresh slow router."""

Problem = Callable[[ClusterCase], str]

WORKERS = 3
LONG = Shape(edges=16, positions=131_072, requests=32_768)


class RoutingCheckFailed(AssertionError):
    """A router does not satisfy a check; the message holds the case.

    Attributes
    ----------
    check
        Name of the check, as in the report.
    """

    def __init__(self, router: str, check: str, problem: str, case: object) -> None:
        super().__init__(f"{router!r} fails the check {check!r}: {problem}; case: {case}")
        self.check = check


def check_routing(
    router: RoutingPolicy,
    *,
    twin: TwinFactory | None = None,
    symmetric: bool = True,
    examples: int = 30,
    seed: int = 0,
) -> Report:
    """Check a router on seeded random clusters of 3 workers with 16 queries, and on a long run.

    Parameters
    ----------
    router
        The policy. One that is ``randomised`` may draw.
    twin
        ``twin(workers)`` makes a plain-Python twin of it (`kvtheory.testing.twins_routing`): every
        decision must be one that the twin could make, and hits and times must be equal.
    symmetric
        Whether workers count by what is seen of them alone. Pass False for a router that knows
        them by index, as a ring of hashes or taking turns does; ties do not matter.
    examples, seed
        How many clusters, and of which stream. Dear checks look at fewer of them.

    Returns
    -------
    Report
        Which checks ran:

        ``workers``
            Every query goes to a worker that is there.
        ``future``
            Other later requests, at other times, do not change earlier decisions, nor does (if
            deterministic) their absence.
        ``lanes``
            Lanes do not see one another, by ``map`` and by ``vmap``.
        ``compilation``
            Other instances, clusters, keys and hyper-parameters of equal shape and type compile
            nothing anew; static numbers are left out unless they are floats.
        ``permutation``
            Another order of the workers in all that is seen, without ties, permutes the decisions;
            those of a randomised router in law, with an error of at most 1e-9.
        ``long``
            Over 32,768 queries the state of the router stays finite: per-worker values after each
            query, larger arrays in the end.
        ``twin``
            Decisions, hits and times are those of the twin.

    Raises
    ------
    RoutingCheckFailed
        An `AssertionError` with the name of the check and the failing case.

    Examples
    --------
    >>> from kvtheory.routing import MaxHit
    >>> from kvtheory.testing.twins_routing import PLAIN
    >>> report = check_routing(MaxHit(), twin=PLAIN["max_hit"], examples=3)
    >>> report.ran["twin"], report.skipped
    (3, {})
    """
    begin = time.perf_counter()
    ran: dict[str, int] = {}
    skipped: dict[str, str] = {}

    def check(name: str, problem: Problem, share: float) -> None:
        size = max(1, round(share * examples))
        for case in random_clusters(size, zlib.crc32(f"{name} {seed}".encode()), WORKERS):
            if found := problem(case):
                raise RoutingCheckFailed(router.name, name, found, case)
        ran[name] = size

    check("workers", partial(_not_there, router), 1)
    check("future", partial(_sees_ahead, router), 0.5)
    check("lanes", partial(_mixes_lanes, router), 0.2)
    check("compilation", partial(_compiles, router), 0.1)
    if symmetric:
        if found := unlike_permuted(router, seed):
            raise RoutingCheckFailed(router.name, "permutation", *found)
        ran["permutation"] = 1
    else:
        skipped["permutation"] = "the router knows workers by index"
    if found := _not_finite(router, seed):
        raise RoutingCheckFailed(router.name, "long", found, f"seed {seed}")
    ran["long"] = 1
    if twin is None:
        skipped["twin"] = "no twin given"
    else:
        check("twin", partial(_unlike_twin, router, twin), 1)
    return Report(router.name, ran, skipped, time.perf_counter() - begin)


# Each of these returns what is wrong, or an empty text.


def _run(
    router: RoutingPolicy, case: ClusterCase, *seeds: int, batching: str = "map"
) -> ClusterRun:
    keys = [jax.random.key(s) for s in seeds or (case.seed, case.seed + 1)]
    return run_small_cluster(
        router,
        case.instance,
        case.cluster,
        keys,
        believed=case.believed,
        batching=batching,  # type: ignore[arg-type]
    )


def _decisions(router: RoutingPolicy, case: ClusterCase) -> list[int]:
    return _run(router, case).named[0].tolist()


def _not_there(router: RoutingPolicy, case: ClusterCase) -> str:
    for t, worker in enumerate(_decisions(router, case)):
        if not 0 <= worker < WORKERS:
            return f"query {t} goes to worker {worker} of {WORKERS}"
    return ""


def _sees_ahead(router: RoutingPolicy, case: ClusterCase) -> str:
    rng = np.random.default_rng(case.seed)
    mine, instance = _decisions(router, case), case.instance
    for stop in (REQUESTS // 3, REQUESTS // 2, REQUESTS - 1):
        # the same tree, so that what a router draws is the same too
        query, arrival = instance.query.copy(), instance.arrival
        output = instance.output_length
        assert arrival is not None
        assert output is not None
        rest = REQUESTS - stop
        query[stop:] = rng.permutation(query[stop:])
        query[stop:] = np.where(rng.random(rest) < 0.5, rng.choice(query, rest), query[stop:])
        later = arrival[stop] + np.cumsum(rng.integers(3, size=rest))
        changed = dataclasses.replace(
            instance,
            query=query,
            arrival=np.append(arrival[:stop], later),
            output_length=np.append(output[:stop], rng.integers(5, size=rest)),
        )
        others = [("others", changed)]
        if not router.randomised:
            others.append(("none", case.cut(stop).instance))
        for what, other in others:
            keys = [jax.random.key(case.seed), jax.random.key(0)]
            run = run_small_cluster(router, other, case.cluster, keys, believed=case.believed)
            theirs = run.named[0].tolist()
            for t in range(stop):
                if mine[t] != theirs[t]:
                    return (
                        f"query {t} goes to worker {mine[t]}, but to {theirs[t]} if the requests "
                        f"from {stop} on are {what}"
                    )
    return ""


def _mixes_lanes(router: RoutingPolicy, case: ClusterCase) -> str:
    one, two = case.seed, case.seed + 7
    forth, back = _run(router, case, one, two).named, _run(router, case, two, one).named
    if not (forth == back[::-1]).all():
        return f"seeds {one}, {two} decide {forth.tolist()}, in the other order {back.tolist()}"
    wide = _run(router, case, one, two, batching="vmap").named
    if not (forth == wide).all():
        return f"lanes decide {forth.tolist()} by map, {wide.tolist()} by vmap"
    if not router.randomised and not (forth[0] == forth[1]).all():
        return f"seeds decide {forth.tolist()}, but the router is not said to be randomised"
    return ""


def _compiles(router: RoutingPolicy, case: ClusterCase) -> str:
    _run(router, case)
    before = compilations()
    _run(router, next(random_clusters(1, case.seed, WORKERS)))
    if compilations() != before:
        return "another instance, cluster and key compile anew"
    for name, changed in _other_parameters(router):
        _run(changed, case)
        if compilations() != before:
            return f"another value of {name!r} compiles anew: the field must not be static"
    return ""


def _other_parameters(router: RoutingPolicy) -> Iterator[tuple[str, RoutingPolicy]]:
    for f in dataclasses.fields(router):  # type: ignore[arg-type]
        value = getattr(router, f.name)
        if not f.init or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if isinstance(value, int) and f.metadata.get("static"):
            continue  # a size
        try:
            yield f.name, dataclasses.replace(router, **{f.name: value * 2 + type(value)(1)})
        except ValueError:
            continue


def _not_finite(router: RoutingPolicy, seed: int) -> str:
    rng = np.random.default_rng(seed)
    pool = [rng.integers(2, size=size).tolist() for size in (0, 1, 2, 3, 3, 4, 4, 4)]
    tokens = [pool[k] for k in rng.integers(len(pool), size=LONG.requests)]
    instance = Instance.from_tokens(
        tokens,
        arrival=np.cumsum(rng.exponential(0.7, LONG.requests)),
        output_length=rng.integers(3, size=LONG.requests),
    )
    # loads of up to 60 %, with pauses in which all is idle
    cluster = Cluster(
        np.array([5, 6, 8]),
        alpha_miss=np.array([0.2, 0.4, 0.3]),
        alpha_out=np.full(3, 0.3),
        speed=np.array([1.0, 0.7, 2.0]),
    )
    run = run_small_cluster(
        router, instance, cluster, [jax.random.key(seed), jax.random.key(seed + 1)], shape=LONG
    )
    if not run.finite.all():
        return f"the state of the router is not finite over {LONG.requests} queries"
    wrong = np.flatnonzero(((run.named < 0) | (run.named >= WORKERS)).any(axis=0))
    return f"query {wrong[0]} goes to a worker that is not there" if len(wrong) else ""


def _unlike_twin(router: RoutingPolicy, twin: TwinFactory, case: ClusterCase) -> str:
    run = _run(router, case)
    try:
        log, _ = followed(lambda: twin(WORKERS), run.worker[0].tolist(), case, VIEWS["routed"])
    except Unlike as unlike:
        return str(unlike)
    for field in ("hits", "start", "first_token", "end"):
        mine, theirs = getattr(run, field)[0].tolist(), [getattr(s, field) for s in log]
        if mine != theirs:
            return f"{field} {mine}, with the twin {theirs}"
    return ""
