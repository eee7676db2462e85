"""The effective width of a tree: what deterministic policies have to pay on it."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.tree import PrefixTree

Frontier = tuple[np.ndarray, np.ndarray]
"""Branches that can be gained below a place (rising), and the fewest inner units each takes."""
NONE = np.iinfo(np.int64).max


def effective_width(tree: PrefixTree, capacity: int) -> int:
    """k, one less than the most leaves of an ancestor-closed set of B + 1 units.

    Parameters
    ----------
    tree
        The prefix tree; every edge may be asked for at each of its units. Units deeper than the
        capacity can never be cached and count as cut off.
    capacity
        B, in units.

    Returns
    -------
    int
        B on a star, B − L + 1 on a broom whose leaves have depth L. 1 if the whole tree fits, where
        every policy is optimal but for a constant.

    Raises
    ------
    InputError
        If the capacity is below 1.

    Notes
    -----
    Guarantee (forced admission, equal miss costs): no deterministic policy is better than
    k-competitive and no randomised one better than H_k; every policy that evicts from the first
    over-full prefix of layers (`kvtheory.layers`) is k-competitive, leaf LRU among them. For the
    lower bounds, ask for a missing leaf of the set, or for a uniform one.

    k = B − ι, with ι the fewest units of an ancestor-closed set I for which the roots and the
    children of I are B + 1 units or more. A unit with c children costs one unit and gains c − 1
    branches, so only the ends of edges gain anything: with W(g) the fewest units of a set that
    gains g branches, ι = min over g of max(W(g), B + 1 − roots − g). W is a knapsack on the tree:
    subtrees are merged bottom-up, each with a list of the (g, W) worth having.

    Cost: O(E + G²) for E edges and G <= B branches, in numpy; far less where gains come in lumps.

    References
    ----------
    New here; for a star Sleator and Tarjan (1985) and Fiat et al. (1991).

    Examples
    --------
    >>> star, broom = PrefixTree([-1] * 9, [1] * 9), PrefixTree([-1] + [0] * 9, [3] + [1] * 9)
    >>> effective_width(star, 5), effective_width(broom, 5)
    (5, 2)
    """
    if capacity < 1:
        raise bad("capacity", capacity, "must be at least 1 unit")
    need = capacity + 1
    length = np.minimum(tree.length, capacity - (tree.depth - tree.length)).astype(np.int64)
    if int(length[length > 0].sum()) < need:
        return 1
    above = tree.parent[length > 0]
    roots = int((above < 0).sum())
    missing = need - roots
    if missing <= 0:
        return capacity
    gains = np.bincount(above[above >= 0], minlength=tree.edges) - 1
    branches, inner = _frontier(tree, length, gains, missing)
    return capacity - int(np.maximum(inner, missing - branches).min())


def _frontier(tree: PrefixTree, length: np.ndarray, gains: np.ndarray, most: int) -> Frontier:
    """All that can be gained on the tree, up to ``most`` branches."""
    nothing = np.zeros(1, np.int64)
    below: dict[int, Frontier] = {}
    useful = gains > 0
    above, here = tree.parent, np.flatnonzero(useful)
    while len(here := here[above[here] >= 0]):
        here = np.unique(above[here])
        here = here[~useful[here]]
        useful[here] = True
    # children come after their parents
    for e in np.flatnonzero(useful)[::-1].tolist():
        branches, inner = below.pop(e, (nothing, nothing))
        # nothing, or the edge to its end and what may be gained below it then
        fewest = np.full(min(int(branches[-1] + gains[e]), most) + 1, NONE)
        fewest[0] = 0
        np.minimum.at(fewest, np.minimum(branches + gains[e], most), inner + length[e])
        here = _worth_having(fewest)
        parent = int(tree.parent[e])
        below[parent] = _merged(below[parent], here, most) if parent in below else here
    return below.get(-1, (nothing, nothing))


def _merged(a: Frontier, b: Frontier, most: int) -> Frontier:
    """Gains on both sides together."""
    few, many = sorted((a, b), key=lambda side: len(side[0]))
    size = min(int(few[0][-1] + many[0][-1]), most) + 1
    fewest = np.full(size, NONE)
    for branches, inner in zip(*few, strict=True):
        np.minimum.at(fewest, np.minimum(many[0] + branches, size - 1), many[1] + inner)
    return _worth_having(fewest)


def _worth_having(fewest: np.ndarray) -> Frontier:
    """The gains that no larger one has for as few units; ``fewest`` by gain, `NONE` if unknown."""
    at_least = np.minimum.accumulate(fewest[::-1])[::-1]
    keep = np.flatnonzero(np.append(at_least[:-1] < at_least[1:], True))
    return keep, at_least[keep]
