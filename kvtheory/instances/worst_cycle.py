"""The worst case of a policy on a small tree, as the exact engine finds it, over and over."""

from dataclasses import replace
from typing import Any

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances.runs import named, whole


def worst_cycle(
    policy: str = "rlt",
    tree: str = "star:leaves=4",
    capacity: int = 3,
    queries: str = "all",
    cycles: int = 100,
) -> Instance:
    """The cycle of requests that reaches the competitive ratio of a policy, after what leads to it.

    Defeats the policy by exactly its competitive ratio, in expectation and but for a constant:
    RLT on a star of B + 1 leaves by H_B and on larger ones by 2·H_B − 1, on 4 chains of 2 units
    at B = 4 by 8/3, leaf LRU by the effective width. For a policy without a finite belief
    (`random_leaf`, ``rlt:phase=query``) it is the worst cycle that the search finds.

    Parameters
    ----------
    policy
        Text of a policy that `kvtheory.ratio.exact` knows; in brackets if it has several
        parameters.
    tree
        Text of a tree of at most 15 units: star:leaves=4, [broom:L=2,leaves=3],
        [chains:n=3,length=2], [parents:-1 0 0 1].
    capacity
        B, units of the cache.
    queries
        Where queries may end: all nodes, or leaves.
    cycles
        How often the cycle is repeated.

    Raises
    ------
    InputError
        For an unknown policy, tree or parameter, or where nothing makes the policy miss for ever.

    Examples
    --------
    >>> worst_cycle("llru", "star:leaves=3", 2, cycles=2).query.tolist()
    [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    """
    parameters = dict(locals())
    whole(1, capacity=capacity, cycles=cycles)
    from kvtheory.ratio.exact_engine import exact, to_instance

    worst = exact(policy, tree, capacity, queries=queries)
    if not worst.cycle:
        raise InputError(
            f"nothing makes {policy} miss for ever on {tree} at {capacity} units: "
            "take a smaller capacity"
        )
    fields: dict[str, Any] = named("worst_cycle", parameters)
    return replace(to_instance(worst, cycles), **fields)
