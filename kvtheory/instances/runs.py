"""Instances from runs of units, without listing the units, and checks of parameters."""

import math
from collections.abc import Mapping

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.tree import PrefixTree
from kvtheory.tree_building import tree_from_chained_ids


def from_runs(
    flat: np.ndarray,
    start: np.ndarray,
    length: np.ndarray,
    ends: bool = False,
    warm: np.ndarray | None = None,
    /,
    **fields: object,
) -> Instance:
    """The instance whose queries are lists of runs; a run has one place in the tree.

    Parameters
    ----------
    flat, start
        int64[total] runs of all queries from the root down, and int64[n + 1] their boundaries.
    length
        int64[runs]; units of each run, 0 for one that is not there.
    ends
        Whether the second half of the lists are the end nodes of the first half.
    warm
        int64[k] or None; workers of warm paths, which are the last k lists.

    Returns
    -------
    Instance
        The same that `Instance.from_flat` builds from the units, but that they have no ids.

    Examples
    --------
    >>> from_runs(np.array([0, 1, 0, 2]), np.array([0, 2, 4]), np.array([100, 5, 7])).tree.length
    array([100,   5,   7], dtype=int32)
    """
    there = length[flat] > 0
    kept = np.concatenate([[0], np.cumsum(there)])
    tree, query = tree_from_chained_ids(flat[there], kept[start])
    if tree.edges:
        merged = np.add.reduceat(length[tree.labels], tree.offset[:-1])
        tree = PrefixTree(tree.parent, merged)
    if warm is not None:
        query, warmed = np.split(query, [len(query) - len(warm)])
        fields["warm"] = np.stack([warm, warmed], axis=1)
    if ends:
        query, fields["end"] = np.split(query, 2)
    return Instance(tree, query, **fields)  # type: ignore[arg-type]


def document_runs(
    document: np.ndarray, documents: int, levels: int, branching: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Runs of queries for the leaves ``document`` (int[n]) of a regular tree, as `from_runs` wants.

    Each node has ``branching`` children and paths have ``levels`` runs. The third value is the
    number of runs.

    Examples
    --------
    >>> document_runs(np.array([0, 3]), documents=4, levels=2, branching=2)
    (array([0, 2, 1, 5]), array([0, 2, 4]), 6)
    """
    # level by level, numbered from `base`
    flat = np.empty((len(document), levels), np.int64)
    base = 0
    for level in range(levels):
        span = branching ** (levels - 1 - level)
        # a span beyond all documents is one node; as int64 it could overflow
        flat[:, level] = base + document // min(span, documents)
        base += -(-documents // span)
    return flat.ravel(), np.arange(0, flat.size + 1, levels), base


def in_order(order: str, groups: int, members: int, rng: np.random.Generator) -> np.ndarray:
    """int64[groups · members]; every member of every group once, group by group, or otherwise.

    Examples
    --------
    >>> in_order("round_robin", 2, 3, np.random.default_rng(0))
    array([0, 3, 1, 4, 2, 5])
    """
    n = groups * members
    if order == "random":
        return rng.permutation(n)
    if order == "grouped":
        return np.arange(n)
    return np.arange(n) % groups * members + np.arange(n) // groups


def named(name: str, parameters: Mapping[str, object]) -> dict[str, object]:
    """The fields by which an instance knows what made it: its source makes it again.

    Examples
    --------
    >>> named("zipf", {"requests": 10, "rate": None, "lengths": (3, 4)})["source"]
    'zipf:requests=10,rate=None,lengths=3/4'
    >>> named("tournament", {"router": "lbgr:target=latency,tick=0.1"})["source"]
    'tournament:router=[lbgr:target=latency,tick=0.1]'
    """
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in parameters.items()}
    text = (f"{key}={_written(value)}" for key, value in listed.items())
    return {"name": name, "parameters": listed, "source": f"{name}:{','.join(text)}"}


def _written(value: object) -> str:
    text = "/".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"[{text}]" if ":" in text or "," in text else text


def whole(least: int, **values: object) -> None:
    """Check that each value is an integer of at least ``least``."""
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise bad(key, value, "must be a whole number")
        if value < least:
            raise bad(key, value, f"must be at least {least}")


def positive(**values: object) -> None:
    """Check that each value is a finite number above 0, or None."""
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise bad(key, value, "must be a number")
        if not 0 < value < math.inf:
            raise bad(key, value, "must be finite and above 0")


def share(**values: object) -> None:
    """Check that each value is a number from 0 to 1."""
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise bad(key, value, "must be a number")
        if not 0 <= value <= 1:
            raise bad(key, value, "must be a share from 0 to 1")


def one_of(options: tuple[str, ...], **values: object) -> None:
    """Check that each value is among ``options``."""
    for key, value in values.items():
        if value not in options:
            raise bad(key, value, f"must be one of {', '.join(options)}")


def poisson_arrivals(rate: float | None, requests: int, seed: int) -> np.ndarray | None:
    """float64[requests]; seconds at which a Poisson process of ``rate`` per second fires.

    Drawn from a stream of its own: times do not change with what is asked for.
    """
    if rate is None:
        return None
    gaps = np.random.default_rng([seed, _ARRIVALS]).standard_exponential(requests)
    return np.cumsum(gaps) / rate


_ARRIVALS = 0xA221
