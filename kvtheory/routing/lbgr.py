"""LBGR, learning-based greedy routing: least estimated service plus decayed load."""

from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from kvtheory.cache import Scalar, Tape, write
from kvtheory.errors import bad
from kvtheory.learning.ridge import Ridge
from kvtheory.router import Event, RoutingPolicy, Seen
from kvtheory.routing.ties import first_least, near_least


class LBGRState(NamedTuple):
    """Decayed load P̃ as of a tick, the learners, and what was noted of each query when routed."""

    load: Float[Array, " workers"]
    at: Scalar
    total: Float[Array, " workers"]
    learner: Ridge
    hit_cost: Float[Array, " requests"]
    miss_cost: Float[Array, " requests"]
    counted: Float[Array, " requests"]
    load_then: Float[Array, " requests"]
    tick: Int[Array, " requests"]


class LBGR(RoutingPolicy):
    """Learning-based greedy routing (LBGR): argmin of Ê_i = Ĉ_i + P̃_i, in seconds.

    Ĉ_i = max(0, Cost̃_i + θ_i·φ_i) is the believed service time corrected by what was learned, and
    P̃_i the load: it rises by Ĉ when a query is routed, falls to ρ·P̃ at every tick kΔt, and on
    completion by what is left of that Ĉ, not below 0. Ties within 1e-9 relative go to the smallest
    total Ĉ routed so far, then the index.

    Parameters
    ----------
    target
        What is learned on completion. ``"service"``: y = (end − max(a, previous completion)) −
        Cost̃, with φ = (1, α_miss·hits, α_miss·misses); the wait, which P̃ already estimates, is
        taken out. ``"latency"`` is the paper's: y = (end − a) − (Cost̃ + P̃), with P̃ at routing as
        a fourth feature; near saturation it chases the wait and collapses.
    learner
        ``"ridge"``: exponentially weighted ridge regression; ``"gradient"``: one step of size
        ``eta`` on half the squared error; ``"none"``: θ stays 0.
    forget, delta
        λ and δ of the ridge: R ← λR + φφᵀ + (1 − λ)δI, b ← λb + φy, θ = R⁻¹b. It stays finite.
    decay, tick
        ρ and Δt in seconds.
    eta
        Step of the gradient learner.

    Guarantee
    ---------
    None: greedy is only Θ(M)-competitive for the makespan.

    References
    ----------
    Wu, Silwal, Zhang, ICLR 2026, arXiv:2601.18999.
    """

    target: Literal["service", "latency"] = eqx.field(static=True, default="service")
    learner: Literal["ridge", "gradient", "none"] = eqx.field(static=True, default="ridge")
    forget: float = 0.992
    delta: float = 0.01
    decay: float = 31 / 32
    tick: float = 0.020
    eta: float = 0.003

    name: ClassVar[str] = "lbgr"
    source: ClassVar[str] = "Wu, Silwal, Zhang 2026 (LBGR)"
    watches_prefill: ClassVar[bool] = False
    guarantee: ClassVar[str] = "none; greedy is Θ(M) for the makespan"

    def __check_init__(self) -> None:
        if self.target not in ("service", "latency"):
            raise bad("target", self.target, "must be 'service' or 'latency'")
        if self.learner not in ("ridge", "gradient", "none"):
            raise bad("learner", self.learner, "must be 'ridge', 'gradient' or 'none'")
        if isinstance(self.tick, float | int) and self.tick <= 0:
            raise bad("tick", self.tick, "must be a positive time in seconds")

    @property
    def _features(self) -> int:
        return 3 if self.target == "service" else 4

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> LBGRState:
        requests = tape.query_length.shape[0]
        per_query = jnp.zeros(requests, float)
        per_worker = jnp.zeros(workers, float)
        return LBGRState(
            load=per_worker,
            at=jnp.zeros((), jnp.int32),
            total=per_worker,
            learner=Ridge.init(workers, self._features, self.delta),
            hit_cost=per_query,
            miss_cost=per_query,
            counted=per_query,
            load_then=per_query,
            tick=jnp.zeros(requests, jnp.int32),
        )

    def _elapse(self, state: LBGRState, now: Array) -> LBGRState:
        tick = jnp.floor(now / self.tick).astype(jnp.int32)
        fade = jnp.power(self.decay, (tick - state.at).astype(float))
        return state._replace(load=state.load * fade, at=tick)

    def _costs(self, state: LBGRState, seen: Seen) -> tuple[Array, Array, Array]:
        """What hits and misses cost as believed, and Ĉ, on each worker."""
        hit_cost = seen.alpha_miss * seen.hits
        miss_cost = seen.alpha_miss * (seen.length - seen.hits)
        features = [jnp.ones(seen.workers), hit_cost, miss_cost, state.load][: self._features]
        learned = sum(state.learner.theta[:, k] * f for k, f in enumerate(features))
        return hit_cost, miss_cost, jnp.maximum(0.0, seen.service + learned)

    def propose(self, state: LBGRState, tape: Tape, seen: Seen) -> tuple[LBGRState, Scalar]:
        state = self._elapse(state, seen.now)
        counted = self._costs(state, seen)[2]
        return state, first_least(~near_least(counted + state.load), state.total)

    def dispatch(self, state: LBGRState, tape: Tape, seen: Seen, worker: Scalar) -> LBGRState:
        state, t = self._elapse(state, seen.now), seen.t
        hit_cost, miss_cost, counted = (x[worker] for x in self._costs(state, seen))
        return LBGRState(
            load=state.load.at[worker].add(counted),
            at=state.at,
            total=state.total.at[worker].add(counted),
            learner=state.learner,
            hit_cost=write(state.hit_cost, t, hit_cost),
            miss_cost=write(state.miss_cost, t, miss_cost),
            counted=write(state.counted, t, counted),
            load_then=write(state.load_then, t, state.load[worker]),
            tick=write(state.tick, t, state.at),
        )

    def complete(self, state: LBGRState, tape: Tape, event: Event) -> LBGRState:
        state = self._elapse(state, event.time)
        t, worker = event.t, event.worker
        age = (state.at - state.tick[t]).astype(float)
        left = state.counted[t] * jnp.power(self.decay, age)
        load = state.load.at[worker].set(jnp.maximum(0.0, state.load[worker] - left))
        began = jnp.maximum(event.arrival, event.before)
        then = state.load_then[t]
        if self.target == "service":
            y = (event.time - began) - event.service
        else:
            y = (event.time - event.arrival) - (event.service + then)
        phi = jnp.stack([jnp.ones(()), state.hit_cost[t], state.miss_cost[t], then])
        learner = state.learner
        if self.learner == "ridge":
            learner = learner.update(worker, phi[: self._features], y, self.forget, self.delta)
        elif self.learner == "gradient":
            learner = learner.descend(worker, phi[: self._features], y, self.eta)
        return state._replace(load=load, learner=learner)

    @staticmethod
    def published(ms_per_token: float = 4.0, *, masked: bool = False) -> "PublishedLBGR":
        """The published router, with its constants."""
        return PublishedLBGR(ms_per_token=ms_per_token, masked=masked)


