"""Slow twin of routing by an exponential potential.

References
----------
Aspnes, Azar, Fiat, Plotkin and Waarts, "On-line routing of virtual circuits with applications to
load balancing and machine scheduling", J. ACM 1997.
"""

import math
from collections.abc import Sequence
from typing import Literal

from kvtheory.errors import bad, unknown
from kvtheory.testing.twin_router import Draws, RouterTwin, least
from kvtheory.testing.twin_view import Query, View


class ExponentialPotential(RouterTwin):
    """The worker whose potential a^(load/Λ) rises least, Λ being doubled when it proves too small.

    a = 1 + 1/γ, β = log_a(Mγ/(γ − 1)). ℓ_i is the estimated cost sent to i in this phase, c_i that
    of the query. argmin a^((ℓ_i + c_i)/Λ) − a^(ℓ_i/Λ), compared in logs, ties to the index. If
    min c > Λ, or ℓ + c > βΛ on that worker: Λ ← 2Λ, ℓ ← 0, and again. Λ starts at the smallest
    cost of the first query that costs something everywhere; until then a free worker is taken.

    Parameters
    ----------
    load
        ``"total"``: makespan at most 4β times the optimum for costs that no earlier choice
        changes. ``"live"``: the cost is taken off ℓ on completion, if its phase is not over.
    gamma
        γ > 1.
    """

    def __init__(
        self,
        workers: int,
        *,
        load: Literal["total", "live"] = "total",
        gamma: float = 2.0,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(workers, draws=draws)
        if load not in ("total", "live"):
            raise unknown("load", load, ("total", "live"))
        if gamma <= 1:
            raise bad("gamma", gamma, "must be above 1")
        self.kind = load
        self.log_a = math.log(1 + 1 / gamma)
        self.beta = math.log(workers * gamma / (gamma - 1)) / self.log_a
        self.scale = 0.0
        self.load = [0.0] * workers
        self.phase = 0
        self.sent: dict[int, tuple[float, int]] = {}

    def log_rise(self, load: float, cost: float, scale: float) -> float:
        """ln(a^((load + cost)/Λ) − a^(load/Λ))."""
        if cost == 0:
            return -math.inf
        step = self.log_a * cost / scale
        # ln(e^step − 1), which must not overflow
        return self.log_a * load / scale + step + math.log(-math.expm1(-step))

    def plan(self, cost: Sequence[float]) -> tuple[int, float, int]:
        """The worker, Λ and the doublings before it is chosen."""
        scale, load, doublings = self.scale or min(cost), self.load, 0
        if scale == 0:
            return least(cost)[0], 0.0, 0
        while True:
            rise = [self.log_rise(x, c, scale) for x, c in zip(load, cost, strict=True)]
            i = least(rise)[0]
            if min(cost) <= scale and load[i] + cost[i] <= self.beta * scale:
                return i, scale, doublings
            scale, load, doublings = 2 * scale, [0.0] * self.workers, doublings + 1

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker whose potential rises least."""
        return self.plan(view.service(query))[0]

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Begin new phases if needed, and raise the load."""
        cost = view.service(query)
        _, self.scale, doublings = self.plan(cost)
        if doublings:
            self.load = [0.0] * self.workers
            self.phase += doublings
        self.load[worker] += cost[worker]
        self.sent[query.index] = (cost[worker], self.phase)

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Take the cost off again, with ``load="live"``."""
        cost, phase = self.sent.pop(query.index)
        if self.kind == "live" and phase == self.phase:
            self.load[worker] = max(0.0, self.load[worker] - cost)
