"""A request sequence over a prefix tree, as an immutable value."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.tree import PrefixTree, frozen
from kvtheory.tree_building import flatten, tree_from_chained_ids, tree_from_local_ids

Ids = Literal["global", "local"]


class RequestLog(NamedTuple):
    """The paths of all queries as one list of edges: query t owns ``edge[start[t]:start[t+1]]``.

    Inside a query the deepest edge comes first, so that positions in the log order uses from
    old to new with the deeper unit the older one.
    """

    start: np.ndarray  # int32[requests + 1]
    edge: np.ndarray  # int32[total]


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A prefix tree and the queries on it, in order. Equal inputs give equal bytes (`digest`).

    Parameters
    ----------
    tree
        The prefix tree of the sequence.
    query
        int32[n]; the edge at whose end each query ends, −1 for an empty query.
    arrival
        float64[n] or None; arrival times in seconds, finite and not decreasing.
    input_length, output_length
        int64[n] or None; prompt and output tokens. Without input lengths a query has
        ``block_size`` tokens per unit.
    block_size
        Tokens in one unit.
    name, parameters, source
        What the instance is called, the parameters that made it, and where it comes from.
    beyond
        int64[n] or None; units of each query below the cut of a truncated tree: always missed.
    end
        int32[n] or None; the end node of each query, prompt plus output: the edge, at or below that
        of the query, whose path is cached at no miss cost when the service ends.
    warm
        int32[k, 2] or None; (worker, edge) pairs: paths that the worker served before time 0, at
        no cost and in this order.

    Raises
    ------
    InputError
        Naming the argument, the value and the rule, for example for a decreasing arrival time.

    Examples
    --------
    >>> instance = Instance.from_tokens([[1, 2, 3], [1, 2, 4], [1, 2, 3]])
    >>> instance.tree.units, instance.query.tolist(), instance.units_requested
    (4, [1, 2, 1], 9)
    """

    tree: PrefixTree
    query: np.ndarray
    arrival: np.ndarray | None = None
    input_length: np.ndarray | None = None
    output_length: np.ndarray | None = None
    block_size: int = 1
    name: str = "instance"
    parameters: Mapping[str, object] = field(default_factory=dict)
    source: str = ""
    beyond: np.ndarray | None = None
    end: np.ndarray | None = None
    warm: np.ndarray | None = None

    def __post_init__(self) -> None:
        query = frozen(self.query, np.int32, "query")
        wrong = np.flatnonzero((query < -1) | (query >= self.tree.edges))
        if len(wrong):
            t = int(wrong[0])
            raise bad(f"query[{t}]", int(query[t]), f"must be −1 or an edge < {self.tree.edges}")
        object.__setattr__(self, "query", query)
        if self.block_size < 1:
            raise bad("block_size", self.block_size, "must be at least 1 token")
        if self.arrival is not None:
            arrival = frozen(self.arrival, np.float64, "arrival")
            _check_times(arrival)
            object.__setattr__(self, "arrival", arrival)
        for key in ("input_length", "output_length", "beyond"):
            value = getattr(self, key)
            if value is not None:
                value = frozen(value, np.int64, key)
                if (value < 0).any():
                    t = int(np.flatnonzero(value < 0)[0])
                    raise bad(f"{key}[{t}]", int(value[t]), "must not be negative")
                object.__setattr__(self, key, value)
        if self.end is not None:
            object.__setattr__(self, "end", frozen(self.end, np.int32, "end"))
        for key in ("arrival", "input_length", "output_length", "beyond", "end"):
            value = getattr(self, key)
            if value is not None and len(value) != len(query):
                raise bad(key, f"{len(value)} values", f"need one per query, {len(query)}")
        if self.end is not None:
            _check_ends(self.tree, query, self.end)
        if self.warm is not None:
            object.__setattr__(self, "warm", _checked_warm(self.tree, self.warm))
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    # -- construction ---------------------------------------------------------------------

    @classmethod
    def from_flat(
        cls, flat: np.ndarray, start: np.ndarray, *, ids: Ids = "local", **fields: object
    ) -> "Instance":
        """From one array of ids and the boundaries int64[n + 1] of the queries in it."""
        if ids not in ("global", "local"):
            raise bad("ids", ids, "must be 'global' (an id has one parent) or 'local'")
        build = tree_from_chained_ids if ids == "global" else tree_from_local_ids
        tree, query = build(np.asarray(flat, np.int64), np.asarray(start, np.int64))
        return cls(tree, query, **fields)  # type: ignore[arg-type]

    @classmethod
    def from_tokens(
        cls,
        sequences: Iterable[Sequence[int]],
        *,
        ends: Iterable[Sequence[int]] | None = None,
        warm: Iterable[tuple[int, Sequence[int]]] = (),
        **fields: object,
    ) -> "Instance":
        """From token lists; equal tokens below different prefixes are different units.

        ``ends`` are the queries with their output units behind them, ``[]`` for a query whose
        output is not cached; ``warm`` are (worker, path) pairs served before time 0.
        """
        return cls._from_lists(sequences, "local", ends, warm, fields)

    @classmethod
    def from_blocks(
        cls,
        sequences: Iterable[Sequence[int]],
        *,
        ids: Ids = "global",
        ends: Iterable[Sequence[int]] | None = None,
        warm: Iterable[tuple[int, Sequence[int]]] = (),
        **fields: object,
    ) -> "Instance":
        """From block-hash lists, where an id names a whole prefix (or pass ``ids="local"``).

        ``ends`` and ``warm`` as for `from_tokens`.
        """
        return cls._from_lists(sequences, ids, ends, warm, fields)

    @classmethod
    def _from_lists(
        cls,
        sequences: Iterable[Sequence[int]],
        ids: Ids,
        ends: Iterable[Sequence[int]] | None,
        warm: Iterable[tuple[int, Sequence[int]]],
        fields: Mapping[str, object],
    ) -> "Instance":
        warm = list(warm)
        if ends is None and not warm:
            return cls.from_flat(*flatten(sequences), ids=ids, **fields)
        queries = list(sequences)
        n = len(queries)
        if ends is not None:
            ends = list(ends)
            if len(ends) != n:
                raise bad("ends", f"{len(ends)} lists", f"need one per query, {n}")
            ends = [end if len(end) else query for query, end in zip(queries, ends, strict=True)]
        paths = [path for _, path in warm]
        every = cls.from_flat(*flatten([*queries, *(ends or []), *paths]), ids=ids)
        at = every.query
        pairs = np.array([worker for worker, _ in warm], np.int64)
        return cls(
            every.tree,
            at[:n],
            end=None if ends is None else at[n : 2 * n],
            warm=np.stack([pairs, at[len(at) - len(warm) :]], axis=1) if warm else None,
            **fields,  # type: ignore[arg-type]
        )

    # -- size -----------------------------------------------------------------------------

    @property
    def requests(self) -> int:
        """Number of queries, empty ones included."""
        return len(self.query)

    @cached_property
    def query_length(self) -> np.ndarray:
        """int64[n]; units of each query, |q|, those below a cut included."""
        depth = np.append(self.tree.depth, 0).astype(np.int64)[self.query]
        return frozen(depth if self.beyond is None else depth + self.beyond, np.int64, "length")

    @property
    def units_requested(self) -> int:
        """Σ|q|."""
        return int(self.query_length.sum())

    @cached_property
    def tokens(self) -> np.ndarray:
        """int64[n]; prompt tokens of each query."""
        if self.input_length is not None:
            return self.input_length
        return frozen(self.query_length * self.block_size, np.int64, "tokens")

    @cached_property
    def log(self) -> RequestLog:
        """The edges of all paths, deepest first inside a query. O(total path length)."""
        tree = self.tree
        level = np.append(tree.level, 0)[self.query].astype(np.int64)
        start = np.zeros(self.requests + 1, np.int64)
        np.cumsum(level, out=start[1:])
        if start[-1] >= 2**31 - 1:
            raise bad("instance", int(start[-1]), "edges on all paths must fit 31 bits; split it")
        edge = np.empty(int(start[-1]), np.int32)
        at = np.flatnonzero(self.query >= 0)
        here, place = self.query[at], start[at]
        while len(here):
            edge[place] = here
            here = tree.parent[here]
            go = here >= 0
            here, place = here[go], place[go] + 1
        edge.setflags(write=False)
        return RequestLog(frozen(start, np.int32, "start"), edge)

    # -- other views of the same sequence ---------------------------------------------------

    def ids(self, t: int) -> np.ndarray:
        """int64; the ids of the units of query ``t``, from the root down."""
        return self.tree.ids_of(int(self.query[t]))

    def sequences(self) -> list[list[int]]:
        """The queries as lists of ids: the raw form that the plain-Python twins take."""
        cache: dict[int, list[int]] = {}
        out = []
        for q in self.query.tolist():
            if q not in cache:
                cache[q] = self.tree.ids_of(q).tolist()
            out.append(cache[q])
        return out

    def prefix(self, requests: int) -> "Instance":
        """The first ``requests`` queries, on the same tree."""
        return self._part(slice(requests))

    def after(self, requests: int) -> "Instance":
        """The queries after the first ``requests``, on the same tree; warm paths are left out."""
        return replace(self._part(slice(requests, None)), warm=None)

    def _part(self, part: slice) -> "Instance":
        def cut(a: np.ndarray | None) -> np.ndarray | None:
            return None if a is None else a[part]

        return replace(
            self,
            query=self.query[part],
            arrival=cut(self.arrival),
            input_length=cut(self.input_length),
            output_length=cut(self.output_length),
            beyond=cut(self.beyond),
            end=cut(self.end),
        )

    def truncate(self, depth: int) -> "Instance":
        """The same queries on the tree cut at ``depth`` units; what is below is always missed."""
        tree = self.tree
        if tree.edges == 0 or int(tree.depth.max()) <= depth:
            return self
        if depth < 1:
            raise bad("depth", depth, "must be at least 1 unit")
        top = tree.depth - tree.length
        keep = np.flatnonzero(top < depth)
        rank = np.full(tree.edges + 1, -1, np.int64)
        rank[keep] = np.arange(len(keep))
        length = np.minimum(tree.depth[keep], depth) - top[keep]
        labels = None
        if tree.labels is not None:
            labels = tree.labels[_ranges(tree.offset[keep], length)]

        def above(edge: np.ndarray) -> np.ndarray:
            edge = edge.astype(np.int64)
            while (deep := (edge >= 0) & (rank[edge] < 0)).any():
                edge[deep] = tree.parent[edge[deep]]
            return rank[edge]

        cut = PrefixTree(rank[tree.parent[keep]], length, labels)
        moved = self._on(cut, above)
        beyond = self.query_length - np.append(cut.depth, 0)[moved.query]
        return replace(moved, beyond=beyond)._merged()

    def _on(self, tree: PrefixTree, place: Callable[[np.ndarray], np.ndarray]) -> "Instance":
        """The same sequence on another tree, ``place`` giving the new edges of old ones."""
        warm = self.warm
        return replace(
            self,
            tree=tree,
            query=place(self.query),
            end=None if self.end is None else place(self.end),
            warm=None if warm is None else np.stack([warm[:, 0], place(warm[:, 1])], axis=1),
        )

    def _merged(self) -> "Instance":
        # Cutting makes queries end at the same place: runs that every query now contains whole
        # or not at all become one edge again, which keeps paths short.
        tree = self.tree
        uses = np.bincount(self.log.edge, minlength=tree.edges)
        for ends in (self.end, None if self.warm is None else self.warm[:, 1]):
            if ends is not None:
                log = Instance(tree, ends).log
                uses += np.bincount(log.edge, minlength=tree.edges)
        head = np.where(tree.parent >= 0, uses[tree.parent], -1) != uses
        if head.all():
            return self
        run = np.where(head, np.arange(tree.edges), tree.parent)
        while not head[run].all():
            run = run[run]
        heads = np.flatnonzero(head)
        rank = np.zeros(tree.edges, np.int64)
        rank[heads] = np.arange(len(heads))
        new = rank[run]
        length = np.bincount(new, weights=tree.length, minlength=len(heads)).astype(np.int64)
        labels = None
        if tree.labels is not None:
            order = np.lexsort((tree.depth, new))
            labels = tree.labels[_ranges(tree.offset[order], tree.length[order])]
        up = tree.parent[heads]
        merged = PrefixTree(np.where(up >= 0, new[up], -1), length, labels)
        return self._on(merged, lambda edge: np.append(new, -1)[edge])

    def uncompressed(self) -> "Instance":
        """The same sequence with one unit per edge, for records that belong to units."""
        tree = self.tree
        if (tree.length == 1).all():
            return self
        parent = np.arange(-1, tree.units - 1)
        first = tree.offset[:-1]
        above = tree.parent
        parent[first] = np.where(above >= 0, tree.offset[above + 1] - 1, -1)
        end = np.append(tree.offset[1:] - 1, -1)
        unit_tree = PrefixTree(parent, np.ones(tree.units, np.int32), tree.labels)
        return self._on(unit_tree, lambda edge: end[edge])

    # -- identity ---------------------------------------------------------------------------

    def digest(self) -> str:
        """SHA-256 of everything the instance holds: equal instances have equal digests."""
        h = hashlib.sha256()
        head = (self.block_size, self.name, dict(self.parameters), self.source)
        h.update(json.dumps(head, sort_keys=True, default=str).encode())
        arrays = {
            "parent": self.tree.parent,
            "length": self.tree.length,
            "labels": self.tree.labels,
            "query": self.query,
            "arrival": self.arrival,
            "input_length": self.input_length,
            "output_length": self.output_length,
            "beyond": self.beyond,
        }
        more = {"end": self.end, "warm": self.warm}
        arrays |= {key: value for key, value in more.items() if value is not None}
        for key, value in arrays.items():
            h.update(key.encode())
            h.update(b"-" if value is None else f"{value.dtype.str}{value.shape}".encode())
            h.update(b"" if value is None else value.tobytes())
        return h.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        return self is other or self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return (
            f"Instance({self.name!r}, requests={self.requests}, "
            f"units={self.tree.units}, edges={self.tree.edges})"
        )


