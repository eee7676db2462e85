"""What a request sequence of any length can gain at most: longest paths, round by round."""

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any

Number = Fraction | int
Move = tuple[int, Number, Hashable]  # the query, what it gains, where it leads


class TooMany(RuntimeError):
    """The graph has more states than were allowed."""


def most_gained(
    start: Hashable,
    moves: Callable[[Any], Iterable[Move]],
    allowed: Number | None = 0,
    most_states: int = 200_000,
) -> tuple[Number, list[int] | None, int]:
    """The largest sum of gains along a path from the start, over paths of every length.

    Parameters
    ----------
    start, moves
        The graph, finite.
    allowed
        Stop at the first sequence that gains more than this, which is a shortest one. None: any
        sum is allowed, but no cycle may gain, or sums have no bound.
    most_states
        More are refused.

    Returns
    -------
    gained, sequence, states
        The largest sum, the queries that gain too much (or the cycle that gains; None if nothing
        does), and the size of the graph.

    Notes
    -----
    Round t extends the best paths of t queries. If no cycle gains, nothing improves after as many
    rounds as there are states, and the sums found are those over paths of any length.
    """
    best: dict[Hashable, Number] = {start: 0}
    edges: dict[Hashable, list[Move]] = {}
    changed: dict[Hashable, tuple[Number, Any]] = {start: (0, None)}
    rounds = 0
    while changed:
        rounds += 1
        then: dict[Hashable, tuple[Number, Any]] = {}
        for state, (sofar, trail) in changed.items():
            if state not in edges:
                edges[state] = list(moves(state))
            for query, gain, after in edges[state]:
                total = sofar + gain
                if after not in best or total > best[after]:
                    best[after] = total
                    then[after] = (total, (trail, state, query))
                    if allowed is not None and total > allowed:
                        return total, _steps(then[after][1])[0], len(best)
        if len(best) > most_states:
            raise TooMany(f"more than {most_states} states")
        if allowed is None and rounds > len(best):
            state, (total, trail) = next(iter(then.items()))
            return total, _cycle(*_steps(trail), state), len(best)
        changed = then
    return max(best.values()), None, len(best)


def _steps(trail: Any) -> tuple[list[int], list[Hashable]]:
    queries, states = [], []
    while trail is not None:
        trail, state, query = trail
        queries.append(query)
        states.append(state)
    return queries[::-1], states[::-1]


def _cycle(queries: list[int], states: list[Hashable], last: Hashable) -> list[int]:
    # the path has more steps than there are states, so it comes back
    seen = {last: len(states)}
    for i in reversed(range(len(states))):
        if states[i] in seen:
            return queries[i : seen[states[i]]]
        seen[states[i]] = i
    raise AssertionError("a path longer than the graph comes back somewhere")
