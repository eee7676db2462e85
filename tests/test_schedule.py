"""Schedules and their replay, against a replay of literal sets of units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.offline import (
    Schedule,
    ScheduleError,
    belady,
    evictions,
    from_evictions,
    replay,
    verify,
)
from kvtheory.testing.strategies import cases, sequences

admissions = st.sampled_from(["forced", "bypass"])


def replay_by_units(schedule, instance, capacity, oversize="error"):
    """Hits of each query, with every cache a set of (edge, unit); raises at the wrong step."""
    tree = instance.tree
    caches = [set() for _ in capacity]
    hits = []

    def cut(cache, t, allowed):
        changed = set()
        for i in range(schedule.start[t], schedule.start[t + 1]):
            e, kept = int(schedule.edge[i]), int(schedule.kept[i])
            have = sum(unit[0] == e for unit in cache)
            if not 0 <= kept <= have or e in changed or e in allowed:
                raise ScheduleError(f"step {t}")
            changed.add(e)
            cache -= {(e, j) for j in range(kept, have)}

    for t, q in enumerate(instance.query.tolist()):
        edges = tree.path(q)
        path = {(e, j) for e in edges for j in range(tree.length[e])}
        cache, room = caches[schedule.worker[t]], capacity[schedule.worker[t]]
        hits.append(len(path & cache))
        if len(path) > room:
            if oversize != "skip" or schedule.start[t] < schedule.start[t + 1]:
                raise ScheduleError(f"step {t}")
            continue
        if schedule.admission == "forced":
            cut(cache, t, edges)
            cache |= path
        else:
            cache |= path
            cut(cache, t, ())
        for e, j in cache:
            above = (e, j - 1) if j else (tree.parent[e], tree.length[tree.parent[e]] - 1)
            if above[0] >= 0 and above not in cache:
                raise ScheduleError(f"step {t}")
        if len(cache) > room:
            raise ScheduleError(f"step {t}")
    return hits


def outcome(run, *args, **options):
    try:
        return list(run(*args, **options))
    except ScheduleError as error:
        return str(error).split(":")[0]


@st.composite
def tampered(draw):
    """An instance and a schedule of one or two workers, mostly Belady's, with some changes."""
    paths = draw(sequences(max_units=9, max_requests=10))
    instance = Instance.from_tokens(paths)
    capacity = draw(st.integers(max(1, max(map(len, paths))), 10))
    admission = draw(admissions)
    schedule, _ = belady(instance, capacity, admission)
    worker, step = schedule.worker.copy(), schedule.step_of().tolist()
    edge, kept = schedule.edge.tolist(), schedule.kept.tolist()
    steps, edges = st.integers(0, len(paths) - 1), max(instance.tree.edges, 1)
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["drop", "add", "more", "less", "worker"]))
        if kind == "worker":
            worker[draw(steps)] = 1
        elif kind == "add" and instance.tree.edges:
            step.append(draw(steps))
            edge.append(draw(st.integers(0, edges - 1)))
            kept.append(draw(st.integers(0, 2)))
        elif edge:
            i = draw(st.integers(0, len(edge) - 1))
            if kind == "drop":
                del step[i], edge[i], kept[i]
            else:
                kept[i] += 1 if kind == "more" else -1
    order = np.argsort(step, kind="stable")
    start = np.searchsorted(np.array(step, int)[order], np.arange(len(paths) + 1))
    schedule = Schedule(
        admission, worker, start, np.array(edge, int)[order], np.array(kept, int)[order]
    )
    return (
        instance,
        schedule,
        [draw(st.integers(1, capacity)), capacity][:: draw(st.sampled_from([1, -1]))],
    )


@given(tampered(), st.sampled_from(["error", "skip"]))
def test_replay_equals_sets_of_units(case, oversize):
    instance, schedule, capacity = case
    expected = outcome(replay_by_units, schedule, instance, capacity, oversize)
    got = outcome(replay, schedule, instance, np.array(capacity), oversize=oversize)
    assert got == expected


@given(cases(max_units=8, max_requests=12), admissions)
def test_evictions_round_trip_and_take_leaf_units_only(case, admission):
    paths, capacity = case
    instance = Instance.from_tokens(paths)
    schedule, hits = belady(instance, capacity, admission)
    start, edge, units = evictions(schedule, instance, capacity)
    assert (units >= 1).all()
    again = from_evictions(instance, admission, start, edge, units)
    assert again == schedule
    # one unit at a time is the same schedule
    singles = from_evictions(
        instance,
        admission,
        np.append(0, np.cumsum(units))[start],
        np.repeat(edge, units),
        np.ones(units.sum(), int),
    )
    assert singles == schedule
    tree, cached = instance.tree, np.zeros(instance.tree.edges, int)
    for t, q in enumerate(instance.query.tolist()):
        path = tree.path(q)
        assert sum(cached[e] for e in path) == hits[t]
        if admission == "bypass":
            cached[path] = tree.length[path]
        for i in range(start[t], start[t + 1]):
            assert all(cached[c] == 0 for c in np.flatnonzero(tree.parent == edge[i]))
            assert cached[edge[i]] >= units[i]
            cached[edge[i]] -= units[i]
        cached[path] = tree.length[path] if admission == "forced" else cached[path]
        assert cached.sum() <= capacity


