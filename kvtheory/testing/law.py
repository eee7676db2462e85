"""The exact law of a randomised twin, by enumerating every sequence of draws."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from kvtheory.testing.twin_cache import Twin


class RandomTwinFactory(Protocol):
    """What makes a twin for given draws, for example ``partial(TWINS["rlt"], phase="query")``."""

    def __call__(self, capacity: int, *, choose: Callable[[int], int]) -> Twin:
        """A fresh twin that takes its draws from ``choose``."""
        ...


def law(
    twin_factory: RandomTwinFactory, sequences: Sequence[Sequence[int]], capacity: int
) -> dict[tuple[int, ...], Fraction]:
    """The exact distribution of the hits of all queries.

    Each sequence of draws is replayed from the start; a draw among n has probability 1/n.

    Returns
    -------
    dict
        For each tuple of hits per query that can occur its probability; they sum to 1.

    Notes
    -----
    The runs are as many as there are sequences of draws: keep the instance tiny.

    Examples
    --------
    >>> from kvtheory.testing import TWINS
    >>> law(TWINS["random_leaf"], [[1], [2], [3], [1]], 2)
    {(0, 0, 0, 0): Fraction(1, 2), (0, 0, 0, 1): Fraction(1, 2)}
    """
    probability: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    to_replay: list[list[int]] = [[]]
    while to_replay:
        replay = Replay(to_replay.pop())
        hits = twin_factory(capacity, choose=replay.choose).run(sequences)
        probability[tuple(hits)] += replay.probability
        to_replay.extend(replay.others)
    return dict(sorted(probability.items()))


class Replay:
    """Takes the given draws, then the first candidate, and lists the draws that it did not take."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.taken: list[int] = []
        self.others: list[list[int]] = []
        self.probability = Fraction(1)

    def choose(self, n: int) -> int:
        """The next index below ``n``."""
        at = len(self.taken)
        if at < len(self.script):
            index = self.script[at]
        else:
            index = 0
            self.others.extend([*self.taken, other] for other in range(1, n))
        self.taken.append(index)
        self.probability /= n
        return index


def expected_hits(
    twin_factory: RandomTwinFactory, sequences: Sequence[Sequence[int]], capacity: int
) -> list[Fraction]:
    """The exact expected hits of each query."""
    expected = [Fraction(0)] * len(sequences)
    for hits, probability in law(twin_factory, sequences, capacity).items():
        expected = [e + probability * h for e, h in zip(expected, hits, strict=True)]
    return expected
