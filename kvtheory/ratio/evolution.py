"""Words over the nodes of a tree that change by chance and survive by their score."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kvtheory.atomic import atomic
from kvtheory.errors import InputError

FRESH = 0.1  # share of the children that are new words
CROSSED = 0.3  # share that have two parents
CHANGES = 0.5  # of a further change after each one
PATIENCE = 30  # generations without a gain of 1 % after which a population begins anew
GAIN = 1.01
VERSION = 1


@dataclass
class Evolution:
    """A population of words and what is known of each. Mutable.

    Word i is ``words[i, :size[i]]``; its cost was drawn ``seeds[i]`` times, with the sum
    ``cost[i]`` and the sum of squares ``square[i]``, against the optimum ``optimum[i]``. The words
    are sorted, the best first, in every generation. When they have not become better for long they
    give way to new ones, and the best of them joins the ``retired``: a row is its size, its score,
    its mean and its nodes.
    """

    nodes: np.ndarray
    rng: np.random.Generator
    words: np.ndarray
    size: np.ndarray
    cost: np.ndarray
    square: np.ndarray
    seeds: np.ndarray
    optimum: np.ndarray
    retired: np.ndarray
    top: float = 0.0  # score since which no gain was seen, and for how many generations
    waited: int = 0
    generation: int = 0
    best: list[float] = field(default_factory=list)

    @classmethod
    def begun(cls, nodes: np.ndarray, length: int, population: int, seed: int) -> "Evolution":
        """Half the words are nodes drawn anew each time, half go round some of them in turn."""
        none = np.zeros(population)
        one = cls(
            nodes,
            np.random.default_rng(seed),
            np.zeros((population, length), np.int32),
            np.zeros(population, np.int64),
            none.copy(),
            none.copy(),
            none.copy(),
            none.copy(),
            np.zeros((0, 3 + length)),
        )
        one.renew()
        return one

    def renew(self) -> None:
        """Put new words in the place of all."""
        for i in range(self.population):
            self._put(i, self._new_word())

    @property
    def population(self) -> int:
        """Number of words."""
        return len(self.words)

    @property
    def elite(self) -> int:
        """How many words survive a generation."""
        return max(1, self.population // 4)

    def scores(self) -> np.ndarray:
        """float64[population]; mean cost less its standard error, over the optimum.

        A lucky word is not a good one: what has been drawn seldom counts for less.
        """
        n = np.maximum(self.seeds, 1)
        mean = self.cost / n
        spread = np.sqrt(np.maximum(self.square / n - mean**2, 0) / np.maximum(n - 1, 1))
        return _over(np.where(self.seeds > 1, mean - spread, mean), self.optimum)

    def means(self) -> np.ndarray:
        """float64[population]; mean cost over the optimum."""
        return _over(self.cost / np.maximum(self.seeds, 1), self.optimum)

    def record(self, cost: np.ndarray, optimum: np.ndarray, again: bool) -> None:
        """Take in a generation's costs, float64[population, seeds], and sort by score.

        ``again`` adds them to what was known of a word; without it the policy is deterministic.
        """
        if not again:
            self.cost[:], self.square[:], self.seeds[:] = 0, 0, 0
        self.cost += cost.sum(axis=1)
        self.square += (cost.astype(np.float64) ** 2).sum(axis=1)
        self.seeds += cost.shape[1]
        self.optimum[:] = optimum
        order = np.lexsort((self.size, -self.scores()))  # of equal ones the shorter
        seen: set[bytes] = set()
        twice = np.zeros(self.population, bool)
        for place, i in enumerate(order):
            word = self.word(i).tobytes()
            twice[place] = word in seen
            seen.add(word)
        order = np.concatenate([order[~twice], order[twice]])
        for values in (self.words, self.size, self.cost, self.square, self.seeds, self.optimum):
            values[:] = values[order]
        self.generation += 1
        score = float(self.scores()[0])
        self.waited = 0 if score > GAIN * self.top else self.waited + 1
        self.top = score if self.waited == 0 else self.top
        self.best.append(self.winner()[1])

    def winner(self) -> tuple[tuple[int, ...], float]:
        """The word with the best score, retired ones included, and its mean ratio."""
        score, mean = float(self.scores()[0]), float(self.means()[0])
        if len(self.retired):
            old = self.retired[np.lexsort((self.retired[:, 0], -self.retired[:, 1]))[0]]
            if (old[1], -old[0]) > (score, -self.size[0]):
                return tuple(old[3 : 3 + int(old[0])].astype(int).tolist()), float(old[2])
        return tuple(self.word(0).tolist()), mean

    def breed(self) -> None:
        """Put children of the elite in the place of all others; or begin anew."""
        if self.waited >= PATIENCE:
            row = [self.size[0], self.scores()[0], self.means()[0], *self.words[0]]
            self.retired = np.vstack([self.retired, np.array(row, np.float64)])
            self.top, self.waited = 0.0, 0
            self.renew()
            return
        parents = [self.word(i) for i in range(self.elite)]
        for i in range(self.elite, self.population):
            luck = self.rng.random()
            if luck < FRESH:
                word = self._new_word()
            elif luck < FRESH + CROSSED:
                word = self._changed(self._crossed(self._parent(parents), self._parent(parents)))
            else:
                word = self._changed(self._parent(parents))
            self._put(i, word)

    def word(self, i: int) -> np.ndarray:
        """The nodes of a word."""
        return self.words[i, : self.size[i]]

    def _put(self, i: int, word: np.ndarray) -> None:
        self.words[i] = 0
        self.words[i, : len(word)] = word
        self.size[i] = len(word)
        self.cost[i] = self.square[i] = self.seeds[i] = self.optimum[i] = 0

    def _parent(self, parents: list[np.ndarray]) -> np.ndarray:
        # the better of two
        return parents[int(self.rng.integers(0, len(parents), 2).min())]

    def _new_word(self) -> np.ndarray:
        length = self.words.shape[1]
        if self.rng.random() < 0.5:
            return self.rng.choice(self.nodes, int(self.rng.integers(1, length + 1)))
        some = int(self.rng.integers(1, min(length, len(self.nodes)) + 1))
        return self.rng.permutation(self.nodes)[:some]

    def _crossed(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        head = a[: int(self.rng.integers(0, len(a) + 1))]
        tail = b[int(self.rng.integers(0, len(b))) :]
        return np.concatenate([head, tail])[: self.words.shape[1]]

    def _changed(self, word: np.ndarray) -> np.ndarray:
        word = word.copy()
        while True:
            word = self._change(word, int(self.rng.integers(0, 6)))
            if self.rng.random() >= CHANGES:
                return word

    def _change(self, word: np.ndarray, kind: int) -> np.ndarray:
        n, full = len(word), len(word) >= self.words.shape[1]
        i, j = sorted(self.rng.integers(0, n, 2).tolist())
        node = self.rng.choice(self.nodes)
        if kind == 0:
            word[i] = node
        elif kind == 1 and not full:
            word = np.insert(word, i, node)
        elif kind == 2 and n > 1:
            word = np.delete(word, i)
        elif kind == 3:
            word[[i, j]] = word[[j, i]]
        elif kind == 4:
            word[i : j + 1] = word[i : j + 1][::-1]
        elif kind == 5:  # one node moves
            moved = word[i]
            word = np.insert(np.delete(word, i), j, moved)
        return word

    # -- between runs -------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], about: str) -> None:
        """Write everything to a ``.npz`` file, whole or not at all. ``about`` says of which job."""
        meta = {
            "version": VERSION,
            "about": about,
            "generation": self.generation,
            "top": self.top,
            "waited": self.waited,
            "rng": self.rng.bit_generator.state,
        }
        with atomic(Path(path), "wb") as file:
            np.savez(
                file,
                meta=np.array(json.dumps(meta)),
                best=np.array(self.best, np.float64),
                **{key: getattr(self, key) for key in (*_ARRAYS, "nodes")},
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str], about: str) -> "Evolution":
        """Read what `save` wrote.

        Raises
        ------
        InputError
            If the file is not that, or of another job.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                meta = json.loads(str(stored["meta"]))
                arrays = {key: stored[key] for key in (*_ARRAYS, "nodes")}
                best = stored["best"].tolist()
            version, job, state = (meta[k] for k in ("version", "about", "rng"))
            counts = {key: meta[key] for key in ("generation", "top", "waited")}
        except Exception as error:  # whatever a file that is no archive makes numpy raise
            raise InputError(f"{path}: is not the state of a search: {error}") from None
        if version != VERSION:
            raise InputError(f"{path}: has version {version!r} of the format; known: {VERSION}")
        if job != about:
            raise InputError(
                f"{path}: is the state of another search, {job}; this one is {about}: name another "
                "file, or remove it"
            )
        rng = np.random.default_rng()
        rng.bit_generator.state = state
        return cls(rng=rng, best=best, **counts, **arrays)


_ARRAYS = ("words", "size", "cost", "square", "seeds", "optimum", "retired")


def _over(cost: np.ndarray, optimum: np.ndarray) -> np.ndarray:
    some = optimum > 0
    return np.where(some, cost / np.where(some, optimum, 1), np.where(cost > 0, np.inf, 0.0))