class PublishedState(NamedTuple):
    """Load in whole milliseconds as of a tick, one bias per worker, and notes of each query."""

    load: Float[Array, " workers"]
    at: Scalar
    bias: Float[Array, " workers"]
    spread: Float[Array, " workers"]
    masked: Float[Array, " workers"]
    base: Float[Array, " requests"]
    load_then: Float[Array, " requests"]
    tick: Int[Array, " requests"]


class PublishedLBGR(RoutingPolicy):
    """LBGR as published, in milliseconds, with the constants of its code.

    base_i = max(1, ``ms_per_token``·missed tokens), pred_i = max(1, base_i + load_i + θ_i); in
    order of index a worker replaces the best so far only if better by more than 1 ms. On routing
    load += round(base). Every 20 ms load ← ⌊31·load/32⌋. On completion load falls by what the same
    decay has left of the query's own base, and θ_i, one bias per worker, is moved by recursive
    least squares (λ = 0.992, P = 1e6) towards max(1, E − base − load at routing).

    Parameters
    ----------
    ms_per_token
        Of the base; the published 1 ms a character is about 4 ms a token. A constant far above the
        true cost clips the residual and makes learning inert; a calibrated one collapses.
    masked
        Also carry the covariances of the features that the published code masks out. They grow by
        1/λ with every completion until θ is NaN, after 86,649 of them on a worker, and a NaN
        prediction attracts every query.
    """

    ms_per_token: float = 4.0
    masked: bool = eqx.field(static=True, default=False)
    forget: float = 0.992
    covariance: float = 1e6

    TICK: ClassVar[float] = 0.020

    name: ClassVar[str] = "lbgr_published"
    source: ClassVar[str] = "code of Wu, Silwal, Zhang 2026 (eta_online_3d)"
    watches_prefill: ClassVar[bool] = False

    def init(
        self, tape: Tape, workers: int, prepared: dict[str, Array], key: Key[Array, ""]
    ) -> PublishedState:
        requests = tape.query_length.shape[0]
        zero, per_query = jnp.zeros(workers, float), jnp.zeros(requests, float)
        return PublishedState(
            load=zero,
            at=jnp.zeros((), jnp.int32),
            bias=zero,
            spread=zero + self.covariance,
            masked=zero + self.covariance,
            base=per_query,
            load_then=per_query,
            tick=jnp.zeros(requests, jnp.int32),
        )

    def _elapse(self, state: PublishedState, now: Array) -> PublishedState:
        tick = jnp.floor(now / self.TICK).astype(jnp.int32)
        return state._replace(load=faded(state.load, tick - state.at), at=tick)

    def _base(self, seen: Seen) -> Array:
        tokens = seen.block_size * (seen.length - seen.hits)
        return jnp.maximum(1.0, self.ms_per_token * tokens)

    def propose(
        self, state: PublishedState, tape: Tape, seen: Seen
    ) -> tuple[PublishedState, Scalar]:
        state = self._elapse(state, seen.now)
        value = self._base(seen) + state.load + state.bias
        value = jnp.where(jnp.isnan(value), 1.0, jnp.maximum(1.0, value))
        worker, best = jnp.zeros((), jnp.int32), value[0]
        for i in range(1, seen.workers):
            better = value[i] < best - 1.0
            worker, best = jnp.where(better, i, worker), jnp.where(better, value[i], best)
        return state, worker.astype(jnp.int32)

    def dispatch(
        self, state: PublishedState, tape: Tape, seen: Seen, worker: Scalar
    ) -> PublishedState:
        state, t = self._elapse(state, seen.now), seen.t
        base = self._base(seen)[worker]
        return state._replace(
            load=state.load.at[worker].add(jnp.round(base)),
            base=write(state.base, t, base),
            load_then=write(state.load_then, t, state.load[worker]),
            tick=write(state.tick, t, state.at),
        )

    def complete(self, state: PublishedState, tape: Tape, event: Event) -> PublishedState:
        state = self._elapse(state, event.time)
        t, worker = event.t, event.worker
        base = state.base[t]
        left = faded(jnp.round(base), state.at - state.tick[t])
        load = state.load.at[worker].set(jnp.maximum(0.0, state.load[worker] - left))
        latency = 1000 * (event.time - event.arrival)
        y = jnp.maximum(1.0, latency - base - state.load_then[t])
        spread = state.spread[worker]
        gain = spread / (self.forget + spread)
        bias = state.bias[worker] + gain * (y - state.bias[worker])
        spread = (spread - gain * spread) / self.forget
        masked = state.masked[worker]
        if self.masked:
            # ∞ times the zeros of the features
            bias = jnp.where(jnp.isinf(masked), jnp.nan, bias)
            masked = masked / self.forget
        return state._replace(
            load=load,
            bias=state.bias.at[worker].set(bias),
            spread=state.spread.at[worker].set(spread),
            masked=state.masked.at[worker].set(masked),
        )


def faded(load: Array, ticks: Array) -> Array:
    """A whole load after so many steps of ⌊31·load/32⌋."""
    return lax.while_loop(
        lambda carry: (carry[1] > 0) & (carry[0] > 0).any(),
        lambda carry: (jnp.floor(31 * carry[0] / 32), carry[1] - 1),
        (load, ticks),
    )[0]
