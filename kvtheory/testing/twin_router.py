"""What the slow routers share: draws that a test can script, ties, and experts that only advise."""

import bisect
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

from kvtheory.errors import bad
from kvtheory.testing.twin_view import Query, View

Number = float | Fraction


class Draws:
    """Random choices from a stream of uniform numbers, one per choice.

    Parameters
    ----------
    uniform
        Returns a number in [0, 1), for example ``random.Random(seed).random``.
    """

    def __init__(self, uniform: Callable[[], float]) -> None:
        self.uniform = uniform

    def choose(self, n: int) -> int:
        """An index below ``n``: ⌊u·n⌋. One candidate needs no draw."""
        return int(self.uniform() * n) if n > 1 else 0

    def pick(self, weights: Sequence[float]) -> int:
        """An index with probability in proportion to ``weights``: the first with Σ > u·total."""
        sums = list(itertools.accumulate(weights))
        at = bisect.bisect_right(sums, self.uniform() * sums[-1])
        return min(at, max(i for i, w in enumerate(weights) if w > 0))


class ScriptedDraws(Draws):
    """Takes given indices, then the first possible ones, and lists the scripts not taken."""

    def __init__(self, script: Sequence[int] = ()) -> None:
        self.script = list(script)
        self.taken: list[int] = []
        self.others: list[list[int]] = []
        self.probability = 1.0

    def choose(self, n: int) -> int:
        """The next index, each of ``n`` being as likely."""
        return self.pick([1.0] * n) if n > 1 else 0

    def pick(self, weights: Sequence[float]) -> int:
        """The next index, by the law of ``weights``."""
        possible = [i for i, w in enumerate(weights) if w > 0]
        at = len(self.taken)
        if at < len(self.script):
            index = self.script[at]
        else:
            index = possible[0]
            self.others += [[*self.taken, other] for other in possible[1:]]
        self.taken.append(index)
        self.probability *= weights[index] / sum(weights)
        return index


def outcomes[T](run: Callable[[ScriptedDraws], T]) -> dict[T, float]:
    """The exact law of what ``run`` returns, by enumerating every sequence of draws.

    Examples
    --------
    >>> outcomes(lambda draws: (draws.choose(2), draws.pick([1, 0, 3])))
    {(0, 0): 0.125, (0, 2): 0.375, (1, 0): 0.125, (1, 2): 0.375}
    """
    probability: dict[T, float] = {}
    scripts: list[list[int]] = [[]]
    while scripts:
        draws = ScriptedDraws(scripts.pop())
        result = run(draws)
        probability[result] = probability.get(result, 0.0) + draws.probability
        scripts = sorted(scripts + draws.others, reverse=True)
    return probability


class RouterTwin:
    """Base of the slow routers: `propose` names a worker, `dispatch` notes what was sent where.

    The two are apart so that a router can be an expert of another one, whose proposals need not be
    followed while its accounts still hold what was really sent.

    Parameters
    ----------
    workers
        Number of workers, M.
    draws
        Random choices; routers without any do not need it. A tie among one needs no draw.
    """

    def __init__(self, workers: int, *, draws: Draws | None = None) -> None:
        if workers < 1:
            raise bad("workers", workers, "must be at least 1")
        self.workers = workers
        self.given_draws = draws

    @property
    def draws(self) -> Draws:
        """The random choices."""
        if self.given_draws is None:
            raise bad("draws", None, f"{type(self).__name__} draws: pass Draws(random.random)")
        return self.given_draws

    def route(self, query: Query, view: View, now: float) -> int:
        """Choose a worker and send the query there."""
        worker = self.propose(query, view, now)
        self.dispatch(query, view, now, worker)
        return worker

    def propose(self, query: Query, view: View, now: float) -> int:
        """The worker that the rule names."""
        raise NotImplementedError

    def dispatch(self, query: Query, view: View, now: float, worker: int) -> None:
        """Note that ``query`` was sent to ``worker``."""

    def first_token(self, query: Query, worker: int, now: float) -> None:
        """Note the first token of ``query`` on ``worker``."""

    def complete(self, query: Query, worker: int, now: float) -> None:
        """Note the completion of ``query`` on ``worker``."""

    def uniform_among(self, candidates: Sequence[int]) -> int:
        """One of the candidates, all being as likely."""
        return (
            candidates[self.draws.choose(len(candidates))] if len(candidates) > 1 else candidates[0]
        )


def least(values: Sequence[Number], among: Sequence[int] | None = None) -> list[int]:
    """The workers with the smallest value, in order of index.

    Examples
    --------
    >>> least([3, 1, 2, 1]), least([3, 1, 2, 1], among=[0, 2])
    ([1, 3], [2])
    """
    among = range(len(values)) if among is None else among
    smallest = min(values[i] for i in among)
    return [i for i in among if values[i] == smallest]


def most(values: Sequence[Number], among: Sequence[int] | None = None) -> list[int]:
    """The workers with the largest value, in order of index."""
    return least([-v for v in values], among)
