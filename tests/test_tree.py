"""The two builders of prefix trees against a plain one, and the tree itself."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.tree import PrefixTree, frozen
from kvtheory.tree_building import flatten, tree_from_chained_ids, tree_from_local_ids

SEQUENCES = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=12)


def slow_tree(sequences: list[list[int]]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Parent, length, labels and queries from sets of prefixes, by the definition of an edge."""
    users: dict[tuple[int, ...], set[int]] = {}
    for t, sequence in enumerate(sequences):
        for k in range(1, len(sequence) + 1):
            users.setdefault(tuple(sequence[:k]), set()).add(t)
    edge_of: dict[tuple[int, ...], int] = {(): -1}
    parent, runs = [], []
    for prefix, using in users.items():  # by first appearance, parents first
        above = edge_of[prefix[:-1]]
        if above < 0 or users[prefix[:-1]] != using:
            edge_of[prefix] = len(parent)
            parent.append(above)
            runs.append([])
        else:
            edge_of[prefix] = above
        runs[edge_of[prefix]].append(prefix[-1])
    queries = [edge_of[tuple(sequence)] for sequence in sequences]
    return parent, [len(run) for run in runs], [x for run in runs for x in run], queries


def as_lists(tree: PrefixTree, query: np.ndarray) -> tuple[list[int], ...]:
    labels = np.arange(tree.units) if tree.labels is None else tree.labels
    return tree.parent.tolist(), tree.length.tolist(), labels.tolist(), query.tolist()


def chained(sequences: list[list[int]], names: dict[tuple[int, ...], int]) -> list[list[int]]:
    """Name each prefix, numbers by first appearance where `names` is empty at first."""
    return [
        [names.setdefault(tuple(s[:k]), len(names)) for k in range(1, len(s) + 1)]
        for s in sequences
    ]


@given(SEQUENCES)
def test_local_builder_is_the_definition(sequences):
    tree, query = tree_from_local_ids(*flatten(sequences))
    assert as_lists(tree, query) == slow_tree(sequences)


@given(SEQUENCES)
def test_chained_builder_is_the_local_one(sequences):
    local, query = tree_from_local_ids(*flatten(sequences))
    tree, chained_query = tree_from_chained_ids(*flatten(chained(sequences, {})))
    assert tree.parent.tolist() == local.parent.tolist()
    assert tree.length.tolist() == local.length.tolist()
    assert chained_query.tolist() == query.tolist()
    if tree.edges:
        assert tree.labels.tolist() == list(range(tree.units))


@given(SEQUENCES, st.integers(0, 2**32), st.sampled_from([20, 2**15, 2**31, 2**40, 2**61]))
def test_relabelling_changes_labels_alone(sequences, seed, top):
    rng = random.Random(seed)
    for low, build, rows in (
        (0, tree_from_local_ids, sequences),
        (-top, tree_from_local_ids, sequences),
        (0, tree_from_chained_ids, chained(sequences, {})),
        (-top, tree_from_chained_ids, chained(sequences, {})),
    ):
        old = sorted({x for row in rows for x in row})
        new = dict(zip(old, rng.sample(range(low, top + len(old)), len(old)), strict=True))
        before, query = build(*flatten(rows))
        after, new_query = build(*flatten([[new[x] for x in row] for row in rows]))
        assert (after.parent.tolist(), after.length.tolist(), new_query.tolist()) == (
            before.parent.tolist(),
            before.length.tolist(),
            query.tolist(),
        )
        if before.edges:
            assert after.labels.tolist() == [new[x] for x in before.labels.tolist()]


@given(st.lists(st.lists(st.integers(0, 1), max_size=3), max_size=5))
def test_long_rows_are_compared_like_short_ones(sequences):
    stretched = [[x for x in row for _ in range(200)] for row in sequences]
    assert as_lists(*tree_from_local_ids(*flatten(stretched))) == slow_tree(stretched)


def test_rows_longer_than_one_comparison():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 1000, 3000)
    rows = []
    for cut in (0, 1, 255, 256, 257, 2999, 3000):
        rows.append(np.concatenate([base[:cut], rng.integers(1000, 2000, 400)]))
    tree, query = tree_from_local_ids(*flatten([base, *rows, base[:300], base[:10]]))
    assert as_lists(tree, query) == slow_tree(
        [row.tolist() for row in (base, *rows, base[:300], base[:10])]
    )


