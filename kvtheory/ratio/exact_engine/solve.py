"""From the explored graph to the ratio: worst cycle, proof, and the requests behind them."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from kvtheory.ratio.exact_engine.belief_graph import BeliefGraph
from kvtheory.ratio.exact_engine.potential import Potential, prove
from kvtheory.ratio.exact_engine.product import Product
from kvtheory.ratio.exact_engine.ratio_cycle import Graph, best_cycle
from kvtheory.ratio.exact_engine.result import Certificate
from kvtheory.ratio.exact_engine.symmetry import Symmetry

# Nothing is below OPT, so cycles of at least this ratio are looked for.
JUST_BELOW_ONE = 1 - 1e-6

Cycle = tuple[list[int], list[int]]  # states, and the place of the query at each


def solve(
    product: Product, beliefs: BeliefGraph, group: Symmetry, late: Callable[[], bool]
) -> tuple[Fraction | None, Cycle, Certificate | None]:
    """The ratio, a cycle that reaches it, and the proof.

    Parameters
    ----------
    product, beliefs, group
        The explored graph, where its costs are, and the symmetries that it was folded by.
    late
        Asked now and then; if so, the search ends with what it has.

    Returns
    -------
    tuple
        The ratio, None if it is unbounded, and 1 if no cycle costs anything, as the algorithm then
        misses finitely often; the states and queries of the cycle; and the certificate, None if
        the graph is not whole, time was up, or the ratio is unbounded.
    """
    graph = Graph(product.states, product.next, product.increase)
    costs = beliefs.cost

    def cost(part: slice) -> np.ndarray:
        return costs[product.belief[part]]

    found = best_cycle(graph, cost, JUST_BELOW_ONE, late)
    cycle: Cycle = ([], []) if found is None else (found[0], found[1])
    while True:
        total, increase = sums(product, beliefs, *cycle)
        if total and not increase:
            return None, cycle, None
        ratio = total / increase if increase else Fraction(1)
        if product.stopped or late():
            return ratio, cycle, None
        proof = prove(graph, product.belief, beliefs.costs, ratio, late)
        if proof is None:
            return ratio, cycle, None
        if isinstance(proof, Potential):
            return ratio, cycle, certificate_of(product, group, proof)
        cycle = proof  # its ratio is above by less than floats can see


def certificate_of(product: Product, group: Symmetry, proof: Potential) -> Certificate:
    """The proof with the graph that it is about."""
    return Certificate(
        next=product.next,
        turn=product.turn,
        permutations=group.permutations,
        potential=proof.values,
        scale=proof.scale,
        ratio=proof.ratio,
    )


def sums(
    product: Product, beliefs: BeliefGraph, states: Sequence[int], places: Sequence[int]
) -> tuple[Fraction, int]:
    """Expected misses and increase of OPT along some edges, exactly."""
    cost, increase = Fraction(0), 0
    for s, q in zip(states, places, strict=True):
        cost += beliefs.costs[int(product.belief[s])][q]
        increase += int(product.increase[s, q])
    return cost, increase


def unrolled(
    product: Product,
    group: Symmetry,
    queries: Sequence[int],
    states: Sequence[int],
    places: Sequence[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The units to ask for up to the cycle and around it, symmetry undone."""
    if not states:
        return (), ()
    first = min(range(len(states)), key=lambda i: states[i])  # the state reached soonest
    states = [*states[first:], *states[:first]]
    places = [*places[first:], *places[:first]]
    edges: list[tuple[int, int]] = []
    s = states[0]
    while product.parent[s] >= 0:
        edges.append((int(product.parent[s]), int(product.asked[s])))
        s = int(product.parent[s])
    real = list(range(len(group.permutations[0])))  # the true unit behind each unit of a state

    def walk(edges: Sequence[tuple[int, int]]) -> list[int]:
        nonlocal real
        asked = []
        for s, q in edges:
            asked.append(real[queries[q]])
            turn = group.as_tuples[int(product.turn[s, q])]
            moved = list(real)
            for u, image in enumerate(turn):
                moved[image] = real[u]
            real = moved
        return asked

    prefix = walk(edges[::-1])
    at_start = real
    cycle: list[int] = []
    while not cycle or real != at_start:
        cycle += walk(list(zip(states, places, strict=True)))
    return tuple(prefix), tuple(cycle)