def test_from_evictions_refuses_units_that_are_not_there():
    instance = Instance.from_tokens([[1, 2], [3], [1, 2]])
    with pytest.raises(ScheduleError, match="step 1: edge 0 loses more"):
        from_evictions(instance, "forced", [0, 0, 1, 1], [0], [3])


# Roots a (2 units) and b, c below a.
TREE = Instance.from_tokens([[1, 2], [1, 2, 3], [4], [4], [1, 2, 3]])


@pytest.mark.parametrize(
    ("admission", "changes", "message"),
    [
        ("forced", [(2, 0, 1)], "step 2: edge 1 keeps units, but edge 0 above it is not whole"),
        ("forced", [(2, 1, 0), (2, 1, 0)], "step 2: changes edge 1 twice"),
        ("forced", [(2, 1, 0), (4, 0, 1)], "step 4: evicts from edge 0, which is on the path"),
        ("forced", [(2, 1, 2)], "step 2: keeps 2 units of edge 1, but only 1"),
        ("forced", [(2, 1, -1)], "step 2: keeps -1 units of edge 1"),
        ("forced", [], "step 2: 4 units are cached, the cache holds 3"),
        ("bypass", [(1, 0, 1)], "step 1: edge 1 keeps units, but edge 0"),
        ("bypass", [(2, 3, 0)], "step 2: edge 3 is not one of 3"),
        ("bypass", [(2, 2, 0), (3, 1, 0)], "step 4: 4 units"),
    ],
)
def test_the_wrong_step_is_named(admission, changes, message):
    steps, edge, kept = np.array(changes, int).reshape(-1, 3).T
    start = np.searchsorted(steps, np.arange(6))
    schedule = Schedule(admission, np.zeros(5, int), start, edge, kept)
    with pytest.raises(ScheduleError, match=message):
        replay(schedule, TREE, 3)


def test_verify_refuses_another_count():
    schedule, hits = belady(TREE, 3)
    misses = TREE.units_requested - int(hits.sum())
    assert verify(schedule, TREE, 3, misses).tolist() == hits.tolist()
    for claim in (misses - 1, misses + 1):
        with pytest.raises(ScheduleError, match=f"has {misses} misses, but {claim} are claimed"):
            verify(schedule, TREE, 3, claim)
    with pytest.raises(ScheduleError, match="the cache holds"):
        verify(Schedule("forced", np.zeros(5, int), np.zeros(6, int), [], []), TREE, 3, misses)


def test_queries_longer_than_their_cache():
    empty = Schedule("forced", np.zeros(5, int), np.zeros(6, int), [], [])
    with pytest.raises(ScheduleError, match="step 1: the query has 3 units and its cache 2"):
        replay(empty, TREE, 2)
    one = Schedule("forced", np.zeros(5, int), [0, 0, 0, 1, 1, 1], [0], [1])
    assert replay(one, TREE, 2, oversize="skip").tolist() == [0, 2, 0, 1, 1]
    early = Schedule("forced", np.zeros(5, int), [0, 0, 1, 1, 1, 1], [0], [1])
    with pytest.raises(ScheduleError, match=r"step 1: .* so nothing may change"):
        replay(early, TREE, 2, oversize="skip")


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"admission": "free"}, "admission"),
        ({"start": [0, 0]}, "start"),
        ({"start": [1, 1, 1]}, "start"),
        ({"start": [0, 2, 1]}, "start"),
        ({"kept": []}, "edge"),
        ({"worker": [0.5, 0.5]}, "worker"),
    ],
)
def test_malformed_schedules(change, argument):
    fields = {"admission": "forced", "worker": [0, 0], "start": [0, 0, 1]}
    fields |= {"edge": [0], "kept": [1]}
    with pytest.raises(InputError, match=argument):
        Schedule(**{**fields, **change})
    with pytest.raises(InputError, match="2 steps"):
        replay(Schedule(**fields), TREE, 3)


def test_save_and_load(tmp_path):
    schedule, _ = belady(TREE, 3, "bypass")
    path = tmp_path / "best.npz"
    schedule.save(path)
    assert Schedule.load(path) == schedule
    assert Schedule.load(path) != belady(TREE, 4, "bypass")[0]
    assert [file.name for file in tmp_path.iterdir()] == ["best.npz"]
    with pytest.raises(FileNotFoundError):
        Schedule.load(tmp_path / "none.npz")


def test_load_refuses_other_files(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, x=np.arange(3))
    with pytest.raises(InputError, match=r"other\.npz.*does not hold a schedule"):
        Schedule.load(path)
    path.write_bytes(b"PK broken")
    with pytest.raises(InputError, match="does not hold a schedule"):
        Schedule.load(path)
    np.savez(path, format=9, admission="forced", worker=[], start=[0], edge=[], kept=[])
    with pytest.raises(InputError, match="format 9"):
        Schedule.load(path)


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "best.npz"
    schedule, _ = belady(TREE, 3)
    schedule.save(path)

    def interrupted(file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        belady(TREE, 4)[0].save(path)
    assert Schedule.load(path) == schedule
    assert len(list(tmp_path.iterdir())) == 1
