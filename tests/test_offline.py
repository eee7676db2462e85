"""The offline optimum of one cache, against exhaustive search and an independent program."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.offline import check_certificate, optimum
from kvtheory.oversize import check_oversize
from kvtheory.testing import optimum_by_search
from kvtheory.testing.strategies import cases
from kvtheory.traces import read
from kvtheory.tree import PrefixTree

ADMISSIONS = ["forced", "bypass"]
METHODS = ["belady", "interval_lp"]
admissions = st.sampled_from(ADMISSIONS)

CYCLE = Instance.from_blocks([[1], [2], [3], [4]] * 4)
# Chains of three and of two units: the best schedule keeps a part of an edge.
PARTIAL = Instance(
    PrefixTree([-1, 0, 1, -1, 3], [1] * 5), [4, 4, 4, 4, 2, 4, 2, 4, 2, 4], name="partial"
)


@given(cases(max_units=6, max_requests=8), admissions, st.sampled_from(METHODS))
def test_equals_exhaustive_search(case, admission, method):
    paths, capacity = case
    best = optimum(Instance.from_tokens(paths), capacity, admission=admission, method=method)
    assert best.lower == best.upper == optimum_by_search(paths, capacity, admission)
    assert best.exact
    assert best.status == "optimal"
    assert best.admission == admission
    assert best.hits.sum() == sum(map(len, paths)) - best.upper


@given(cases(max_units=30, max_requests=40, max_depth=8), admissions)
def test_the_methods_agree(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    exact = optimum(instance, capacity, admission=admission)
    program = optimum(instance, capacity, admission=admission, method="lp")
    assert (program.lower, program.upper, program.method) == (
        exact.lower,
        exact.upper,
        "interval_lp",
    )
    assert check_certificate(program.certificate, instance, capacity, admission).ok


@given(cases(max_units=6, max_requests=8, oversize=True), admissions)
def test_truncated_queries(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    for method in METHODS:
        best = optimum(instance, capacity, admission=admission, method=method, oversize="truncate")
        assert best.exact
        assert best.upper == optimum_by_search(paths, capacity, admission, "truncate")


@given(cases(max_units=6, max_requests=8, oversize=True), admissions)
def test_skipped_queries(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    best = optimum(instance, capacity, admission=admission, oversize="skip")
    least = optimum_by_search(paths, capacity, admission, "skip")
    assert best.lower <= least <= best.upper
    if max(map(len, paths)) <= capacity:
        assert best.exact
        assert best.status == "optimal"
    else:
        assert best.status == "heuristic"
        with pytest.raises(InputError, match="no way to skip"):
            optimum(instance, capacity, admission=admission, method="lp", oversize="skip")


@given(cases(max_units=12, max_requests=20), admissions)
def test_a_larger_cache_and_bypass_never_hurt(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    misses = [optimum(instance, capacity + k, admission=admission).upper for k in range(4)]
    assert misses == sorted(misses, reverse=True)
    assert optimum(instance, capacity, admission="bypass").upper <= misses[0] or (
        admission == "bypass"
    )


@given(cases(max_units=12, max_requests=16), st.integers(0, 16), admissions)
def test_prefixes_are_instances_of_their_own(case, t, admission):
    paths, capacity = case
    best = optimum(Instance.from_tokens(paths).prefix(t), capacity, admission=admission)
    alone = optimum(Instance.from_tokens(paths[:t]), capacity, admission=admission)
    assert best.upper == alone.upper
    assert best.hits.tolist() == alone.hits.tolist()


@given(cases(max_units=12, max_requests=16), admissions)
def test_compression_changes_nothing(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    best = optimum(instance, capacity, admission=admission)
    assert best.upper == optimum(instance.uncompressed(), capacity, admission=admission).upper


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("admission", "hits"), [("forced", 8), ("bypass", 9)])
def test_four_in_turn(method, admission, hits):
    best = optimum(CYCLE, 3, admission=admission, method=method)
    assert (best.lower, best.upper) == (16 - hits, 16 - hits)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("instance", [PARTIAL, Instance.from_tokens(PARTIAL.sequences())])
def test_part_of_an_edge_may_stay(method, instance):
    best = optimum(instance, 3, method=method)
    assert best.exact
    assert best.hits.sum() == 8


def test_an_edge_kept_whole_or_not_at_all_costs_hits():
    # what the example above excludes: no schedule of whole edges has more than 6 hits
    tree = Instance.from_tokens(PARTIAL.sequences()).tree
    assert tree.length.max() > 1
    assert _best_of_whole_edges(Instance.from_tokens(PARTIAL.sequences()), 3) == 6


def _best_of_whole_edges(instance, capacity):
    tree = instance.tree
    states = {frozenset(): 0}
    for q in instance.query.tolist():
        path = frozenset(tree.path(q))
        after = {}
        for cache, hits in states.items():
            gain = hits + sum(int(tree.length[e]) for e in path & cache)
            rest = sorted(cache - path)
            for mask in range(1 << len(rest)):
                keep = path | {e for i, e in enumerate(rest) if mask >> i & 1}
                closed = all(tree.parent[e] < 0 or tree.parent[e] in keep for e in keep)
                if closed and sum(int(tree.length[e]) for e in keep) <= capacity:
                    after[keep] = max(gain, after.get(keep, 0))
        states = after
    return max(states.values())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("paths", [[], [[]], [[], [], []], [[1]], [[1], [], [1]]])
def test_tiny_instances(method, paths):
    best = optimum(Instance.from_tokens(paths), 1, method=method)
    assert best.upper == len({1} & {token for path in paths for token in path})
    assert best.hits.dtype == np.int64
    assert len(best.hits) == len(paths)


def test_capacity_as_text():
    assert optimum(CYCLE, "75%").upper == optimum(CYCLE, 3).upper


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"admission": "free"}, "admission = 'free'"),
        ({"method": "milp"}, "unknown method 'milp'"),
        ({"oversize": "cut"}, "oversize = 'cut'"),
        ({"solver": "HIGHS"}, "Belady needs no solver"),
        ({"capacity": 0}, "capacity = 0"),
        ({"capacity": 1}, r"query 0 has 2 units and the cache only 1 .*oversize='truncate'"),
    ],
)
def test_bad_arguments(options, message):
    instance = Instance.from_tokens([[1, 2], [3], [3, 4]])
    with pytest.raises(InputError, match=message):
        optimum(instance, **{"capacity": 2, **options})


def test_the_optimum_is_a_value():
    best = optimum(CYCLE, 3)
    with pytest.raises(AttributeError):
        best.upper = 0
    with pytest.raises(ValueError, match="read-only"):
        best.hits[0] = 1
    assert best.certificate is None
    assert best.seconds > 0


# -- real traces ------------------------------------------------------------------------------

PREFIX_TRACES = [
    "mooncake_conversation",
    "mooncake_synthetic",
    "mooncake_arxiv_first1000",
    "claude_code_merged_12",
    "lmcache_magagent",
    "oasst_en_100",
]
FLAT_TRACES = ["2_pools", "loop", "multi1", "sprite", "zigzag"]


def _reference(shared_traces, kind, name):
    entry = json.loads((shared_traces / "reference.json").read_text())[kind][name]
    return shared_traces / entry["file"].removeprefix("files/"), entry["cells"]


@pytest.mark.parametrize("name", PREFIX_TRACES)
def test_real_prefix_traces(shared_traces, name):
    path, cells = _reference(shared_traces, "prefix_traces", name)
    instance = read(path, "mooncake")
    assert len(cells) == 4
    for cell in cells:
        for admission in ADMISSIONS:
            best = optimum(instance, cell["capacity"], admission=admission, oversize="truncate")
            assert best.upper == cell[f"belady_{admission}_misses"]
            assert best.hits.sum() == cell[f"belady_{admission}_hits"]


@pytest.mark.parametrize("name", PREFIX_TRACES)
def test_real_prefix_traces_with_certificates(shared_traces, name):
    path, cells = _reference(shared_traces, "prefix_traces", name)
    instance = read(path, "mooncake")
    for cell in cells[:1] if name == "mooncake_conversation" else cells:
        for admission in ADMISSIONS:
            size = cell["capacity"]
            best = optimum(
                instance, size, admission=admission, method="interval_lp", oversize="truncate"
            )
            assert best.lower == best.upper == cell[f"belady_{admission}_misses"]
            cut = check_oversize(instance, size, "truncate")
            assert check_certificate(best.certificate, cut, size, admission).ok


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "loop")) for n in FLAT_TRACES]
)
def test_real_flat_traces(shared_traces, name):
    path, cells = _reference(shared_traces, "flat_traces", name)
    instance = read(path, "requests")
    for cell in cells:
        assert optimum(instance, cell["capacity"]).hits.sum() == cell["belady_hits"]
