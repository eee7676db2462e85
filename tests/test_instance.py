"""Instances as values: construction, views, identity; and capacities as text."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.cluster import capacity_units
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.tree import PrefixTree

SEQUENCES = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=10)


def full(**changes: object) -> Instance:
    fields: dict[str, object] = {
        "arrival": [0.0, 0.5, 0.5],
        "input_length": [20, 30, 0],
        "output_length": [1, 0, 7],
        "block_size": 16,
        "name": "full",
        "parameters": {"b": 1, "a": [1, 2]},
        "source": "by hand",
    }
    return Instance.from_tokens([[1, 2], [1, 3], []], **(fields | changes))


@given(SEQUENCES)
def test_sequences_come_back(sequences):
    instance = Instance.from_tokens(sequences)
    assert instance.sequences() == sequences
    assert [instance.ids(t).tolist() for t in range(len(sequences))] == sequences
    assert instance.query_length.tolist() == [len(s) for s in sequences]
    assert instance.units_requested == sum(map(len, sequences))
    prefixes = {tuple(s[:k]) for s in sequences for k in range(1, len(s) + 1)}
    assert instance.tree.units == len(prefixes)


@given(SEQUENCES)
def test_the_log_lists_paths_deepest_edge_first(sequences):
    instance = Instance.from_tokens(sequences)
    start, edge = instance.log
    for t, q in enumerate(instance.query.tolist()):
        assert edge[start[t] : start[t + 1]].tolist() == instance.tree.path(q)[::-1]


@given(SEQUENCES, st.integers(1, 6))
def test_truncation_is_the_tree_of_truncated_lists(sequences, depth):
    instance = Instance.from_tokens(sequences)
    cut = instance.truncate(depth)
    built = Instance.from_tokens([s[:depth] for s in sequences])
    assert cut.tree == built.tree
    assert cut.query.tolist() == built.query.tolist()
    assert cut.query_length.tolist() == instance.query_length.tolist()
    beyond = [max(0, len(s) - depth) for s in sequences]
    assert (cut is instance and not any(beyond)) or cut.beyond.tolist() == beyond


@given(SEQUENCES)
def test_uncompressed_has_one_unit_an_edge_and_the_same_paths(sequences):
    instance = Instance.from_tokens(sequences)
    flat = instance.uncompressed()
    assert set(flat.tree.length.tolist()) <= {1}
    assert flat.tree.units == flat.tree.edges == instance.tree.units
    assert flat.sequences() == sequences
    paths = [instance.tree.units_of(q).tolist() for q in instance.query.tolist()]
    assert [flat.tree.units_of(q).tolist() for q in flat.query.tolist()] == paths


@given(SEQUENCES, st.integers(0, 10))
def test_a_prefix_keeps_the_tree(sequences, n):
    instance = Instance.from_tokens(sequences, arrival=np.arange(len(sequences)))
    part = instance.prefix(n)
    assert part.tree is instance.tree
    assert part.sequences() == sequences[:n]
    assert part.arrival.tolist() == list(range(min(n, len(sequences))))


def test_construction_by_global_and_local_ids():
    rows = [[1, 2], [3, 4], [1]]
    instance = Instance.from_blocks(rows)
    assert instance == Instance.from_tokens(rows) == Instance.from_blocks(rows, ids="local")
    with pytest.raises(InputError, match="two parents"):
        Instance.from_blocks([[1, 2], [2]])
    with pytest.raises(InputError, match="ids = 'hash': must be 'global'"):
        Instance.from_blocks(rows, ids="hash")


def test_equal_inputs_have_equal_digests_and_any_change_another():
    assert full() == full()
    assert full().digest() == full().digest()
    assert hash(full()) == hash(full())
    assert full() == full(parameters={"a": (1, 2), "b": 1})  # order does not count
    changes = [
        {"arrival": None},
        {"arrival": [0.0, 0.5, 0.6]},
        {"input_length": None},
        {"input_length": [20, 30, 1]},
        {"output_length": [1, 0, 8]},
        {"block_size": 32},
        {"name": "other"},
        {"parameters": {"b": 2, "a": [1, 2]}},
        {"source": ""},
        {"beyond": [0, 0, 0]},
    ]
    digests = {full(**change).digest() for change in changes}
    digests.add(full().digest())
    digests.add(dataclasses.replace(full(), query=[1, 1, -1]).digest())
    tree = full().tree
    digests.add(dataclasses.replace(full(), tree=PrefixTree(tree.parent, tree.length)).digest())
    assert len(digests) == len(changes) + 3


def test_nothing_can_be_changed():
    given_arrival = np.array([0.0, 1.0])
    instance = Instance.from_tokens([[1], [2]], arrival=given_arrival, parameters={"a": 1})
    given_arrival[0] = 9.0
    assert instance.arrival[0] == 0.0
    tree = instance.tree
    arrays = [tree.parent, tree.length, tree.labels, tree.depth, tree.level, tree.offset]
    arrays += [instance.query, instance.arrival, instance.query_length, instance.tokens]
    arrays += instance.log
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        instance.name = "x"
    with pytest.raises(TypeError):
        instance.parameters["a"] = 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"arrival": [0, 2, 1]}, r"arrival\[2\] = 1.0: arrivals must not decrease"),
        ({"arrival": [0, float("nan"), 1]}, r"arrival\[1\] = nan: must be a finite time"),
        ({"arrival": [0, 1]}, "arrival = '2 values': need one per query, 3"),
        ({"input_length": [1, 2, -1]}, r"input_length\[2\] = -1: must not be negative"),
        ({"output_length": [1.5, 2, 3]}, "output_length = 'float64': must hold integers"),
        ({"beyond": [0, -1, 0]}, r"beyond\[1\] = -1"),
        ({"block_size": 0}, "block_size = 0: must be at least 1 token"),
    ],
)
def test_bad_fields_are_named(change, text):
    with pytest.raises(InputError, match=text):
        full(**change)


def test_queries_must_be_edges():
    tree = PrefixTree([-1], [1])
    for wrong in (-2, 1):
        with pytest.raises(InputError, match=rf"query\[1\] = {wrong}: must be −1 or an edge < 1"):
            Instance(tree, [0, wrong])


def test_tokens_follow_the_block_size_unless_given():
    assert full(input_length=None).tokens.tolist() == [32, 32, 0]
    assert full().tokens.tolist() == [20, 30, 0]


UNITS = Instance.from_tokens([range(20)], block_size=16)
MANY = Instance(PrefixTree([-1], [3000]), [0], block_size=16)


@pytest.mark.parametrize(
    ("capacity", "instance", "units"),
    [
        (7, UNITS, 7),
        ("7", UNITS, 7),
        ("5%", UNITS, 1),  # in floats 5 * 20 / 100 rounds up to 1 too, but 7 % of 3000 do not
        ("5.0001%", UNITS, 2),
        ("7%", MANY, 210),
        ("0.1%", UNITS, 1),
        ("0.1%", MANY, 3),
        ("0.10001%", MANY, 4),
        ("1/3%", MANY, 10),
        ("100%", MANY, 3000),
        ("250 %", UNITS, 50),
        ("16tok", UNITS, 1),
        ("47tok", UNITS, 2),
        ("192000tok", UNITS, 12_000),
    ],
)
def test_capacities_are_exact(capacity, instance, units):
    assert capacity_units(capacity, instance) == units


@pytest.mark.parametrize(
    "capacity", [0, -1, "0%", "-5%", "x", "", "%", "tok", "0tok", "-3tok", "1.5", "1/0%", True]
)
def test_capacities_that_mean_nothing_are_refused(capacity):
    with pytest.raises(InputError, match=r"capacity = .*must be a positive number of units"):
        capacity_units(capacity, UNITS)


def test_capacities_out_of_range_say_why():
    with pytest.raises(InputError, match="less than one block of 16 tokens"):
        capacity_units("15tok", UNITS)
    with pytest.raises(InputError, match="must fit 31 bits"):
        capacity_units(2**31, UNITS)