def test_many_comparisons_are_cut_into_chunks(monkeypatch):
    rng = random.Random(1)
    rows = [[rng.randrange(3) for _ in range(rng.randrange(9))] for _ in range(200)]
    whole = as_lists(*tree_from_local_ids(*flatten(rows)))
    named = as_lists(*tree_from_chained_ids(*flatten(chained(rows, {}))))
    monkeypatch.setattr("kvtheory.tree_building._CHUNK", 10)
    assert as_lists(*tree_from_local_ids(*flatten(rows))) == whole == slow_tree(rows)
    assert as_lists(*tree_from_chained_ids(*flatten(chained(rows, {})))) == named


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([[1, 2], [3], [4, 2]], "id 2 has two parents: 1 in request 0 and 4 in request 2"),
        ([[5, 6], [], [6]], "id 6 has two parents: 5 in request 0 and the root in request 2"),
        ([[7, 8, 7]], "id 7 has two parents: the root in request 0 and 8 in request 0"),
        ([[7, 7]], "id 7 has two parents: the root in request 0 and 7 in request 0"),
        ([[2**60, 2], [2]], "id 2 has two parents: 1152921504606846976 in request 0"),
    ],
)
def test_an_id_with_two_parents_is_named(rows, text):
    with pytest.raises(InputError, match=text) as error:
        tree_from_chained_ids(*flatten(rows))
    assert "pass ids='local'" in str(error.value)


@pytest.mark.parametrize("build", [tree_from_chained_ids, tree_from_local_ids])
def test_boundaries_that_do_not_fit_are_refused(build):
    for start in ([], [0], [1, 3], [0, 2], [0, 4, 3]):
        with pytest.raises(InputError, match=r"start = .*must rise from 0"):
            build(np.array([1, 2, 3]), np.array(start, np.int64))
    assert build(np.zeros(0, np.int64), np.array([0, 0, 0]))[1].tolist() == [-1, -1]


@given(SEQUENCES)
def test_depth_level_children_and_paths(sequences):
    tree, query = tree_from_local_ids(*flatten(sequences))
    for e in range(tree.edges):
        path = tree.path(e)
        assert path[-1] == e
        assert tree.depth[e] == sum(tree.length[i] for i in path) == len(tree.units_of(e))
        assert tree.level[e] == len(path)
        assert tree.children[e] == (tree.parent == e).sum()
    assert [tree.ids_of(q).tolist() for q in query.tolist()] == sequences


def test_a_path_of_thousands_of_edges():
    n = 5000
    tree = PrefixTree(np.arange(-1, n - 1), np.full(n, 2))
    assert (tree.depth[-1], tree.level[-1], len(tree.path(n - 1))) == (2 * n, n, n)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([0], [1]), r"parent\[0\] = 0: must be −1 or an earlier edge"),
        (([-1, 2, 1], [1, 1, 1]), r"parent\[1\] = 2"),
        (([-2], [1]), r"parent\[0\] = -2"),
        (([-1], [0]), r"length\[0\] = 0: an edge has at least one unit"),
        (([-1, 0], [1]), "length = .*shape of parent"),
        (([-1], [2], [5]), "labels = 1: need one per unit, 2"),
        (([-1], [1.5]), "length = 'float64': must hold integers"),
        (([[-1]], [1]), "parent = .*one-dimensional"),
        (([-1], [2**31]), "length = .*does not fit int32"),
    ],
)
def test_arrays_that_are_no_tree_are_refused(arguments, text):
    with pytest.raises(InputError, match=text):
        PrefixTree(*arguments)


def test_frozen_shares_only_what_nothing_can_write_to():
    mine = np.arange(4)
    held = frozen(mine, np.int64, "x")
    mine[0] = 9
    assert held[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 1
    assert frozen(held, np.int64, "x") is held
    assert np.shares_memory(frozen(held[1:3], np.int64, "x"), held)
    view = mine[:]
    view.setflags(write=False)  # read-only, but `mine` is not
    assert not np.shares_memory(frozen(view, np.int64, "x"), mine)
    assert frozen(held[::2], np.int64, "x").flags.c_contiguous
    assert frozen(held, np.int32, "x").dtype == np.int32
    with pytest.raises(InputError, match="does not fit int64"):
        frozen(np.array([2**63], np.uint64), np.int64, "x")


def test_flatten_takes_lists_tuples_and_arrays_of_integers_alone():
    flat, start = flatten([[1, 2], (3,), np.array([4], np.int32), [], range(2)])
    assert flat.tolist() == [1, 2, 3, 4, 0, 1]
    assert start.tolist() == [0, 2, 3, 4, 4, 6]
    assert flat.dtype == start.dtype == np.int64
    for wrong in ([1, 1.5], ["a"], [[1], [2]], [1, None], [True, False]):
        with pytest.raises(InputError, match=r"sequences\[1\] = .*flat list of integers"):
            flatten([[1], wrong])


def test_equality_of_trees_is_by_value():
    tree = Instance.from_tokens([[1, 2], [1, 3]]).tree
    assert tree == Instance.from_tokens([[1, 2], [1, 3]]).tree
    assert tree != Instance.from_tokens([[1, 2], [1, 4]]).tree
    assert tree != PrefixTree(tree.parent, tree.length)
    assert PrefixTree(tree.parent, tree.length) == PrefixTree([-1, 0, 0], [1, 1, 1])
    assert (tree == 3) is False
