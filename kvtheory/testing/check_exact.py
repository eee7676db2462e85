"""Check the proof of an exact competitive ratio by literal means, in fractions.

Nothing here is shared with the engine: beliefs are laws of literal states, moved by the twins;
work functions are tables over the caches as sets, moved by the definition. Automorphisms,
transitions and potential are the engine's claims, and each is checked.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

from kvtheory.testing.exact_states import States, states_of
from kvtheory.testing.law import Replay

Law = dict[Hashable, Fraction]
Work = tuple[int, ...]  # w − min w of each cache


class CertificateError(AssertionError):
    """A claim about an exact ratio that does not hold."""


@dataclass(frozen=True)
class ExactReport:
    """What was checked: states reached and inequalities that hold."""

    states: int
    edges: int


class _Literal:
    """The policy and the optimum on one forest, by definition."""

    def __init__(
        self, parents: Sequence[int], capacity: int, policy: str, states: States | None
    ) -> None:
        self.paths: list[list[int]] = []
        for u, parent in enumerate(parents):
            self.paths.append([*(self.paths[parent] if parent >= 0 else []), u])
        self.policy = states or states_of(policy, self.paths, capacity)
        units = range(len(parents))
        self.caches = [
            frozenset(chosen)
            for size in range(capacity + 1)
            for chosen in combinations(units, size)
            if all(parents[u] < 0 or parents[u] in chosen for u in chosen)
        ]
        self.place = {c: i for i, c in enumerate(self.caches)}
        self.start: tuple[Law, Work] = (
            {self.policy.start: Fraction(1)},
            tuple(len(c) for c in self.caches),
        )
        self.outcomes = cache(self._outcomes)
        self.work_after = cache(self._work_after)

    def after(self, at: tuple[Law, Work], query: int) -> tuple[Fraction, int, tuple[Law, Work]]:
        """Expected misses, increase of OPT, and where a query leads."""
        law, cost = dict[Hashable, Fraction](), Fraction(0)
        for state, weight in at[0].items():
            for probability, misses, then in self.outcomes(state, query):
                cost += weight * probability * misses
                law[then] = law.get(then, Fraction(0)) + weight * probability
        increase, work = self.work_after(at[1], query)
        return cost, increase, (law, work)

    def _outcomes(self, state: Hashable, query: int) -> list[tuple[Fraction, int, Hashable]]:
        found, to_replay = [], [list[int]()]
        while to_replay:
            replay = Replay(to_replay.pop())
            misses, then = self.policy.serve(state, query, replay.choose)
            found.append((replay.probability, misses, then))
            to_replay += replay.others
        return found

    def _work_after(self, work: Work, query: int) -> tuple[int, Work]:
        path = set(self.paths[query])
        serving = [(work[i], c) for i, c in enumerate(self.caches) if path <= c]
        after = [min(w + len(s - c) for w, c in serving) for s in self.caches]
        least = min(after)
        return least, tuple(w - least for w in after)

    def renamed(self, at: tuple[Law, Work], permutation: Sequence[int]) -> tuple[Law, Work]:
        law = {self.policy.renamed(state, permutation): p for state, p in at[0].items()}
        work = [0] * len(self.caches)
        for c, w in zip(self.caches, at[1], strict=True):
            work[self.place[frozenset(permutation[u] for u in c)]] = w
        return law, tuple(work)


def check_exact_certificate(
    result: Any, *, states: States | None = None, most: int | None = None
) -> ExactReport:
    """Verify an exact ratio: worst case, transitions, symmetries and potential.

    Parameters
    ----------
    result
        What `kvtheory.ratio.exact` returned, with a certificate. Of an unbounded ratio the worst
        case alone is checked: it is the proof.
    states
        The literal states of the policy; by default those of its name.
    most
        Check only this many states, the first that are reached. All by default: a proof.

    Raises
    ------
    CertificateError
        Naming the first claim that does not hold.

    Notes
    -----
    State 0 stands for the start. Every edge is followed by the literal rules from a literal state
    that its state stands for; where it leads, moved by the automorphism that is claimed, must be
    what the next state stands for. By induction the graph is the true one, and the inequality
    cost + Φ(next) − Φ(state) <= ratio·ΔOPT on all edges is the theorem. Cost: about a
    millisecond an edge.
    """
    literal = _Literal(result.parents, result.capacity, result.policy, states)
    _check_worst_case(result, literal)
    if result.status == "unbounded":
        return ExactReport(0, len(result.cycle))
    proof = result.certificate
    if proof is None:
        raise CertificateError(f"{result} has no certificate")
    if not (result.upper == proof.ratio and result.fraction <= proof.ratio):
        raise CertificateError(f"the proof is for {proof.ratio}, not for {result.upper}")
    _check_automorphisms(proof.permutations.tolist(), result.parents, set(result.queries))
    potential = [Fraction(int(v), proof.scale) for v in proof.potential]
    stands_for: dict[int, tuple[Law, Work]] = {0: literal.start}
    to_do, edges, done = deque([0]), 0, 0
    while to_do and (most is None or done < most):
        s = to_do.popleft()
        done += 1
        for place, q in enumerate(result.queries):
            cost, increase, then = literal.after(stands_for[s], q)
            after = int(proof.next[s, place])
            if cost + potential[after] - potential[s] > proof.ratio * increase:
                raise CertificateError(
                    f"state {s}, query {q}: cost {cost}, potential {potential[s]} to "
                    f"{potential[after]}, is more than {proof.ratio} · {increase}"
                )
            then = literal.renamed(then, proof.permutations[proof.turn[s, place]].tolist())
            if after not in stands_for:
                stands_for[after] = then
                to_do.append(after)
            elif stands_for[after] != then:
                raise CertificateError(f"state {s}, query {q} does not lead to state {after}")
            edges += 1
    return ExactReport(done, edges)


def check_adaptive_bound(result: Any, *, states: States | None = None) -> ExactReport:
    """Verify a bound against adversaries who see the coins: ``result.adaptive``.

    Parameters
    ----------
    result
        What `kvtheory.ratio.exact` returned for a policy without a finite belief.
    states
        The literal states of the policy; by default those of its name.

    Raises
    ------
    CertificateError
        Naming the first pair that has no potential, or query that breaks the inequality.

    Notes
    -----
    Literal states and work functions are followed from the start by every query and every draw.
    """
    literal = _Literal(result.parents, result.capacity, result.policy, states)
    proof = result.adaptive
    if proof is None or result.upper != proof.ratio:
        raise CertificateError(f"{result} has no bound from above that is proved")
    place = {units: i for i, units in enumerate(map(_units_of, proof.sets))}
    order = [place[cache] for cache in literal.caches]
    columns = zip(proof.cached, proof.marked, proof.work.tolist(), proof.potential, strict=True)
    potential = {
        ((_units_of(cached), _units_of(marked)), tuple(work[i] for i in order)): phi
        for cached, marked, work, phi in columns
    }
    start = (literal.policy.start, literal.start[1])
    to_do, seen, edges = [start], {start}, 0
    while to_do:
        state, work = to_do.pop()
        for q in result.queries:
            increase, after = literal.work_after(work, q)
            total = Fraction(0)
            for probability, misses, then in literal.outcomes(state, q):
                pair = (then, after)
                if pair not in potential:
                    raise CertificateError(f"{pair} has no potential")
                total += probability * (misses + potential[pair])
                if pair not in seen:
                    seen.add(pair)
                    to_do.append(pair)
            if total - potential[state, work] > proof.ratio * increase:
                raise CertificateError(
                    f"cache and marks {state}, query {q}: {total - potential[state, work]} is more "
                    f"than {proof.ratio} · {increase}"
                )
            edges += 1
    return ExactReport(len(seen), edges)


def _units_of(mask: int) -> frozenset[int]:
    return frozenset(u for u in range(mask.bit_length()) if mask >> u & 1)


def _check_worst_case(result: Any, literal: _Literal) -> None:
    at = literal.start
    for q in result.prefix:
        at = literal.after(at, q)[2]
    start, cost, optimum = at, Fraction(0), 0
    for q in result.cycle:
        step, increase, at = literal.after(at, q)
        cost += step
        optimum += increase
    if not set(result.prefix + result.cycle) <= set(result.queries):
        raise CertificateError("the worst case has queries that may not be asked")
    if (cost, optimum) != (result.cycle_cost, result.cycle_optimum):
        raise CertificateError(
            f"the cycle costs {cost} and {optimum} to the optimum, "
            f"not {result.cycle_cost} and {result.cycle_optimum}"
        )
    if at != start:
        raise CertificateError("the cycle does not end where it begins")
    if result.status == "unbounded":
        if optimum or not cost:
            raise CertificateError(f"the cycle costs {cost} and {optimum} to the optimum")
    elif result.cycle and cost != result.fraction * optimum:
        raise CertificateError(f"the cycle has ratio {cost / optimum}, not {result.fraction}")


def _check_automorphisms(
    permutations: Sequence[Sequence[int]], parents: Sequence[int], queries: set[int]
) -> None:
    for p in permutations:
        above = [-1 if parent < 0 else p[parent] for parent in parents]
        keeps = sorted(p) == list(range(len(parents)))
        keeps = keeps and all(parents[p[u]] == above[u] for u in range(len(parents)))
        if not keeps or {p[q] for q in queries} != queries:
            raise CertificateError(f"{list(p)} is no automorphism that keeps the queries")
