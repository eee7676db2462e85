"""Closed-form bounds on competitive ratios, for forced admission and equal miss costs.

A bound r means E[ALG] <= r·OPT + a constant that does not depend on the request sequence, against
an adversary who does not see the coins. Every bound says what it holds for and who proved it.
Symbols: B the capacity in units, L the length of the shortest non-empty query, k = B − L + 1,
H_k the k-th harmonic number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kvtheory.cluster import capacity_units
from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.ratio.width import effective_width
from kvtheory.tree import PrefixTree

EXACT_HARMONIC = 512
EULER = 0.57721566490153286


@dataclass(frozen=True)
class Bound:
    """An upper bound on a competitive ratio.

    Parameters
    ----------
    value
        The bound; infinite if no constant holds.
    statement
        The bound as a formula.
    assumptions
        What the request sequence has to satisfy.
    source
        Who proved it, or how far it has been checked.
    """

    value: float
    statement: str
    assumptions: str
    source: str


def harmonic(n: int) -> Fraction | float:
    """H_n = 1 + 1/2 + … + 1/n: exact up to n = 512, above that a float good to 1e-15.

    Examples
    --------
    >>> harmonic(3), round(harmonic(10**6), 9)
    (Fraction(11, 6), 14.392726723)
    """
    if n < 0:
        raise bad("n", n, "must not be negative")
    if n <= EXACT_HARMONIC:
        return sum((Fraction(1, i) for i in range(1, n + 1)), Fraction(0))
    square = float(n) * n
    return math.log(n) + EULER + 1 / (2 * n) - 1 / (12 * square) + 1 / (120 * square * square)


def deterministic_lower_bound(k: int) -> int:
    """k: no deterministic policy does better on a tree of effective width k.

    The adversary always asks for a missing leaf of a closed set of B + 1 units with k + 1 leaves
    (on a star: Sleator and Tarjan 1985).
    """
    return _width(k)


def randomised_lower_bound(k: int) -> Fraction | float:
    """H_k: no randomised policy does better on a tree of effective width k.

    Requests are uniform leaves of the same set, by Yao's principle (on a star: Fiat, Karp, Luby,
    McGeoch, Sleator and Young 1991).
    """
    return harmonic(_width(k))


def is_broom(tree: PrefixTree) -> bool:
    """Whether the tree is a path with single units below its end (a star if the path is empty).

    Examples
    --------
    >>> is_broom(PrefixTree([-1, 0, 0, 0], [5, 1, 1, 1]))
    True
    >>> is_broom(PrefixTree([-1, 0, 0, 0], [5, 1, 1, 2]))
    False
    """
    leaf = tree.children == 0
    inner = np.flatnonzero(~leaf)
    # The inner edges form one chain from the root: edge after edge, each the parent of the next.
    chain = np.array_equal(tree.parent[inner], np.append(-1, inner[:-1])[: len(inner)])
    end = inner[-1] if len(inner) else -1
    below = tree.parent[leaf] == end
    if leaf.sum() == 1:
        return bool(chain and below.all())
    return bool(chain and below.all() and (tree.length[leaf] == 1).all())


def bound(
    policy: str,
    instance: Instance,
    capacity: int | str,
    *,
    admission: str = "forced",
    oversize: str = "error",
) -> Bound | None:
    """The closed-form bound of a policy on an instance, or None if none is known to us.

    Parameters
    ----------
    policy
        As on the command line: a name, with parameters after a colon (``"rlt:phase=query"``).
    instance, capacity
        The request sequence, and B in units or as `capacity_units` reads it.
    admission
        That of the optimum: with ``"bypass"`` the optimum may do what the policy may not, and
        no bound is given.
    oversize
        With ``"truncate"`` the tree cut at depth B counts; with ``"skip"`` no bound is given.
    """
    if admission != "forced" or oversize == "skip":
        return None
    units = capacity_units(capacity, instance)
    if oversize == "truncate":
        instance = instance.truncate(units)
    lengths = np.append(instance.tree.depth, 0)[instance.query]
    lengths = lengths[lengths > 0]
    if len(lengths) == 0 or int(lengths.max()) > units:
        return None
    name, _, parameters = policy.partition(":")
    rule = _RULES.get(name)
    return None if rule is None else rule(parameters, instance.tree, units, int(lengths.min()))


def bound_of(
    policy: str,
    instance: Instance,
    capacity: int | str,
    *,
    admission: str = "forced",
    oversize: str = "error",
) -> float | None:
    """The value of `bound`, or None."""
    known = bound(policy, instance, capacity, admission=admission, oversize=oversize)
    return None if known is None else known.value


def _width(k: int) -> int:
    if k < 0:
        raise bad("k", k, "must not be negative")
    return k


def _leaves(tree: PrefixTree) -> int:
    return int((tree.children == 0).sum())


def _llru(parameters: str, tree: PrefixTree, capacity: int, shortest: int) -> Bound:
    if is_broom(tree):
        k = capacity - shortest + 1
        return Bound(
            k,
            "B − L + 1",
            "a path with single units below its end",
            "as least recently used on a star of B − L + 1 slots (Sleator and Tarjan 1985)",
        )
    return _layered(parameters, tree, capacity, shortest)


def _layered(parameters: str, tree: PrefixTree, capacity: int, shortest: int) -> Bound:
    return Bound(
        effective_width(tree, capacity),
        "k = B − ι, the effective width",
        "any tree",
        "new here: every policy that evicts from the first over-full prefix of layers, by a "
        "potential argument; no violation on any tree of at most 6 units, at every capacity",
    )


def _rlt(parameters: str, tree: PrefixTree, capacity: int, shortest: int) -> Bound | None:
    given = {key: value for key, _, value in (p.partition("=") for p in parameters.split(","))}
    phase = given.get("phase", "token")
    broom = is_broom(tree)
    if phase == "published" or (phase != "token" and not broom):
        return None
    if not broom:
        return Bound(
            2 * float(harmonic(capacity)) - 1,
            "2 H_B − 1",
            "any tree",
            "order of growth: Wu, Silwal and Zhang 2026; the constant: the exact ratio is at "
            "most this on every tree of at most 6 units, at every capacity",
        )
    k = capacity - shortest + 1
    if _leaves(tree) <= k + 1:
        return Bound(
            float(harmonic(k)),
            "H_(B − L + 1)",
            "a path with at most B − L + 2 single units below its end",
            "as marking on k + 1 pages (Fiat, Karp, Luby, McGeoch, Sleator and Young 1991)",
        )
    return Bound(
        2 * float(harmonic(k)) - 1,
        "2 H_(B − L + 1) − 1",
        "a path with single units below its end",
        "as marking on a star (Achlioptas, Chrobak and Noga 2000)",
    )


def _as_paging(statement: str, source: str) -> "Rule":
    def rule(parameters: str, tree: PrefixTree, capacity: int, shortest: int) -> Bound | None:
        if parameters or not is_broom(tree):
            return None
        return Bound(
            capacity - shortest + 1, statement, "a path with single units below its end", source
        )

    return rule


def _unbounded(source: str) -> "Rule":
    def rule(parameters: str, tree: PrefixTree, capacity: int, shortest: int) -> Bound | None:
        k = capacity - shortest + 1
        if k < 2 or _leaves(tree) <= k or not is_broom(tree):
            return None
        return Bound(
            math.inf, "no constant", "a path with more than k >= 2 units below its end", source
        )

    return rule


def _belady(parameters: str, tree: PrefixTree, capacity: int, shortest: int) -> Bound | None:
    return None if parameters else Bound(1.0, "1", "any tree; sees the future", "optimal")


Rule = Callable[[str, PrefixTree, int, int], Bound | None]
_RULES: dict[str, Rule] = {
    "llru": _llru,
    "rlt": _rlt,
    "lrlt": _layered,
    "layered": _layered,
    "duel": _layered,
    "fifo": _as_paging("B − L + 1", "as first in first out on a star (Sleator and Tarjan 1985)"),
    "random_leaf": _as_paging("B − L + 1", "as random replacement (Raghavan and Snir 1989)"),
    "mru": _unbounded("alternating between two pages while the rest is never used again"),
    "lfu": _unbounded("pages with a high count that are never asked for again"),
    "belady": _belady,
}
