"""What a router prepares on the host for each query, made one query at a time.

`RoutingPolicy.prepare` gives arrays with a row for each query, which `RoutingPolicy.init` keeps in
the router's state. A row that depends on its query alone is the one of an instance of that query.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.router import RoutingPolicy
from kvtheory.routing.advised import AdvisedRouter
from kvtheory.routing.dualmap import DualMap

Places = tuple[tuple[int, str], ...]


class PreparedRows:
    """The rows of a router, which must be asked for query by query, in order.

    Raises
    ------
    InputError
        If rows depend on other queries.
    """

    def __init__(self, policy: RoutingPolicy, workers: int) -> None:
        self._policy = policy
        self._workers = workers
        self._like: dict[str, np.ndarray] = {}
        self._keys = {f"{where}key": each for where, each in _dual_maps(policy)}
        self._numbers: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in self._keys}
        both, alone = self._prepare([0], [1]), self._prepare([1])
        self.any = bool(both)
        for name in both.keys() - self._keys:
            if not np.array_equal(both[name][1], alone[name][0]):
                raise _refused(policy, "prepares arrays from the whole sequence of queries")

    def _prepare(self, *queries: Sequence[int]) -> dict[str, np.ndarray]:
        rows = self._policy.prepare(Instance.from_tokens(queries), self._workers)
        return {name: np.asarray(array) for name, array in rows.items()}

    def arrays(
        self, requests: int, longest: int, old: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Arrays with room for so many queries of at most so many units, ``old`` at the top."""
        if not self.any:
            return {}
        self._like = {name: rows[0] for name, rows in self._prepare([0] * longest).items()}
        new = {n: np.zeros((requests, *row.shape), row.dtype) for n, row in self._like.items()}
        for name, array in old.items():
            new[name][tuple(map(slice, array.shape))] = array
        return new

    def row(self, ids: Sequence[int]) -> dict[str, np.ndarray]:
        """The row of the next query, as wide as those of `arrays`."""
        if not self.any:
            return {}
        row = {name: np.zeros_like(array) for name, array in self._like.items()}
        for name, array in self._prepare(ids).items():
            row[name][tuple(map(slice, array.shape[1:]))] = array[0]
        for name, policy in self._keys.items():
            numbers = self._numbers[name]
            for k in range(int(row[name.removesuffix("key") + "last"]) + 1):
                prefix = tuple(ids[: policy.prefix << k])
                row[name][k] = numbers.setdefault(prefix, len(numbers))
        return row

    def places(self, state: Any, prepared: Mapping[str, Any]) -> Places:
        """Which leaves of the router's state are the arrays that it prepared.

        Raises
        ------
        InputError
            If one is not there as it was made, so that no row could be added to it.
        """
        names = {id(array): name for name, array in prepared.items()}
        leaves = enumerate(jax.tree.leaves(state))
        found = tuple((i, names[id(leaf)]) for i, leaf in leaves if id(leaf) in names)
        if {name for _, name in found} != set(prepared):
            raise _refused(self._policy, "does not keep what it prepares as it is")
        return found


def _dual_maps(policy: RoutingPolicy) -> Iterator[tuple[str, DualMap]]:
    """Those in a router, and how the names of their arrays begin.

    They number the prefixes of all queries by first appearance, so a row is not of its query alone.
    """
    if isinstance(policy, DualMap):
        yield "", policy
    elif isinstance(policy, AdvisedRouter):
        for k, expert in enumerate(policy.experts):
            for where, each in _dual_maps(expert):
                yield f"{k}.{where}", each


def _refused(policy: RoutingPolicy, why: str) -> InputError:
    return InputError(
        f"router {policy.name!r} {why}: run it with kvtheory.simulate_cluster.simulate_cluster"
    )