def _ranges(first: np.ndarray, size: np.ndarray) -> np.ndarray:
    """first[0] … first[0] + size[0] − 1, then the same of first[1], and so on."""
    inner = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return np.repeat(first, size) + inner


def _check_times(arrival: np.ndarray) -> None:
    wrong = np.flatnonzero(~np.isfinite(arrival))
    if len(wrong):
        t = int(wrong[0])
        raise bad(f"arrival[{t}]", float(arrival[t]), "must be a finite time in seconds")
    wrong = np.flatnonzero(np.diff(arrival) < 0)
    if len(wrong):
        t = int(wrong[0]) + 1
        raise InputError(
            f"arrival[{t}] = {float(arrival[t])!r}: arrivals must not decrease, but arrival"
            f"[{t - 1}] = {float(arrival[t - 1])!r}; sort the requests by arrival first"
        )


def _check_ends(tree: PrefixTree, query: np.ndarray, end: np.ndarray) -> None:
    wrong = np.flatnonzero((end < -1) | (end >= tree.edges))
    if len(wrong):
        t = int(wrong[0])
        raise bad(f"end[{t}]", int(end[t]), f"must be −1 or an edge < {tree.edges}")
    level = np.append(tree.level, 0)
    up = end.copy()
    while (deep := level[up] > level[query]).any():
        up[deep] = tree.parent[up[deep]]
    wrong = np.flatnonzero(up != query)
    if len(wrong):
        t = int(wrong[0])
        raise bad(f"end[{t}]", int(end[t]), f"must be at or below query[{t}] = {int(query[t])}")


def _checked_warm(tree: PrefixTree, warm: np.ndarray) -> np.ndarray:
    pairs = np.asarray(warm)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise bad("warm", pairs.shape, "must be (worker, edge) pairs, int32[k, 2]")
    pairs = frozen(pairs.ravel(), np.int32, "warm").reshape(-1, 2)
    wrong = np.flatnonzero((pairs[:, 0] < 0) | (pairs[:, 1] < -1) | (pairs[:, 1] >= tree.edges))
    if len(wrong):
        k = int(wrong[0])
        rule = f"must be a worker of at least 0, and −1 or an edge < {tree.edges}"
        raise bad(f"warm[{k}]", pairs[k].tolist(), rule)
    return pairs
