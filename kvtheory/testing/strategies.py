"""Hypothesis strategies for small request sequences: trees, queries, capacities.

Needs ``hypothesis``, which the rest of the package does without.
"""

from collections.abc import Sequence

from hypothesis import strategies as st

from kvtheory.instance import Instance
from kvtheory.testing.twin_cache import distinct_units


@st.composite
def sequences(
    draw: st.DrawFn,
    max_units: int = 6,
    max_requests: int = 8,
    alphabet: int = 6,
    max_depth: int = 4,
    min_requests: int = 1,
) -> list[list[int]]:
    """Queries on a small prefix tree, which is a star, some chains, or any other tree.

    A query ends at any node: inside other queries too, or at the root (an empty query). Tokens
    number the children of a node, so equal tokens stand below different prefixes.

    Parameters
    ----------
    max_units, max_depth
        Bounds on the tree.
    alphabet
        Number of tokens, so the most children of a node.
    min_requests, max_requests
        Bounds on the number of queries.
    """
    shape = draw(st.sampled_from(["tree", "tree", "chains", "star"]))
    prefixes: list[list[int]] = [[]]
    children = [0]
    for _ in range(draw(st.integers(1, max_units))):
        open_nodes = [
            node
            for node, prefix in enumerate(prefixes)
            if children[node] < alphabet and len(prefix) < max_depth
        ]
        if shape == "star":
            open_nodes = open_nodes[:1] if open_nodes[:1] == [0] else []
        elif shape == "chains":
            open_nodes = [node for node in open_nodes if node == 0 or children[node] == 0]
        if not open_nodes:
            break
        parent = draw(st.sampled_from(open_nodes))
        prefixes.append([*prefixes[parent], children[parent]])
        children[parent] += 1
        children.append(0)
    nodes = st.integers(0, len(prefixes) - 1)
    ends = draw(st.lists(nodes, min_size=min_requests, max_size=max_requests))
    return [list(prefixes[end]) for end in ends]


def capacities_for(
    sequences: Sequence[Sequence[int]], oversize: bool = False
) -> st.SearchStrategy[int]:
    """Capacities from the longest query (from 1 with ``oversize``) up to one unit too many."""
    longest = max((len(tokens) for tokens in sequences), default=0)
    low = 1 if oversize else max(1, longest)
    return st.integers(low, max(low, len(distinct_units(sequences)) + 1))


@st.composite
def cases(draw: st.DrawFn, oversize: bool = False, **bounds: int) -> tuple[list[list[int]], int]:
    """A request sequence and a capacity for it; ``bounds`` go to `sequences`."""
    queries = draw(sequences(**bounds))
    return queries, draw(capacities_for(queries, oversize))


def instances(**bounds: int) -> st.SearchStrategy[Instance]:
    """Instances of such sequences; ``bounds`` go to `sequences`."""
    return sequences(**bounds).map(Instance.from_tokens)
