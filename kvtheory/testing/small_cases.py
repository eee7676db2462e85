"""Seeded random tiny instances, and how to make a failing one smaller; needs no hypothesis."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import jax
import numpy as np
from jaxtyping import Array, Key

from kvtheory.instance import Instance


@dataclass(frozen=True)
class Case:
    """A request sequence, a capacity, and a seed of all else that a check draws.

    Queries longer than the capacity are to be skipped.
    """

    sequences: tuple[tuple[int, ...], ...]
    capacity: int
    seed: int = 0

    @property
    def instance(self) -> Instance:
        """The sequences as an instance."""
        return Instance.from_tokens([list(tokens) for tokens in self.sequences])

    @property
    def key(self) -> Key[Array, ""]:
        """The key of a randomised policy."""
        return jax.random.key(self.seed)

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator."""
        return np.random.default_rng(self.seed)

    @property
    def longest(self) -> int:
        """Units of the longest query."""
        return max(map(len, self.sequences), default=0)

    @property
    def fits(self) -> bool:
        """Whether no query is skipped."""
        return self.longest <= self.capacity

    def __str__(self) -> str:
        return f"capacity {self.capacity}, requests {[list(s) for s in self.sequences]}"


def random_cases(
    examples: int, seed: int, *, units: int = 12, requests: int = 16, skip: bool = False
) -> Iterator[Case]:
    """Cases on stars, chains and other trees, of at most ``units`` units at most 4 deep.

    Parameters
    ----------
    examples, seed
        How many, and of which stream: example i depends on nothing but ``seed`` and i.
    units, requests
        Bounds on the tree and on the queries, at most 15 and 16.
    skip
        Whether the cache may be smaller than the longest query.
    """
    for i in range(examples):
        rng = np.random.default_rng([seed, i])
        prefixes = _prefixes(rng, int(rng.integers(3, units + 1)))
        # weight on few nodes gives hits; the root, an empty query, is one of many
        weight = rng.exponential(size=len(prefixes)) ** rng.choice([0.5, 1.0])
        weight[0] *= 0.2
        size = int(rng.integers(3 * requests // 4, requests + 1))
        ends = rng.choice(len(prefixes), size, p=weight / weight.sum())
        sequences = tuple(prefixes[end] for end in ends)
        longest = max(map(len, sequences))
        asked = len({s[:d] for s in sequences for d in range(1, len(s) + 1)})
        low = 1 if skip else max(1, longest)
        # room for something beside the longest query, but mostly not for everything
        low, high = (low, asked) if rng.random() < 0.2 else (low + 1, (low + asked + 1) // 2)
        capacity = int(rng.integers(low, max(low, high) + 1))
        yield Case(sequences, capacity, int(rng.integers(2**31)))


def _prefixes(rng: np.random.Generator, units: int) -> list[tuple[int, ...]]:
    shape = rng.choice(["tree", "tree", "chains", "star"])
    deepest = rng.choice([2, 3, 4])
    prefixes: list[tuple[int, ...]] = [()]
    children = [0]
    for _ in range(units):
        if shape == "star":
            parent = 0
        else:
            parent = int(rng.integers(len(prefixes)))
            full = shape == "chains" and children[parent] > 0
            if len(prefixes[parent]) >= deepest or full:
                parent = 0
        prefixes.append((*prefixes[parent], children[parent]))
        children[parent] += 1
        children.append(0)
    return prefixes


def smallest_failing(case: Case, fails: Callable[[Case], object]) -> Case:
    """A smaller case that still fails: no one or two requests, token or unit of capacity can go."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _simpler(case):
            if fails(candidate):
                case, smaller = candidate, True
                break
    return case


def _simpler(case: Case) -> Iterator[Case]:
    n = len(case.sequences)
    for gone in [*((i,) for i in reversed(range(n))), *combinations(range(n), 2)]:
        left = tuple(s for i, s in enumerate(case.sequences) if i not in gone)
        yield replace(case, sequences=left)
    for i, tokens in enumerate(case.sequences):
        if tokens:
            cut = (*case.sequences[:i], tokens[:-1], *case.sequences[i + 1 :])
            yield replace(case, sequences=cut)
    if case.capacity > 1 and (case.capacity > case.longest or not case.fits):
        yield replace(case, capacity=case.capacity - 1)
