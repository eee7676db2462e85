"""Exponential potential with doubling: competitive makespan on unrelated machines."""

from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key

from kvtheory.cache import Scalar, Tape, write
from kvtheory.errors import bad
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing.ties import first_least


class PotentialState(NamedTuple):
    """Load of the phase on each worker, the guess Λ of the optimum, and each query's share."""

    load: Float[Array, " workers"]
    guess: Float[Array, ""]
    cost: Float[Array, " requests"]
    phase: Array
    phase_of: Array


class ExponentialPotential(RoutingPolicy):
    """Route to the smallest increase of Σ a^(ℓ_i/Λ), a = 1 + 1/γ, doubling Λ when it is too small.

    ℓ_i is the believed cost routed to i in this phase, and Λ starts at the smallest cost of the
    first query. With β = log_a(M·γ/(γ − 1)): if every cost is above Λ, or the chosen worker would
    exceed βΛ, then Λ ← 2Λ, all ℓ ← 0, and the choice is made again. Ties to the index.

    Parameters
    ----------
    load
        ``"total"``: everything routed in the phase counts. ``"live"``: released on completion.
    gamma
        γ > 1.

    Guarantee
    ---------
    ``load="total"``: makespan at most 4β times the optimum on unrelated machines, for costs that do
    not depend on earlier routing. ``load="live"`` is a heuristic for latency.

    References
    ----------
    Aspnes, Azar, Fiat, Plotkin, Waarts, J. ACM 44 (1997).
    """

    load: Literal["total", "live"] = eqx.field(static=True, default="total")
    gamma: float = 2.0

    name: ClassVar[str] = "exponential_potential"
    source: ClassVar[str] = "Aspnes, Azar, Fiat, Plotkin, Waarts 1997"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "makespan <= 4·log_1.5(2M)·OPT for costs fixed in advance"

    def __check_init__(self) -> None:
        if self.load not in ("total", "live"):
            raise bad("load", self.load, "must be 'total' or 'live'")
        if isinstance(self.gamma, float | int) and self.gamma <= 1:
            raise bad("gamma", self.gamma, "must be above 1")

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> PotentialState:
        requests = tape.query_length.shape[0] if self.load == "live" else 0
        return PotentialState(
            jnp.zeros(workers, float),
            jnp.zeros((), float),
            jnp.zeros(requests, float),
            jnp.zeros((), jnp.int32),
            jnp.zeros(requests, jnp.int32),
        )

    def _choose(self, load: Array, guess: Array, cost: Array) -> Scalar:
        # a^((ℓ+c)/Λ) − a^(ℓ/Λ) in logs, written so that a large c/Λ does not overflow
        rate = jnp.log(1 + 1 / self.gamma)
        step = cost / guess * rate
        return first_least(load / guess * rate + step + jnp.log(-jnp.expm1(-step)))

    def propose(
        self, state: PotentialState, tape: Tape, seen: Seen
    ) -> tuple[PotentialState, Scalar]:
        cost = seen.service
        rate = jnp.log(1 + 1 / self.gamma)
        beta = jnp.log(seen.workers * self.gamma / (self.gamma - 1)) / rate
        # a query that costs nothing is no guess of anything
        guess = jnp.where(state.guess > 0, state.guess, cost.min())

        def settle(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            load, guess, phase, _, _ = carry
            worker = self._choose(load, guess, cost)
            small = (cost.min() > guess) | (load[worker] + cost[worker] > beta * guess)
            return (
                jnp.where(small, 0.0, load),
                jnp.where(small, 2 * guess, guess),
                phase + small,
                worker,
                small,
            )

        begin = (state.load, guess, state.phase, first_least(cost), guess > 0)
        load, guess, phase, worker, _ = lax.while_loop(lambda carry: carry[4], settle, begin)
        return state._replace(load=load, guess=guess, phase=phase), worker

    def dispatch(
        self, state: PotentialState, tape: Tape, seen: Seen, worker: Scalar
    ) -> PotentialState:
        cost = seen.service[worker]
        if self.load == "live":
            state = state._replace(
                cost=write(state.cost, seen.t, cost),
                phase_of=write(state.phase_of, seen.t, state.phase),
            )
        return state._replace(load=state.load.at[worker].add(cost))

    def complete(self, state: PotentialState, tape: Tape, event: Event) -> PotentialState:
        if self.load != "live":
            return state
        # what was routed in an earlier phase is no longer in the load
        ours = state.phase_of[event.t] == state.phase
        left = state.load[event.worker] - jnp.where(ours, state.cost[event.t], 0.0)
        return state._replace(load=state.load.at[event.worker].set(jnp.maximum(left, 0.0)))
