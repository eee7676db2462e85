"""The exact competitive ratio of an online algorithm on a small forest."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import comb

from kvtheory.errors import bad
from kvtheory.ratio.exact_engine.adaptive_bound import adaptive_bound
from kvtheory.ratio.exact_engine.belief_graph import BeliefGraph
from kvtheory.ratio.exact_engine.beliefs import BeliefModel, Beliefs, Foldable
from kvtheory.ratio.exact_engine.forest import Forest, Queries, chosen_queries, forest
from kvtheory.ratio.exact_engine.models import beliefs as parse_beliefs
from kvtheory.ratio.exact_engine.no_finite_belief import (
    LawOfState,
    RoundedLaw,
    UniformUnmarked,
    cost_of_cycle,
    optimum_of_cycle,
)
from kvtheory.ratio.exact_engine.product import explore
from kvtheory.ratio.exact_engine.result import Exact, Status
from kvtheory.ratio.exact_engine.solve import solve, sums, unrolled
from kvtheory.ratio.exact_engine.symmetry import Symmetry
from kvtheory.ratio.exact_engine.work_function import WorkFunctions
from kvtheory.tree import PrefixTree

MAX_STATES = 2_000_000
# Parts of a rounded law, and those that do not count.
ROUNDINGS = ((12, 0), (24, 0), (24, 2), (60, 2))
LONGEST_CYCLE = 400
FEW_LAWS = 3_000
# Pairs of a state and a work function up to which a bound from above is a matter of seconds.
FEW_PAIRS = 1_000


def exact(
    policy: str | Beliefs,
    tree: Forest | PrefixTree | Sequence[int] | str,
    capacity: int,
    *,
    queries: Queries = "all",
    objective: str = "misses",
    max_states: int = MAX_STATES,
    time_limit: float | None = None,
    symmetry: bool = True,
    progress: Callable[[str, float], object] | None = None,
) -> Exact:
    """The competitive ratio of an online algorithm, with a worst case and a proof.

    States are pairs of what an adversary who knows the algorithm but not its coins can say of it
    (its *belief*) and the work function less its minimum. An edge is a query; it costs the expected
    misses and raises OPT. The ratio is the largest Σ cost / Σ increase of a cycle, and the cycle is
    a request sequence that reaches it.

    Parameters
    ----------
    policy
        A name with parameters: ``llru``, ``fifo``, ``mru``, ``lfu:cap=3`` (counts stop at the
        cap), ``slru``, ``rlt`` (token phases), ``lrlt``, ``lrlt:stem=true``, ``layered:victim=…``;
        or an object as `Beliefs` describes. ``random_leaf``, ``rlt:phase=query`` and
        ``rlt:phase=published`` have no finite belief and get bounds from below and above.
    tree
        A forest of at most 15 units: parents, a `PrefixTree`, or a text as `forest` reads it.
    capacity
        B, units of the cache.
    queries
        Where queries may end: ``"all"`` nodes, ``"leaves"`` of the tree, or a list of units.
    objective
        ``"misses"``, in units.
    max_states, time_limit
        States, and seconds, at which the search stops with the best lower bound so far.
    symmetry
        Whether states that an automorphism of the forest maps to each other are one. Without it
        the ratio is the same.
    progress
        Called with what is going on, and by how much of the whole it has gone on.

    Raises
    ------
    InputError
        For an unknown policy, tree, query or objective, or a query longer than the capacity.

    Guarantee
    ---------
    For forced admission, equal miss costs, empty caches at the start and an oblivious adversary:
    ALG <= ratio·OPT + a constant on every sequence of these queries, and no smaller ratio holds.
    ``certificate`` proves it without rounding. Where ``status`` is another, ``fraction`` is a lower
    bound that the cycle proves; with ``"lower bound"``, ``upper`` is what ``adaptive`` proves.

    Notes
    -----
    Cost: states × queries, times a few dozen sweeps. Work functions are keyed by their values.
    4 chains of 2 units at B = 4: 7,368 states for RLT, 361 up to symmetry. Leaf LRU on a star of 9
    at B = 5, symmetry left aside: 4.8 million states, a minute of one core, 2 GiB. Without a finite
    belief, cycles come from laws rounded to whole parts, and what they cost in the long run is
    worked out without rounding.

    Examples
    --------
    >>> result = exact("rlt", "broom:L=2,leaves=4", 4, queries="leaves")
    >>> result.fraction
    Fraction(11, 6)
    >>> exact("llru", "chains:n=3,length=2", 4).fraction
    Fraction(2, 1)

    References
    ----------
    Koutsoupias and Papadimitriou 2000 (offset functions); Fiat et al. 1991; Achlioptas, Chrobak
    and Noga 2000 (marking: 2·H_k − 1).
    """
    begin = time.perf_counter()
    if objective != "misses":
        raise bad("objective", objective, "must be 'misses'")
    if max_states < 1:
        raise bad("max_states", max_states, "must be at least 1")
    if time_limit is not None and not time_limit > 0:
        raise bad("time_limit", time_limit, "must be a positive number of seconds")
    units = forest(tree)
    if capacity < 1:
        raise bad("capacity", capacity, "must be at least 1 unit")
    asked = chosen_queries(units, queries, capacity)
    kind = parse_beliefs(policy) if isinstance(policy, str) else policy
    model = kind.on(units, capacity)
    tell = progress or (lambda what, done: None)
    told = [0.0]

    def say(what: str, share: float) -> None:
        share = max(share, told[0])
        tell(what, share - told[0])
        told[0] = share

    def late() -> bool:
        return time_limit is not None and time.perf_counter() - begin > time_limit

    def stop(states: int) -> str:
        say(f"{states:,} states", 0.8 * min(1.0, states / max_states))
        return "states" if states > max_states else "time" if late() else ""

    def grace() -> bool:  # what has been found should not be lost for want of a cycle
        return time_limit is not None and time.perf_counter() - begin > 1 + 1.2 * time_limit

    search = Search(units, capacity, asked, symmetry, stop, grace, say)
    name = policy if isinstance(policy, str) else kind.name
    if isinstance(model, UniformUnmarked):
        result = search.bounded(name, model)
    else:
        result = search.exact(name, model)
    say("done", 1.0)
    return replace(result, seconds=time.perf_counter() - begin)


class Search:
    """One forest, capacity and set of queries; the arguments are those of `exact`.

    ``stop`` says after how many states to stop exploring, and why; ``late`` when to stop solving.
    """

    def __init__(
        self,
        units: Forest,
        capacity: int,
        queries: tuple[int, ...],
        symmetry: bool,
        stop: Callable[[int], str],
        late: Callable[[], bool],
        say: Callable[[str, float], None],
    ) -> None:
        self.units, self.capacity, self.queries = units, capacity, queries
        self.symmetry, self.stop, self.late, self.say = symmetry, stop, late, say

    def exact(self, name: str, model: BeliefModel) -> Exact:
        """The ratio of an algorithm with finite beliefs."""
        fold = self.symmetry and isinstance(model, Foldable)
        group = Symmetry(self.units, self.queries, **({} if fold else {"most": 1}))
        graph = BeliefGraph(model, group, self.queries)
        work = WorkFunctions(self.units, self.capacity, self.queries)
        bound = states_bound(model, self.units, self.capacity)
        self.say("no bound on the states" if bound is None else f"at most {bound:,} states", 0.0)
        product = explore(graph, work, group, self.stop)
        self.say(f"{product.states:,} states: worst cycle", 0.8)
        ratio, cycle, certificate = solve(product, graph, group, self.late)
        status: Status = "exact" if certificate else product.stopped or "time"  # type: ignore
        prefix, around = unrolled(product, group, self.queries, *cycle)
        repeats = len(around) // len(cycle[0]) if around else 1
        cost, increase = sums(product, graph, *cycle)
        return Exact(
            policy=name,
            parents=self.units.parents,
            capacity=self.capacity,
            queries=self.queries,
            ratio=math.inf if ratio is None else float(ratio),
            fraction=ratio,
            upper=None if certificate is None else certificate.ratio,
            prefix=prefix,
            cycle=around,
            cycle_cost=cost * repeats,
            cycle_optimum=increase * repeats,
            states=product.states,
            edges=product.edges,
            beliefs=len(graph),
            work_functions=len(work),
            automorphisms=group.order,
            states_bound=bound,
            status="unbounded" if ratio is None else status,
            seconds=0.0,
            certificate=certificate,
        )

    def bounded(self, name: str, policy: UniformUnmarked) -> Exact:
        """The ratio if the laws of the policy are few after all, or else bounds.

        From below the largest ratio of the cycles that the first laws and rounded ones suggest,
        each worked out without rounding; from above that against an adaptive adversary.
        """
        whole = self.stop
        self.stop = lambda states: whole(states) or ("states" if states > FEW_LAWS else "")
        best = self.exact(name, LawOfState(policy))
        self.stop = whole
        if best.status in ("exact", "unbounded"):
            return best
        best = replace(best, status="lower bound")
        for grain, spurious in ROUNDINGS:
            found = self.exact(name, RoundedLaw(policy, grain, spurious))
            if 0 < len(found.cycle) <= LONGEST_CYCLE:
                best = max(best, self._true(found, policy), key=lambda result: result.ratio)
            if self.late():
                return best
        self.say("a bound from above", 0.9)
        bound = adaptive_bound(
            policy,
            WorkFunctions(self.units, self.capacity, self.queries),
            self.queries,
            lambda pairs: pairs > FEW_PAIRS or self.late(),
        )
        return best if bound is None else replace(best, upper=bound.ratio, adaptive=bound)

    def _true(self, found: Exact, policy: UniformUnmarked) -> Exact:
        """What the cycle that rounded laws suggest really costs."""
        self.say(f"a cycle of {len(found.cycle)} queries", 0.8)
        cycles, optimum = optimum_of_cycle(self.units, self.capacity, found.cycle)
        # rounding may make up a cycle that costs the optimum nothing
        cost = cost_of_cycle(policy, found.cycle) * cycles if optimum else Fraction(0)
        ratio = cost / optimum if optimum else Fraction(0)
        return replace(
            found,
            ratio=float(ratio),
            fraction=ratio,
            upper=None,
            prefix=(),
            cycle=found.cycle * cycles,
            cycle_cost=cost,
            cycle_optimum=optimum,
            states_bound=None,
            status="lower bound",
            certificate=None,
        )


def states_bound(model: BeliefModel, units: Forest, capacity: int) -> int | None:
    """At most as many states, symmetry apart: bounds on beliefs and on work functions, multiplied.

    A work function is given by its layers, at most B disjoint sets in order (`kvtheory.layers`).
    """
    of_beliefs = getattr(model, "belief_bound", None)
    if of_beliefs is None:
        return None
    n = units.units
    of_work = sum(
        comb(n, s) * sum((-1) ** (b - j) * comb(b, j) * j**s for j in range(b + 1))
        for s in range(n + 1)
        for b in range(min(capacity, s) + 1)
    )
    return of_beliefs() * of_work
