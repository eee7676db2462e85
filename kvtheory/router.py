"""The interface of a routing policy, and what a router may see.

A router sees only what has happened by the arrival of the query that it routes.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int, Key

from kvtheory.cache import Scalar, Tape
from kvtheory.instance import Instance

Time = Float[Array, ""]


class Seen(NamedTuple):
    """A query and the cluster as its router sees them; arrays have one entry per worker.

    Attributes
    ----------
    t, now
        Index of the query, and its arrival in seconds.
    length, first, stop
        Its units, and its place in ``tape.edge`` (deepest edge first).
    block_size
        Tokens in one unit.
    hits
        int32; units of it in the viewed caches.
    tree, capacity
        int32; units in the viewed caches, and those that the workers hold, as believed.
    in_flight, queued
        int32; queries routed and not known to be finished, and those of them not known to have
        started.
    pending
        int32; units still to prefill, as believed when they were routed: those of the queries in
        flight whose first token is not seen.
    waiting
        int32; the part of ``pending`` that belongs to queries not known to have started.
    work
        float; believed seconds of the queries in flight, one that runs counting whole.
    true_work
        float; seconds until the worker is idle, in truth.
    total
        float; believed seconds of everything routed there so far.
    service, miss_work
        float; believed seconds of service of this query, Cost̃, and of its misses and output.
    alpha_miss
        float; believed seconds per missed unit.
    """

    t: Scalar
    now: Time
    length: Scalar
    first: Scalar
    stop: Scalar
    block_size: Scalar
    hits: Int[Array, " workers"]
    tree: Int[Array, " workers"]
    capacity: Int[Array, " workers"]
    in_flight: Int[Array, " workers"]
    queued: Int[Array, " workers"]
    pending: Int[Array, " workers"]
    waiting: Int[Array, " workers"]
    work: Float[Array, " workers"]
    true_work: Float[Array, " workers"]
    total: Float[Array, " workers"]
    service: Float[Array, " workers"]
    miss_work: Float[Array, " workers"]
    alpha_miss: Float[Array, " workers"]

    @property
    def workers(self) -> int:
        """Number of workers, M."""
        return self.hits.shape[0]


class Event(NamedTuple):
    """A query that had its first token, or was completed, on a worker.

    ``before`` is when the worker completed the query before it (0 if there was none), ``hits``
    what was believed of the query's hits when it was routed there, ``service`` the believed
    seconds of service.
    """

    t: Scalar
    worker: Scalar
    time: Time
    arrival: Time
    before: Time
    length: Scalar
    hits: Scalar
    service: Time


class RoutingPolicy(eqx.Module):
    """What a router provides: a state of its own, and a worker for each query.

    The fields of the module are its hyper-parameters. Before a query is routed the driver calls
    `first_token` and `complete` for all that has happened, in order of time; then `propose` and
    `dispatch`. The two are apart so that a router can be an expert of another one, which need not
    follow it, while its accounts still hold what was really sent.

    Class attributes
    ----------------
    name, source, guarantee
        As shown by ``kvtheory routers``; a router without a guarantee is a heuristic.
    randomised
        Whether it uses its key, so that it is run on several lanes.
    watches_prefill
        Whether it looks at starts and first tokens: at ``Seen.queued``, ``pending`` and
        ``waiting``, or by `first_token`. If not, these are −1 and never called, which saves two
        of three events of each query.
    watches_starts
        Whether a router that watches the prefill looks at ``Seen.queued`` or ``waiting``. If not,
        these are −1, which saves one event.
    """

    name: ClassVar[str] = ""
    source: ClassVar[str] = ""
    guarantee: ClassVar[str] = "heuristic"
    randomised: ClassVar[bool] = False
    watches_prefill: ClassVar[bool] = True
    watches_starts: ClassVar[bool] = True

    def prepare(self, instance: Instance, workers: int) -> dict[str, Any]:
        """Arrays made once on the host, with one row per query, for `init`.

        For routers that hash the ids of a query, which the device does not know.
        """
        return {}

    @abc.abstractmethod
    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> Any:
        """The state before the first query; ``prepared`` as made on the host, padded with 0."""

    @abc.abstractmethod
    def propose(self, state: Any, tape: Tape, seen: Seen) -> tuple[Any, Scalar]:
        """Next state, and the worker that the rule names for the query."""

    def dispatch(self, state: Any, tape: Tape, seen: Seen, worker: Scalar) -> Any:
        """The query was sent to a worker, the proposed one unless this router only advises."""
        return state

    def first_token(self, state: Any, tape: Tape, event: Event) -> Any:
        """The prefill of a query has ended."""
        return state

    def complete(self, state: Any, tape: Tape, event: Event) -> Any:
        """The service of a query has ended."""
        return state
