"""Evolutionary search for request sequences on which a policy does badly."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from kvtheory.cache import EvictionPolicy
from kvtheory.errors import bad, check_seed
from kvtheory.eviction import policy as parse_policy
from kvtheory.instance import Instance
from kvtheory.offline.optimum import optimum
from kvtheory.parameters import label
from kvtheory.ratio.empirical import Ratio, ratio_of_means
from kvtheory.ratio.evolution import Evolution
from kvtheory.ratio.population import Arena
from kvtheory.simulate import simulate
from kvtheory.tree import PrefixTree
from kvtheory.tree_text import nodes_of, tree_of

# A word is repeated until the cold start is forgotten, and judged on so many repetitions that the
# costs of 1, 2, 3 or 4 of them, after which they often recur, are counted whole times.
SETTLE, JUDGED = 4, 12
FINAL = 120  # repetitions that the winner is judged on, after as many that are not


@dataclass(frozen=True)
class SearchResult:
    """The worst sequence that was found; see `search`.

    Parameters
    ----------
    policy, tree, capacity
        What was searched.
    cycle
        Edges of the tree at whose ends the queries end; repeated for ever, it is the sequence.
    ratio
        Asymptotic ratio of the cycle, on seeds that the search has not seen, with its interval.
    found
        The ratio that made it win. For a randomised policy it is biased upwards: the best of
        many estimates is a lucky one.
    best
        The best ratio after each generation, as estimated then.
    generations, evaluations
        Generations done and sequences evaluated, those of a run that was gone on with included.
    stopped
        ``"generations"``, or ``"budget"`` if that ran out first.
    seconds
        Wall time of this call.
    seed
        As given.
    """

    policy: str
    tree: PrefixTree
    capacity: int
    cycle: tuple[int, ...]
    ratio: Ratio
    found: float
    best: tuple[float, ...]
    generations: int
    evaluations: int
    stopped: str
    seconds: float
    seed: int

    def instance(self, repeats: int = 2 * FINAL) -> Instance:
        """The cycle, repeated: the first half of it is the cold start, the second is judged."""
        return _repeated(self.tree, self.cycle, repeats, self.policy, self.capacity, self.seed)


def search(
    policy: EvictionPolicy | str,
    tree: PrefixTree | Sequence[int] | str,
    capacity: int,
    *,
    queries: str | Sequence[int] = "all",
    length: int = 12,
    population: int = 64,
    generations: int = 150,
    seeds: int = 16,
    seed: int = 0,
    budget: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    final_seeds: int = 256,
    confidence: float = 0.95,
    progress: Callable[[str, float], object] | None = None,
) -> SearchResult:
    """The request sequence with the largest competitive ratio that evolution finds.

    A word of at most ``length`` queries is repeated for ever; its fitness is the increase of the
    policy's expected misses over that of the optimum, in a window that begins when the cold start
    is forgotten. A quarter of the words survive a generation, the others give way to changed and
    crossed copies of them, and a population that has not gained for long begins anew. A whole
    generation is run in one compiled batch of the driver, and the optimum comes from the layers in
    the same call.

    Parameters
    ----------
    policy
        An online eviction policy, or its text.
    tree
        A `PrefixTree`, parents, or text such as ``star:leaves=4`` (`kvtheory.tree_text.tree_of`).
    capacity
        B, in units.
    queries
        Where queries may end: ``"all"``, ``"leaves"``, or edges of the tree.
    length
        Most queries of a word.
    population, generations
        Words of a generation, and how many of those.
    seeds
        Lanes on which a randomised policy is run in each generation. They are new ones each time,
        and a word that survives is judged by the mean over all it has seen.
    seed
        Of the evolution and the policy.
    budget
        Seconds after which no new generation begins; None for no limit.
    checkpoint
        A ``.npz`` file: the state is written to it after each generation, and if it is there at the
        beginning the search goes on from it, as if it had never stopped.
    final_seeds, confidence
        Lanes on which the winner is judged anew, and the level of the interval.
    progress
        Called with a description and the share of a generation, or of the last look at the winner,
        that has just been finished: ``generations + 1`` pieces.

    Raises
    ------
    InputError
        For bad arguments, a policy that sees the future, or a checkpoint of another search.

    Notes
    -----
    Guarantee: none that the worst sequence is found. What is reported is a lower bound on the
    competitive ratio, up to the interval and to a number of misses of the order of B in the window:
    both ends of the window are in the same part of the cycle, and the optimum of the winner is
    Belady's, not that of the search.

    Known ratios that the default arguments reach (seed 0, 95 % intervals, 2 to 20 seconds each
    on a busy core):

    =========================================  ======  =====  ======================
    tree, capacity, queries                    policy  known  found
    =========================================  ======  =====  ======================
    star:leaves=4, 3, all                      llru    3      3
    star:leaves=4, 3, all                      rlt     11/6   1.834 [1.828, 1.840]
    broom:L=2,leaves=3, 3, leaves              llru    2      2
    broom:L=2,leaves=3, 3, leaves              rlt     3/2    1.501 [1.496, 1.505]
    chains:n=3,length=2, 4, all                llru    2      2
    chains:n=3,length=2, 4, all                rlt     5/2    2.505 [2.501, 2.508]
    =========================================  ======  =====  ======================

    `kvtheory.ratio.exact` gives the largest ratio itself where the tree is small and the policy has
    a finite belief.

    Cost: population · seeds · 16 · length queries a generation, about 1e-6 s each on one core.

    Examples
    --------
    >>> result = search("llru", "star:leaves=4", 3, generations=5)
    >>> print(result.ratio, sorted(result.cycle) == [0, 1, 2, 3])
    3.0000 True
    """
    began = time.perf_counter()
    rule = parse_policy(policy) if isinstance(policy, str) else policy
    plan = _Plan(
        label(rule),
        tree_of(tree),
        capacity,
        length,
        population,
        generations,
        seeds if rule.randomised else 1,
        seed,
        budget,
        final_seeds if rule.randomised else 1,
    )
    nodes = nodes_of(plan.tree, queries, capacity)
    tell = progress or (lambda what, done: None)
    arena = Arena(rule, plan.tree, capacity, (SETTLE + JUDGED) * length)
    state = plan.begin(nodes, checkpoint)
    hunt, last = jax.random.split(jax.random.key(seed))
    stopped = "generations"
    tell("compiling", float(state.generation))
    while state.generation < generations:
        if budget is not None and state.generation and time.perf_counter() - began > budget:
            stopped = "budget"
            break
        if state.generation:
            state.breed()
        words, first, stop = _tiled(state, arena.requests)
        lanes = jax.random.split(jax.random.fold_in(hunt, state.generation), plan.seeds)
        costs = arena.costs(words, first, stop, lanes)
        state.record(costs.policy, costs.optimum, again=rule.randomised)
        if checkpoint is not None:
            state.save(checkpoint, plan.about(nodes))
        tell(f"generation {state.generation}, ratio {state.best[-1]:.4f}", 1.0)
    cycle, best = state.winner()
    ratio = plan.judge(rule, cycle, last, confidence)
    tell(f"ratio {ratio}", float(generations - state.generation + 1))
    return SearchResult(
        policy=plan.policy,
        tree=plan.tree,
        capacity=capacity,
        cycle=cycle,
        ratio=ratio,
        found=best,
        best=tuple(state.best),
        generations=state.generation,
        evaluations=state.generation * population,
        stopped=stopped,
        seconds=time.perf_counter() - began,
        seed=seed,
    )


@dataclass(frozen=True)
class _Plan:
    policy: str
    tree: PrefixTree
    capacity: int
    length: int
    population: int
    generations: int
    seeds: int
    seed: int
    budget: float | None
    final_seeds: int

    def __post_init__(self) -> None:
        for key in ("capacity", "length", "generations", "seeds", "final_seeds"):
            if getattr(self, key) < 1:
                raise bad(key, getattr(self, key), "must be at least 1")
        if self.population < 4:
            raise bad("population", self.population, "must be at least 4")
        check_seed(self.seed)
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise bad("budget", self.budget, "must be a positive number of seconds, or None")

    def about(self, nodes: np.ndarray) -> str:
        """All that the course of the search depends on, but for how long it is."""
        parents = " ".join(map(str, self.tree.parent.tolist()))
        units = " ".join(map(str, self.tree.length.tolist()))
        return (
            f"{self.policy} at {self.capacity} units of the tree [{parents}] with edges of "
            f"[{units}] units, queries {' '.join(map(str, nodes.tolist()))}, length {self.length}, "
            f"population {self.population}, seeds {self.seeds}, seed {self.seed}"
        )

    def begin(self, nodes: np.ndarray, checkpoint: str | os.PathLike[str] | None) -> Evolution:
        if checkpoint is not None:
            if not os.fspath(checkpoint).endswith(".npz"):
                raise bad("checkpoint", os.fspath(checkpoint), "must end in .npz")
            if Path(checkpoint).exists():
                return Evolution.load(checkpoint, self.about(nodes))
        return Evolution.begun(nodes, self.length, self.population, self.seed)

    def judge(
        self, rule: EvictionPolicy, cycle: tuple[int, ...], key: jax.Array, confidence: float
    ) -> Ratio:
        """The asymptotic ratio of a cycle, on new seeds and beside Belady's optimum."""
        instance = _repeated(self.tree, cycle, 2 * FINAL, self.policy, self.capacity, self.seed)
        half = instance.requests // 2
        result = simulate(instance, self.capacity, rule, seeds=self.final_seeds, key=key)
        whole, cold = (optimum(part, self.capacity) for part in (instance, instance.prefix(half)))
        return ratio_of_means(
            result.misses - result.misses_of_first(half),
            float(whole.upper - cold.upper),
            kind="asymptotic",
            confidence=confidence,
            randomised=rule.randomised,
        )


def _tiled(state: Evolution, requests: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The words repeated, int32[population, requests], and their windows."""
    at = np.arange(requests)[None] % state.size[:, None]
    words = np.take_along_axis(state.words, at, axis=1)
    repeats = requests // state.size
    judged = (repeats - SETTLE) // JUDGED * JUDGED
    stop = repeats * state.size
    return words, stop - judged * state.size, stop


def _repeated(
    tree: PrefixTree, cycle: Sequence[int], repeats: int, policy: str, capacity: int, seed: int
) -> Instance:
    paths = [tree.units_of(edge) for edge in cycle] * repeats
    return Instance.from_flat(
        np.concatenate(paths),
        np.cumsum([0, *map(len, paths)]),
        ids="global",
        name="search",
        parameters={"policy": policy, "capacity": capacity, "seed": seed, "cycle": list(cycle)},
        source=f"search against {policy} at {capacity} units",
    )
