"""Yao's principle with a Markov chain of requests: the best online cost per query over OPT's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kvtheory.errors import bad
from kvtheory.ratio.average_cost import Move, Problem, explored, least_average
from kvtheory.ratio.exact_engine.forest import Forest, forest
from kvtheory.ratio.exact_engine.work_function import WorkFunctions
from kvtheory.tree import PrefixTree

Number = Fraction | int | float


@dataclass(frozen=True)
class MarkovRequests:
    """A Markov chain that emits a query on entering a state.

    Parameters
    ----------
    emits
        Unit at which the query of each state ends.
    transition
        ``transition[a][b]``, the probability of going from a to b; rows sum to 1. The chain must
        be irreducible.
    """

    emits: Sequence[int]
    transition: Sequence[Sequence[Number]]


@dataclass(frozen=True)
class YaoBound:
    """A lower bound on the competitive ratio of every randomised online algorithm.

    Attributes
    ----------
    ratio
        ``online / offline``.
    online
        No online algorithm has a smaller expected cost per query, even if it knows the chain.
    offline
        The optimum has at most this expected cost per query.
    exact
        Whether both are the rates themselves; otherwise they are proved bounds, equal to the rates
        up to rounding.
    states, work_functions
        (chain state, cache) pairs of the online problem; (chain state, w) pairs of the optimum.
    """

    ratio: Fraction
    online: Fraction
    offline: Fraction
    exact: bool
    states: int
    work_functions: int


def yao_lower_bound(
    requests: Mapping[int, Number] | MarkovRequests | None,
    tree: Forest | PrefixTree | Sequence[int] | str,
    capacity: int,
) -> YaoBound:
    """The best ratio of an online algorithm against random requests.

    Parameters
    ----------
    requests
        Probabilities of the units at which independent queries end; a `MarkovRequests`; or None
        for uniform leaves of a closed set of B + 1 units with as many leaves as there can be.
    tree, capacity
        As for `exact`.

    Raises
    ------
    InputError
        For probabilities that do not sum to 1, a chain that is not irreducible, a query longer
        than the capacity, or requests that the optimum serves at no cost in the long run.

    Guarantee
    ---------
    No randomised online algorithm has a competitive ratio below ``ratio`` (forced admission, equal
    miss costs, an oblivious adversary). The default requests give H_k with k the effective width.

    Notes
    -----
    The online side is a Markov decision process with average cost over (chain state, cache), the
    offline side a Markov chain over (chain state, w − min w). Both are solved in floating point;
    the values found, rounded to fractions h, prove min (Th − h) <= rate <= max (Th − h) exactly.

    Examples
    --------
    >>> bound = yao_lower_bound({q: Fraction(1, 3) for q in range(3)}, "star:leaves=3", 2)
    >>> bound.ratio, bound.online, bound.offline
    (Fraction(3, 2), Fraction(1, 3), Fraction(2, 9))
    >>> yao_lower_bound(None, "broom:L=2,leaves=5", 4).ratio
    Fraction(11, 6)

    References
    ----------
    Yao, "Probabilistic computations: toward a unified measure of complexity", FOCS 1977.
    Puterman, Markov Decision Processes, 1994, theorem 8.5.5 (the bounds).
    """
    units = forest(tree)
    if capacity < 1:
        raise bad("capacity", capacity, "must be at least 1 unit")
    if requests is None:
        leaves = widest(units, capacity)
        requests = dict.fromkeys(leaves, Fraction(1, len(leaves)))
    chain = _Chain(requests, units, capacity)
    online = least_average(_online_problem(chain, units, capacity))
    offline = least_average(_offline_problem(chain, units, capacity))
    if offline.high <= 0:
        raise bad("requests", requests, "cost the optimum nothing in the long run")
    return YaoBound(
        ratio=online.low / offline.high,
        online=online.low,
        offline=offline.high,
        exact=online.low == online.high and offline.low == offline.high,
        states=online.states,
        work_functions=offline.states,
    )


def widest(units: Forest, capacity: int) -> list[int]:
    """The leaves of an ancestor-closed set of B + 1 units with as many leaves as there can be.

    Examples
    --------
    Of the root with two children and the single root, three units are leaves in a set of four.

    >>> widest(Forest((-1, 0, 0, -1)), 3)
    [1, 2, 3]
    """
    full = [s for s in units.closed_sets(capacity + 1) if s.bit_count() == capacity + 1]
    if not full:
        raise bad("capacity", capacity, f"holds all {units.units} units")
    return max((units.leaves_of(s) for s in full), key=len)


class _Chain:
    """Where each state of the requests may go: probability, query, and state after it."""

    def __init__(
        self, requests: Mapping[int, Number] | MarkovRequests, units: Forest, capacity: int
    ) -> None:
        if isinstance(requests, MarkovRequests):
            rows, emits = requests.transition, list(requests.emits)
            if any(len(row) != len(emits) for row in rows) or len(rows) != len(emits):
                raise bad("transition", f"{len(rows)} rows", f"must be {len(emits)} × {len(emits)}")
            moves = [
                [(Fraction(p), q, b) for b, (p, q) in enumerate(zip(row, emits, strict=True))]
                for row in rows
            ]
            _check_irreducible([[float(p) for p in row] for row in rows])
        else:
            moves = [[(Fraction(p), q, 0) for q, p in requests.items()]]
        self.moves = [[move for move in row if move[0]] for row in moves]
        for row in self.moves:
            total = sum(p for p, _, _ in row)
            if any(p < 0 for p, _, _ in row) or total != 1:
                raise bad(
                    "requests",
                    str(total),
                    "probabilities must be at least 0 and sum to 1 "
                    "(write them as fractions.Fraction)",
                )
            for _, q, _ in row:
                if not 0 <= q < units.units or len(units.path(q)) > capacity:
                    raise bad("requests", q, f"must end at units below {units.units} that fit B")


def _online_problem(chain: _Chain, units: Forest, capacity: int) -> Problem:
    closed = units.closed_sets(capacity)

    def after(cached: int, query: int) -> tuple[int, list[int]]:
        path = units.path_mask(query)
        union = cached | path
        size = min(capacity, union.bit_count())
        fitting = [s for s in closed if s.bit_count() == size and not s & ~union]
        return (path & ~cached).bit_count(), [s for s in fitting if not path & ~s]

    return _explored(chain, 0, after)


def _offline_problem(chain: _Chain, units: Forest, capacity: int) -> Problem:
    queries = sorted({q for row in chain.moves for _, q, _ in row})
    place = {q: i for i, q in enumerate(queries)}
    work = WorkFunctions(units, capacity, queries)

    def after(w: int, query: int) -> tuple[int, list[int]]:
        nexts, increases = work.after(np.array([w]))
        return int(increases[0, place[query]]), [int(nexts[0, place[query]])]

    return _explored(chain, work.start(), after)


def _explored(
    chain: _Chain, start: int, after: Callable[[int, int], tuple[int, list[int]]]
) -> Problem:
    def moves(at: tuple[int, int]) -> list[Move[tuple[int, int]]]:
        out: list[Move[tuple[int, int]]] = []
        for p, query, m in chain.moves[at[0]]:
            cost, nexts = after(at[1], query)
            out.append((p, cost, [(m, then) for then in nexts]))
        return out

    return explored((0, start), moves)


def _check_irreducible(transition: list[list[float]]) -> None:
    from scipy.sparse.csgraph import connected_components

    if connected_components(np.array(transition) > 0, connection="strong")[0] > 1:
        raise bad("transition", transition, "must be irreducible: every state leads to every other")
