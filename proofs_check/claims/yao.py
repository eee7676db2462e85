"""Claim 4: no randomised algorithm beats H_k."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction

from kvtheory.errors import InputError
from kvtheory.ratio.best_randomised import best_randomised
from kvtheory.ratio.bounds import randomised_lower_bound
from kvtheory.ratio.yao import yao_lower_bound
from proofs_check.claim import Claim, Mutant, Refuted, Task
from proofs_check.judge import forests
from proofs_check.judge.markov import average_reward
from proofs_check.ratios import Parents

# forest, B, horizon from a full cache: what the linear program over all algorithms gives
PROGRAMS = (
    ((-1, -1, -1), 2, 2, Fraction(3, 2)),
    ((-1,) * 4, 3, 3, Fraction(5, 3)),
    ((-1,) * 4, 3, 4, Fraction(11, 6)),
    ((-1, 0, -1, 2, -1, 4), 4, 3, Fraction(3, 2)),
)
TOLERANCE = 1e-6


def uniform_leaves(parents: Parents, capacity: int) -> list[int]:
    """The leaves of a closed set of B + 1 units with as many of them as there can be."""
    return max(
        (
            forests.members(forests.leaves_in(parents, s))
            for s in forests.closed_sets(parents, capacity + 1)
            if s.bit_count() == capacity + 1
        ),
        key=len,
    )


@dataclass(frozen=True)
class Subject:
    """Whom to ask for, uniformly, and the bound that it proves."""

    leaves: Callable[[Parents, int], list[int]] = uniform_leaves
    bound: Callable[[int], Fraction] = lambda k: Fraction(randomised_lower_bound(k))


def check(subject: Subject, task: Task) -> str:
    """The least online cost and the optimum's cost per query, each in rationals; the program."""
    pairs = 0
    for parents, capacity in forests.small_pairs(task.pick(6, 7)):
        task.tell(f"parents {list(parents)}, B = {capacity}")
        where = f"parents {list(parents)}, B = {capacity}"
        leaves = subject.leaves(parents, capacity)
        bound = subject.bound(forests.width(parents, capacity))
        # at best one leaf is missing in every cache, so each query misses so often
        online = Fraction(_fewest_missing(parents, capacity, leaves), len(leaves))
        offline = _optimum_rate(parents, capacity, leaves)
        if not offline or online / offline < bound:
            raise Refuted(f"{where}: {online} a query against {offline} does not give {bound}")
        try:
            package = yao_lower_bound(
                {q: Fraction(1, len(leaves)) for q in leaves}, parents, capacity
            )
        except InputError as error:
            raise Refuted(f"{where}: {error}") from None
        if (package.online, package.offline) != (online, offline):
            raise Refuted(f"{where}: the package has {package.online} and {package.offline}")
        pairs += 1
    for parents, capacity, horizon, value in PROGRAMS[: task.pick(3, 4)]:
        task.tell(f"linear program: parents {list(parents)}, B = {capacity}, T = {horizon}")
        _check_program(parents, capacity, horizon, value)
    return (
        f"{pairs} pairs in rationals by a Markov chain of work functions; "
        f"{task.pick(3, 4)} linear programs against their own adversary, to {TOLERANCE:g}"
    )


def _fewest_missing(parents: Parents, capacity: int, leaves: list[int]) -> int:
    wanted = sum(1 << q for q in leaves)
    return min((wanted & ~s).bit_count() for s in forests.closed_sets(parents, capacity))


def _optimum_rate(parents: Parents, capacity: int, leaves: list[int]) -> Fraction:
    """The expected increase of OPT per query, by the stationary law of the work function."""
    work, masks = forests.WorkFunction(parents, capacity), forests.path_masks(parents)

    def moves(w: Hashable) -> list[tuple[Fraction, int, Hashable]]:
        steps = [work.after(w, masks[q]) for q in leaves]  # type: ignore[arg-type]
        return [(Fraction(1, len(leaves)), increase, then) for increase, then in steps]

    return average_reward(work.start, moves)


def _check_program(parents: Parents, capacity: int, horizon: int, value: Fraction) -> None:
    """The least ratio of any algorithm is that of its adversary, whom we play ourselves."""
    solved = best_randomised(parents, capacity, horizon)
    where = f"parents {list(parents)}, B = {capacity}, T = {horizon}"
    start = sum(1 << u for u in range(capacity))
    masks = forests.path_masks(parents)
    closed = set(forests.closed_sets(parents, capacity))
    mix = {tuple(masks[q] for q in s): p for s, p in solved.adversary().items()}

    def online(cached: int, mix: dict[tuple[int, ...], float]) -> float:
        """Least expected misses when the sequence is one of a mix, and is shown query by query."""
        first: dict[int, dict[tuple[int, ...], float]] = {}
        for (path, *rest), p in mix.items():
            first.setdefault(path, {})[tuple(rest)] = p
        total = 0.0
        for path, left in first.items():
            mass = sum(left.values())
            total += mass * (path & ~cached).bit_count()
            if () not in left:
                after = [s for s in closed if not path & ~s and not s & ~(cached | path)]
                total += min(online(s, left) for s in after)
        return total

    def offline(sequence: tuple[int, ...]) -> int:
        cost = {start: 0}
        for path in sequence:
            then: dict[int, int] = {}
            for cached, spent in cost.items():
                for s in closed:
                    if not path & ~s and not s & ~(cached | path):
                        total = spent + (path & ~cached).bit_count()
                        then[s] = min(total, then.get(s, total))
            cost = then
        return min(cost.values())

    expected = sum(p * offline(s) for s, p in mix.items())
    proved = online(start, mix) / expected
    if not (abs(proved - value) < TOLERANCE and abs(solved.ratio - value) < TOLERANCE):
        raise Refuted(f"{where}: {solved.ratio}, its adversary proves {proved}, not {value}")


CLAIM = Claim(
    id="4",
    title="No randomised algorithm beats H_k",
    statement=(
        "On a tree of effective width k no randomised online algorithm has a competitive ratio "
        "below H_k: against uniform leaves of a closed set of B + 1 units with k + 1 leaves every "
        "algorithm misses 1/(k + 1) a query, and the optimum 1/((k + 1)·H_k)."
    ),
    latex=r"\inf_{\mathrm{ALG}} \mathrm{ratio}(\mathrm{ALG}) \ge H_{k(\mathcal T, B)}",
    source="star: Fiat et al. 1991; trees: new here; Yao 1977",
    assumptions="oblivious adversary; equal miss costs, forced admission; batch 1",
    method="exact rational: stationary law of the work function; LP with its adversary as "
    "certificate, to 1e-6",
    scope=(
        "every forest of at most 6 units, every B (191 pairs); 3 linear programs, T <= 4",
        "every forest of at most 7 units, every B (571 pairs); 4 linear programs, T <= 4",
    ),
    seconds=(6, 90),
    subject=Subject(),
    check=check,
    mutants=(
        Mutant("H_(k+1)", Subject(bound=lambda k: Fraction(randomised_lower_bound(k + 1)))),
        Mutant("one leaf is never asked for", Subject(lambda p, b: uniform_leaves(p, b)[1:])),
        Mutant("any unit is asked for", Subject(lambda p, b: list(range(len(p))))),
    ),
)
