"""Prefix trees written as text: the small ones that worst cases are looked for on."""

from collections.abc import Sequence

import numpy as np

from kvtheory.errors import InputError, bad, unknown
from kvtheory.tree import PrefixTree

_KINDS = {"star": ("leaves",), "broom": ("L", "leaves"), "chains": ("n", "length"), "parents": ()}
MOST_UNITS = 1 << 20


def tree_of(tree: PrefixTree | Sequence[int] | str) -> PrefixTree:
    """A prefix tree from whatever names one.

    Parameters
    ----------
    tree
        A `PrefixTree`; the parents of its units, −1 at a root; or a text: ``star:leaves=4``,
        ``broom:L=2,leaves=3`` (a path of L − 1 units with leaves below it),
        ``chains:n=3,length=2``, ``parents:-1,0,0,1`` (or with blanks).

    Returns
    -------
    PrefixTree
        With one unit per edge, unless it was one already.

    Raises
    ------
    InputError
        For a text that names none, with the kinds there are.

    Examples
    --------
    >>> tree_of("broom:L=3,leaves=2").parent.tolist()
    [-1, 0, 1, 1]
    >>> tree_of("chains:n=2,length=2").parent.tolist()
    [-1, 0, -1, 2]
    """
    if isinstance(tree, PrefixTree):
        return tree
    parents = parents_of(tree) if isinstance(tree, str) else np.asarray(tree, np.int64)
    if parents.ndim != 1 or len(parents) == 0:
        raise bad("tree", tree, "needs at least one unit")
    return PrefixTree(parents, np.ones(len(parents), np.int32))


def nodes_of(tree: PrefixTree, queries: str | Sequence[int], capacity: int) -> np.ndarray:
    """int32; the edges at whose ends queries may end: ``"all"``, ``"leaves"`` or some of them.

    Raises
    ------
    InputError
        For another text, an edge that does not exist, a query longer than the capacity, or none.

    Examples
    --------
    >>> nodes_of(tree_of("broom:L=3,leaves=2"), "leaves", 4)
    array([2, 3], dtype=int32)
    """
    if capacity < 1:
        raise bad("capacity", capacity, "must be at least 1 unit")
    if isinstance(queries, str):
        if queries not in ("all", "leaves"):
            raise bad("queries", queries, "must be 'all', 'leaves' or a list of edges")
        some = np.arange(tree.edges) if queries == "all" else np.flatnonzero(tree.children == 0)
    else:
        some = np.unique(np.asarray(queries, np.int64))
    if len(some) == 0:
        raise bad("queries", queries, "needs at least one edge")
    for edge in some.tolist():
        if not 0 <= edge < tree.edges:
            raise bad("queries", edge, f"must be edges below {tree.edges}")
    deep = int(tree.depth[some].max())
    if deep > capacity:
        raise bad("capacity", capacity, f"the longest of the queries has {deep} units")
    return some.astype(np.int32)


def parents_of(text: str) -> np.ndarray:
    """int64[units]; the parents of the units of a tree written as text, −1 at a root."""
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise unknown("tree", kind, _KINDS)
    parts = rest.replace(",", " ").split()
    if kind == "parents":
        return np.array([_whole(part, "parents") for part in parts], np.int64)
    given: dict[str, int] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in _KINDS[kind]:
            raise unknown(f"parameter of {kind}", key, _KINDS[kind])
        if not equals:
            raise bad(key, None, f"needs a value: {kind}:{key}=…")
        given[key] = _whole(value, key)
        if given[key] < 1:
            raise bad(key, given[key], "must be at least 1")
    missing = [key for key in _KINDS[kind] if key not in given]
    if missing:
        form = ",".join(f"{key}=…" for key in _KINDS[kind])
        raise InputError(f"tree {text!r}: {missing[0]} is missing; write {kind}:{form}")
    most = given.get("n", 1) * given.get("length", 1) + given.get("L", 0) + given.get("leaves", 0)
    if most > MOST_UNITS:
        raise bad("tree", text, f"must have at most {MOST_UNITS:,} units")
    if kind == "chains":
        unit = np.arange(given["n"] * given["length"])
        return np.where(unit % given["length"] == 0, -1, unit - 1)
    handle = given.get("L", 1) - 1
    return np.concatenate([np.arange(-1, handle - 1), np.full(given["leaves"], handle - 1)])


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad(what, text, "must be whole numbers") from None
