import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.instance import Instance
from kvtheory.next_use import NEVER, next_use, query_of

sequences = st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=12)


def by_scanning(log, served):
    """The next use of each position by looking at every later one."""
    owner = [t for t in range(len(log.start) - 1) for _ in range(log.start[t], log.start[t + 1])]
    edge = log.edge.tolist()
    out = [NEVER] * len(edge)
    for p, e in enumerate(edge):
        later = [q for q in range(p + 1, len(edge)) if edge[q] == e and served[owner[q]]]
        if served[owner[p]] and later:
            out[p] = later[0]
    return out


@given(sequences, st.data())
def test_equals_a_scan_of_the_log(paths, data):
    log = Instance.from_tokens(paths).log
    everyone = np.ones(len(paths), bool)
    assert next_use(log).tolist() == by_scanning(log, everyone)
    served = np.array(data.draw(st.lists(st.booleans(), min_size=len(paths), max_size=len(paths))))
    assert next_use(log, served).tolist() == by_scanning(log, served)


@given(sequences)
def test_deeper_edges_are_used_no_earlier(paths):
    instance = Instance.from_tokens(paths)
    log = instance.log
    following = next_use(log)
    later = np.full(len(log.edge), len(paths))
    again = following != NEVER
    later[again] = query_of(log)[following[again]]
    for t in range(len(paths)):
        row = later[log.start[t] : log.start[t + 1]]
        assert (np.diff(row) <= 0).all()


def test_dtype_and_empty_logs():
    for paths in ([], [[]], [[], []]):
        following = next_use(Instance.from_tokens(paths).log)
        assert following.dtype == np.int32
        assert len(following) == 0
    assert query_of(Instance.from_tokens([[], [1], []]).log).tolist() == [1]


@pytest.mark.parametrize("requests", [200_000])
def test_large_log(requests):
    rng = np.random.default_rng(0)
    instance = Instance.from_flat(
        rng.integers(0, 50_000, requests), np.arange(requests + 1), ids="local"
    )
    log = instance.log
    following = next_use(log)
    used = following != NEVER
    assert (log.edge[following[used]] == log.edge[used]).all()
    assert (following[used] > np.flatnonzero(used)).all()
    assert used.sum() == requests - len(np.unique(log.edge))
