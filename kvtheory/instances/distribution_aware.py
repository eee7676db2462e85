"""The adversary that knows the law of a policy: each query is the worst next one."""

import numpy as np

from kvtheory.errors import bad
from kvtheory.instance import Instance
from kvtheory.instances.runs import from_runs, named, whole


def distribution_aware(
    policy: str = "rlt",
    tree: str = "star:leaves=4",
    capacity: int = 3,
    queries: str = "all",
    requests: int = 200,
    seeds: int = 64,
    seed: int = 0,
) -> Instance:
    """Each query has the largest expected miss per unit by which it raises the optimum.

    The expectation is over ``seeds`` runs of the policy at once, so for a randomised one it is an
    estimate. A query that raises the optimum by nothing goes before any that does.

    Defeats deterministic policies by the effective width k of the tree, and randomised ones by what
    their law gives away: on a star of B + 1 leaves leaf LRU, FIFO and `random_leaf` have ratio B,
    and RLT H_B, all of which is the most there is; on a broom with one leaf more than fits RLT has
    H_{B−L+1}. It looks one query ahead only: where more than that is needed, as for RLT on a star
    of B + 2 leaves (2·H_B − 1) or on three chains (5/2 at B = 4), it finds H_B and 3/2, and
    `kvtheory.ratio.search` or `kvtheory.ratio.exact` find the rest.

    Parameters
    ----------
    policy
        Text of an online eviction policy; in brackets if it has several parameters.
    tree
        Text of a tree (`kvtheory.tree_text.tree_of`): star:leaves=4, [broom:L=2,leaves=3],
        [chains:n=3,length=2], [parents:-1 0 0 1].
    capacity
        B, units of the cache that this is made for.
    queries
        Where queries may end: all nodes, or leaves.
    requests
        Number of queries.
    seeds
        Lanes of a randomised policy; a deterministic one has one.
    seed
        Of the lanes.

    Raises
    ------
    InputError
        Naming the parameter that is out of its range, for an unknown policy or tree, or a policy
        that sees the future.

    Examples
    --------
    >>> distribution_aware("llru", requests=9).query.tolist()
    [0, 1, 2, 3, 0, 1, 2, 3, 0]
    """
    parameters = dict(locals())
    whole(1, capacity=capacity, requests=requests, seeds=seeds)
    whole(0, seed=seed)
    if seed >= 2**32:
        raise bad("seed", seed, "must be below 2^32")
    import jax

    from kvtheory.eviction import policy as parse_policy
    from kvtheory.ratio.adaptive import worst_queries
    from kvtheory.tree_text import nodes_of, tree_of

    rule, where = parse_policy(policy), tree_of(tree)
    keys = jax.random.split(jax.random.key(seed), seeds if rule.randomised else 1)
    word = worst_queries(rule, where, capacity, nodes_of(where, queries, capacity), requests, keys)
    paths = [where.path(edge) for edge in word.tolist()]
    return from_runs(
        np.concatenate(paths),
        np.cumsum([0, *map(len, paths)]),
        where.length.astype(np.int64),
        **named("distribution_aware", parameters),
    )
