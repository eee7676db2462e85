"""Slow twin of node LRU: the radix tree of SGLang, which evicts whole nodes.

References
----------
SGLang, ``python/sglang/srt/mem_cache/radix_cache.py``: match, split, insert and evict.
"""

from collections.abc import Sequence

from kvtheory.testing.twin_cache import Oversize, Twin, Unit


class Node:
    """A run of tokens in the radix tree.

    Parameters
    ----------
    tokens
        The run, at least one token (none at the root).
    parent
        The node above, None at the root.
    used
        Tick of the last access.
    """

    def __init__(self, tokens: tuple[int, ...], parent: "Node | None", used: int) -> None:
        self.tokens = tokens
        self.parent = parent
        self.used = used
        self.children: dict[int, Node] = {}


class NodeLRU(Twin):
    """A radix tree whose nodes split on demand and are evicted whole, least recently used first.

    Matching a query walks down from the root and stamps each node that it enters; where the query
    leaves a node or ends inside it, the node is split and the match ends with the upper part. The
    matched nodes are locked. Then the least recently used unlocked leaf node is freed whole, until
    at least the units needed are free, so more may go than was needed; a parent that has lost its
    last child is a leaf node from then on. The missing units become one new node.

    Parameters
    ----------
    capacity, oversize
        As for every twin.
    stamp_before_split
        SGLang stamps a node and then splits it, so the lower part, which the query does not
        contain, counts as used too, just before the upper part. False stamps the upper part only.
    """

    def __init__(
        self, capacity: int, *, stamp_before_split: bool = True, oversize: Oversize = "error"
    ) -> None:
        super().__init__(capacity, oversize=oversize)
        self.stamp_before_split = stamp_before_split
        self.root = Node((), None, 0)
        self.size = 0
        self.ticks = 0

    @property
    def cached(self) -> frozenset[Unit]:
        """The units in the cache."""
        units: set[Unit] = set()

        def walk(node: Node, above: Unit) -> None:
            for depth in range(1, len(node.tokens) + 1):
                units.add(above + node.tokens[:depth])
            for child in node.children.values():
                walk(child, above + node.tokens)

        walk(self.root, ())
        return frozenset(units)

    def serve_fitting(self, tokens: Sequence[int]) -> int:
        """Serve a query of at most ``capacity`` units and return its hits."""
        query = tuple(tokens)
        node, hits = self.match(query)
        missing = query[hits:]
        self.evict(self.size + len(missing) - self.capacity, locked=self.path_to(node))
        if missing:
            node.children[missing[0]] = Node(missing, node, self.tick())
            self.size += len(missing)
        return hits

    def match(self, query: tuple[int, ...]) -> tuple[Node, int]:
        """The node at whose end the cached prefix of ``query`` ends, and its length."""
        node, hits = self.root, 0
        while hits < len(query) and query[hits] in node.children:
            node = node.children[query[hits]]
            shared = common_prefix(node.tokens, query[hits:])
            if shared < len(node.tokens):
                if self.stamp_before_split:
                    node.used = self.tick()
                node = self.split(node, shared)
            node.used = self.tick()
            hits += shared
        return node, hits

    def split(self, node: Node, at: int) -> Node:
        """Cut a node after its first ``at`` tokens and return the upper part."""
        parent = node.parent
        assert parent is not None
        upper = Node(node.tokens[:at], parent, node.used)
        parent.children[upper.tokens[0]] = upper
        node.tokens = node.tokens[at:]
        node.parent = upper
        upper.children[node.tokens[0]] = node
        return upper

    def evict(self, needed: int, locked: list[Node]) -> None:
        """Free at least ``needed`` units, in whole leaf nodes."""
        freed = 0
        while freed < needed:
            leaves = [node for node in self.leaf_nodes() if node not in locked]
            victim = min(leaves, key=lambda node: node.used)
            assert victim.parent is not None
            del victim.parent.children[victim.tokens[0]]
            freed += len(victim.tokens)
        self.size -= freed

    def leaf_nodes(self) -> list[Node]:
        """The nodes without children, the root never being one."""
        found = []
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            if not node.children:
                found.append(node)
        return found

    def path_to(self, node: Node) -> list[Node]:
        """The nodes from ``node`` up to the root."""
        path = [node]
        while path[-1].parent is not None:
            path.append(path[-1].parent)
        return path

    def tick(self) -> int:
        """A time later than every earlier one."""
        self.ticks += 1
        return self.ticks


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
