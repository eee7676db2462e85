"""File formats: round trips, errors with line numbers, and the figures of real traces."""

import gzip
import io
import json
import lzma
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.traces import FORMATS, join, read, trace_info, write
from kvtheory.tree import PrefixTree

COMPRESSIONS = st.sampled_from(["", ".gz", ".xz"])
ROW = '{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4]}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


@st.composite
def instances(draw: st.DrawFn, labels: bool = True) -> Instance:
    """Instances with any of the optional fields, and times that are no round milliseconds."""
    sequences = draw(st.lists(st.lists(st.integers(-1, 2), max_size=5), min_size=1, max_size=8))
    n = len(sequences)
    counts = st.lists(st.integers(0, 2**62), min_size=n, max_size=n)
    times = st.lists(st.floats(-1e12, 1e12), min_size=n, max_size=n).map(sorted)
    steps = st.lists(st.integers(0, 10**7), min_size=n, max_size=n)
    stamps = steps.map(lambda x: [t / 1000 for t in sorted(x)])
    instance = Instance.from_tokens(
        sequences,
        arrival=draw(st.none() | times | stamps),
        input_length=draw(st.none() | counts),
        output_length=draw(st.none() | counts),
        block_size=draw(st.integers(1, 512)),
        name=draw(st.text(max_size=5)),
        source=draw(st.text(max_size=5)),
        parameters={
            "x": draw(st.floats()),
            "y": (1, "é"),
            "n": np.int64(3),
            "none": None,
        },
    )
    if draw(st.booleans()):
        tree = instance.tree
        instance = replace(instance, tree=PrefixTree(tree.parent, tree.length))
    return instance


@given(instances(), st.sampled_from(["npz", "jsonl"]), COMPRESSIONS, st.integers(1, 5))
def test_native_formats_keep_everything(folder, instance, suffix, packed, depth):
    for one in (instance, instance.truncate(depth), instance.prefix(0)):
        path = folder / f"x.{suffix}{packed}"
        write(one, path)
        first = path.read_bytes()
        back = read(path)
        assert back.digest() == one.digest()
        assert back.tree == one.tree
        again = folder / f"y.{suffix}{packed}"
        write(back, again)
        assert again.read_bytes() == first  # neither the name nor the time is in it


def same_requests(a: Instance, b: Instance) -> bool:
    fields = ("query", "arrival", "input_length", "output_length")
    pairs = [(getattr(a, key), getattr(b, key)) for key in fields]
    pairs += [(a.tree.parent, b.tree.parent), (a.tree.length, b.tree.length)]
    return all(
        (x is None) == (y is None) and (x is None or x.tobytes() == y.tobytes()) for x, y in pairs
    )


@given(instances(), COMPRESSIONS)
def test_mooncake_keeps_tree_times_and_lengths(folder, instance, packed):
    path = folder / f"m.jsonl{packed}"
    write(instance, path, format="mooncake")
    back = read(path, block_size=instance.block_size)
    assert same_requests(back, instance)
    assert back.block_size == instance.block_size
    labels = instance.tree.labels
    if labels is not None and len(set(labels.tolist())) == len(labels):
        assert back.sequences() == instance.sequences()
    write(back, folder / f"n.jsonl{packed}", format="mooncake")
    assert (folder / f"n.jsonl{packed}").read_bytes() == path.read_bytes()


@given(instances(), COMPRESSIONS)
def test_tokens_keep_the_requests(folder, instance, packed):
    plain = replace(instance, arrival=None, input_length=None, output_length=None)
    path = folder / f"t.tokens{packed}"
    write(plain, path)
    for form in ("auto", "tokens"):
        back = read(path, form, block_size=instance.block_size)
        assert same_requests(back, plain)
        assert back.sequences() == plain.sequences()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), COMPRESSIONS)
def test_request_lists_keep_the_requests(folder, ids, packed):
    instance = Instance.from_tokens([[i] for i in ids])
    path = folder / f"r.trace{packed}"
    write(instance, path)
    back = read(path)
    assert same_requests(back, instance)
    assert back.sequences() == instance.sequences()


def put(folder: Path, text: str | bytes, name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_mooncake_by_hand(tmp_path):
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [7, 9]},
        {
            "timestamp": 1.5,
            "input_length": 0,
            "output_length": 0,
            "hash_ids": [],
            "session": "true",
        },
        {"timestamp": 3001, "input_length": 512, "output_length": 1, "hash_ids": [7]},
    ]
    text = "\n\r\n".join(map(json.dumps, rows))
    instance = read(put(tmp_path, f"\ufeff{text}\n\n", "small.blocks.jsonl"))
    assert instance.sequences() == [[7, 9], [], [7]]
    assert instance.arrival.tolist() == [0.0, 0.0015, 3.001]
    assert instance.input_length.tolist() == [600, 0, 512]
    assert instance.output_length.tolist() == [5, 0, 1]
    assert (instance.block_size, instance.name) == (512, "small.blocks")
    assert instance.source == "small.blocks.jsonl"
    assert dict(instance.parameters) == {"format": "mooncake", "ids": "global"}


def test_mooncake_with_local_ids(tmp_path):
    text = "\n".join(ROW.replace("[4]", ids) for ids in ("[1, 2]", "[2]"))
    path = put(tmp_path, text)
    with pytest.raises(InputError, match=r"x\.jsonl: id 2 has two parents.*ids='local'"):
        read(path)
    instance = read(path, ids="local", block_size=16)
    assert (instance.tree.units, instance.block_size) == (3, 16)


def test_tokens_by_hand(tmp_path):
    text = "1, 2,3\n[1, 2]\n\n[]\n1\t2 4\n"
    for path in (put(tmp_path, text, "x.txt"), put(tmp_path, text, "x.tokens")):
        assert read(path).sequences() == [[1, 2, 3], [1, 2], [], [1, 2, 4]]
    assert read(path, ids="global", block_size=4).block_size == 4


def test_requests_by_hand(tmp_path):
    instance = read(put(tmp_path, "*\r\n7\r\n-3\r\n\r\n**\r\n7", "x.trace"))
    assert instance.sequences() == [[7], [-3], [7]]
    assert instance.tree.length.tolist() == [1, 1]


MALFORMED = [
    ("mooncake", '{"timestamp": 1, "input_len', "bad JSON"),
    ("mooncake", "[1, 2]", r"must be a JSON object, not \[1, 2\]"),
    ("mooncake", "[" * 100_000, "bad JSON"),
    *(
        ("mooncake", json.dumps({k: v for k, v in json.loads(ROW).items() if k != field}), field)
        for field in json.loads(ROW)
    ),
    ("mooncake", ROW.replace("[4]", "[4, 5.0]"), r"hash_ids\[1\] = 5.0: must be an integer"),
    ("mooncake", ROW.replace("[4]", '["4"]'), r"hash_ids\[0\] = 4: must be an integer"),
    ("mooncake", ROW.replace("[4]", "[4, true]"), r"hash_ids\[1\] = True: must be an integer"),
    ("mooncake", ROW.replace("[4]", "[null]"), r"hash_ids\[0\] = None: must be an integer"),
    ("mooncake", ROW.replace("[4]", "[9223372036854775808]"), r"hash_ids\[0\].*fit 64 bits"),
    ("mooncake", ROW.replace("[4]", '"4"'), "hash_ids must be a list of integers"),
    ("mooncake", ROW.replace(": 1,", ": NaN,"), "timestamp = nan: must be a finite number"),
    ("mooncake", ROW.replace(": 1,", ": 1e999999,"), "timestamp = .*must be a finite number"),
    ("mooncake", ROW.replace(": 1,", ': "1",'), "timestamp = 1: must be a finite number"),
    ("mooncake", ROW.replace(": 1,", ": 0.5,"), "timestamp = 0.5: is before .* above, 1"),
    ("mooncake", ROW.replace(": 1,", ": null,"), "timestamp is null on some lines"),
    ("mooncake", ROW.replace(": 2,", ": -2,"), "input_length = -2: must not be negative"),
    ("mooncake", ROW.replace(": 3}", ": 3.5}").replace(": 3,", ": 3.5,"), "output_length = 3.5"),
    ("mooncake", ROW.replace(": 3,", ": false,"), "output_length = False: must be an integer"),
    ("tokens", "[1, 2", "bad JSON"),
    ("tokens", "[1, true]", "token 1 = True: must be an integer"),
    ("tokens", '[1, "2"]', "token 1 = '2': must be an integer"),
    ("tokens", "[1, [2]]", r"token 1 = \[2\]: must be an integer"),
    ("tokens", "1 2.5", "token 1 = '2.5': must be an integer"),
    ("tokens", f"1 {2**63}", "token 1 = 9223372036854775808: does not fit 64 bits"),
    ("tokens", "x", "token 0 = 'x': must be an integer"),
    ("requests", "x", "'x' is not one integer id"),
    ("requests", "1.0", "'1.0' is not one integer id"),
    ("requests", "3 4", "'3 4' is not one integer id; .*format='tokens'"),
    ("requests", str(2**63), "9223372036854775808 does not fit 64 bits"),
    ("azure", "2023-13-16 18:17:03.9,4808,10", "is not a row of TIMESTAMP"),
    ("azure", "2023-11-16 18:17:03.9,4808", "is not a row of TIMESTAMP"),
    ("azure", "2023-11-16 18:17:02,-1,10", "is not a row of TIMESTAMP"),
    ("azure", "2023-11-16 18:17:02,1,10", "TIMESTAMP is before that of the row above"),
]
GOOD = {
    "mooncake": ROW,
    "tokens": "[1, 2]",
    "requests": "5",
    "azure": "2023-11-16 18:17:03,4808,10",
}


@pytest.mark.parametrize(("form", "line", "text"), MALFORMED)
def test_a_malformed_line_is_named(tmp_path, form, line, text):
    path = put(tmp_path, f"{GOOD[form]}\n\n{line}\n{GOOD[form]}\n")
    with pytest.raises(InputError, match=rf"x\.jsonl: line 3: .*{text}"):
        read(path, form)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"timestamp": 0, "inp', r"x\.jsonl: line 1: bad JSON"),
        ('\n{"timestamp": 0}', r"x\.jsonl: line 2: the field 'input_length' is missing"),
        (
            '{"question": "hi"}',
            "line 1: an object with none of 'hash_ids', 'prompt' and 'kvtheory'",
        ),
        ("a,b,c\n1,2,3", "line 1: no known format: 'a,b,c'"),
        ("abc", "line 1: 'abc' is not one integer id"),
        ("", r"x\.jsonl: is empty"),
        ("\n \n", r"x\.jsonl: is empty"),
        ("*\n*\n", r"x\.jsonl: holds no requests"),
        (b"1\n\xff\xfe2\n", "line 2: is not UTF-8 text"),
    ],
)
def test_detection_names_what_it_cannot_tell(tmp_path, text, problem):
    with pytest.raises(InputError, match=problem):
        read(put(tmp_path, text))


@pytest.mark.parametrize("form", ["mooncake", "tokens", "requests", "azure"])
def test_an_empty_trace_is_an_error(tmp_path, form):
    with pytest.raises(InputError, match=r"x\.jsonl: holds no requests"):
        read(put(tmp_path, "\n\n"), form)


def test_unknown_formats_and_suffixes(tmp_path):
    path = put(tmp_path, ROW)
    with pytest.raises(InputError, match="unknown format 'moncake': did you mean mooncake"):
        read(path, "moncake")
    with pytest.raises(InputError, match="unknown format 'token': did you mean tokens"):
        write(read(path), path, "token")
    with pytest.raises(InputError, match=r"no format has the suffix '\.csv'; known: "):
        write(read(path), tmp_path / "x.csv.gz")
    with pytest.raises(InputError, match="format = 'azure': is read only"):
        write(read(path), tmp_path / "x.csv", "azure")
    with pytest.raises(InputError, match="ids = 'mesh': must be 'global'"):
        read(path, ids="mesh")
    for bad in (0, -5):
        with pytest.raises(InputError, match=f"block_size = {bad}: must be at least 1"):
            read(path, block_size=bad)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"no\.jsonl: cannot be read: No such file"):
        read(tmp_path / "no.jsonl")
    with pytest.raises(InputError, match=r"no\.npz: cannot be read: No such file"):
        read(tmp_path / "no.npz")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(tmp_path)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("form", ["auto", "mooncake", "jsonl"])
def test_broken_compression(tmp_path, suffix, pack, form):
    rng = np.random.default_rng(0)
    text = "\n".join(ROW.replace("4", str(i)) for i in rng.integers(5, 10**9, 5000))
    data = pack(text.encode())
    if form != "jsonl":
        assert read(put(tmp_path, data, f"ok.jsonl{suffix}"), form).requests == 5000
        assert read(put(tmp_path, data, "known_by_content"), form).requests == 5000
    for name, broken in (
        ("cut", data[: len(data) // 2]),
        ("head", data[:8]),
        ("tail", data[:-3]),
        ("bits", data[:500] + bytes(500) + data[1000:]),
    ):
        path = put(tmp_path, broken, f"{name}.jsonl{suffix}")
        with pytest.raises(InputError, match=rf"{name}\.jsonl"):
            read(path, form)
    with pytest.raises(InputError, match="cannot be decompressed after line"):
        read(put(tmp_path, data[: len(data) // 2], f"cut{suffix}"), "mooncake")
    for plain in ("", "1\n2\n"):
        path = put(tmp_path, plain, f"plain{suffix}")
        with pytest.raises(InputError, match=f"is not {suffix[1:]} data, though its name says so"):
            read(path, form)


def test_broken_npz(tmp_path):
    write(read(put(tmp_path, ROW)), tmp_path / "x.npz")
    data = (tmp_path / "x.npz").read_bytes()
    for broken in (b"", data[:-30], data[:50], b"hello", data.replace(b"query", b"quary")):
        with pytest.raises(InputError, match=r"b\.npz: is not an instance as \.npz"):
            read(put(tmp_path, broken, "b.npz"))
    np.savez(tmp_path / "b.npz", meta=np.array(json.dumps({"version": 1})), query=[0])
    with pytest.raises(InputError, match=r"is not an instance as \.npz: 'parent' is missing"):
        read(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", meta=np.array(json.dumps({"version": 99})))
    with pytest.raises(InputError, match="has version 99 of the format; known: 1"):
        read(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", meta=np.array({"version": 1}, dtype=object))
    with pytest.raises(InputError, match=r"is not an instance as \.npz: .*allow_pickle"):
        read(tmp_path / "b.npz")


def test_broken_jsonl(tmp_path):
    write(Instance.from_tokens([[1, 2], [1, 3]], arrival=[0, 1]), tmp_path / "x.jsonl")
    rows = (tmp_path / "x.jsonl").read_text().splitlines()
    assert len(rows) == 1 + 3 + 2

    def failing(lines: list[str], problem: str) -> None:
        with pytest.raises(InputError, match=problem):
            read(put(tmp_path, "\n".join(lines), "b.jsonl"))

    failing(rows[:3], r"b\.jsonl: ends after 2 of 3 edges")
    failing(rows[:5], r"b\.jsonl: ends after 1 of 2 queries")
    failing([*rows, rows[-1]], "line 7: comes after the 2 queries of the head")
    failing([rows[0], rows[4], *rows[2:]], "line 2: is not one of the edges: 'parent' is missing")
    failing([*rows[:5], '{"query": 1.5, "arrival": 2}'], "line 6: is not one of the queries")
    failing([*rows[:5], '{"query": 1, "arr'], "line 6: is not one of the queries")
    failing([*rows[:5], '{"query": 1, "arrival": -1}'], r"b\.jsonl: arrival\[1\] = -1.0")
    failing([rows[0].replace('"version": 1', '"version": 2'), *rows[1:]], "has version 2")
    failing(['{"kvtheory": 1}'], "line 1: is not the head of an instance: 'labels' is missing")
    failing(
        [rows[0], '{"parent": -1, "length": 1, "labels": [1, 2]}'], "line 2: .*2 labels for 1 units"
    )


def test_native_files_bring_their_own_ids_and_block_size(tmp_path):
    for suffix in ("npz", "jsonl"):
        path = tmp_path / f"x.{suffix}"
        write(Instance.from_tokens([[1]]), path)
        with pytest.raises(InputError, match=r"ids = 'local': .* has its own"):
            read(path, ids="local")
        with pytest.raises(InputError, match=r"block_size = 16: .* has its own"):
            read(path, block_size=16)


def test_formats_refuse_what_they_have_no_place_for(tmp_path):
    instance = Instance.from_tokens([[1, 2], [3]], arrival=[0, 1])
    with pytest.raises(InputError, match="'tokens' has no place for arrival"):
        write(instance, tmp_path / "x.tokens")
    with pytest.raises(InputError, match="'requests' has no place for arrival"):
        write(instance, tmp_path / "x.trace")
    with pytest.raises(InputError, match="query 0 has 2 units"):
        write(replace(instance, arrival=None), tmp_path / "x.trace")
    with pytest.raises(InputError, match="'mooncake' has no place for beyond"):
        write(instance.truncate(1), tmp_path / "x.jsonl", "mooncake")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.npz", "x.jsonl", "x.jsonl.gz", "x.tokens.xz"])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, name):
    path = tmp_path / name
    instance = Instance.from_tokens([[1, 2], [3]])
    write(instance, path)
    before = path.read_bytes()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write(instance.prefix(1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_terminals_and_changes_nothing(tmp_path, monkeypatch):
    path = put(tmp_path, "\n".join(map(str, range(100))), "x.trace")
    quiet = read(path)
    monkeypatch.setattr("kvtheory.traces.files._TICK", 10)
    monkeypatch.setattr("kvtheory.traces.files._DELAY", 0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert read(path, progress=True) == quiet
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert read(path, progress=True) == quiet
    assert "x.trace" in sys.stderr.getvalue()


def test_azure_rows_are_paths_of_their_own(tmp_path):
    text = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 23:59:59.9799600,48,10
2023-11-17 00:00:00.0319600,0,8
2023-11-17 00:00:01,5,3
"""
    path = put(tmp_path, text, "azure.csv")
    load = read(path, block_size=16)
    assert load.arrival.tolist() == [0.0, 0.052, 1.02004]
    assert load.query_length.tolist() == [3, 0, 1]
    assert load.output_length.tolist() == [10, 8, 3]
    assert trace_info(load).ceiling_hits == 0
    joined = join(Instance.from_tokens([[1, 2], [1]]), load)
    assert joined.arrival.tolist() == [0.0, 0.052]
    assert joined.output_length.tolist() == [10, 8]
    assert joined.sequences() == [[1, 2], [1]]
    with pytest.raises(InputError, match="fewer requests than the instance, 4"):
        join(Instance.from_tokens([[1]] * 4), load)
    with pytest.raises(InputError, match="has no arrival times"):
        join(load, Instance.from_tokens([[1]]))


def test_info_by_hand():
    instance = Instance.from_tokens(
        [[1, 2, 3], [1, 2, 4], [1, 2, 3], [], [5]],
        arrival=[1, 2, 2, 4, 5],
        output_length=[1, 1, 1, 1, 6],
        block_size=16,
        name="hand",
    )
    info = trace_info(instance)
    assert info.as_dict() == {
        "name": "hand",
        "source": "",
        "block_size": 16,
        "requests": 5,
        "empty_requests": 1,
        "units_requested": 10,
        "units_distinct": 5,
        "units_used_once": 2,
        "ceiling_hits": 5,
        "ceiling_hit_rate": 0.5,
        "edges": 4,
        "roots": 2,
        "leaves": 3,
        "branching_units": 1,
        "max_children": 2,
        "path_min": 0,
        "path_mean": 2.0,
        "path_median": 3.0,
        "path_max": 3,
        "path_edges_max": 2,
        "tokens_in": 160,
        "tokens_out": 10,
        "arrival_first": 1.0,
        "arrival_last": 5.0,
        "arrival_span": 4.0,
        "arrival_rate": 1.0,
    }
    assert json.loads(json.dumps(info.as_dict())) == info.as_dict()
    assert dict(info.rows())["units requested"] == "10"
    assert "source" not in dict(info.rows())
    cut = trace_info(instance.truncate(1))
    assert (cut.units_requested, cut.units_distinct, cut.ceiling_hits) == (10, 2, 2)
    none = trace_info(Instance.from_tokens([]))
    assert (none.requests, none.ceiling_hit_rate, none.path_max, none.max_children) == (0, 0, 0, 0)
    assert trace_info(Instance.from_tokens([[1, 2]])).max_children == 1


PREFIX_TRACES = [
    "mooncake_conversation",
    "mooncake_synthetic",
    "mooncake_arxiv_first1000",
    "claude_code_merged_12",
    "lmcache_magagent",
    "oasst_en_100",
]
FIGURES = {
    "rows": "requests",
    "block_refs": "units_requested",
    "nodes": "units_distinct",
    "nodes_used_once": "units_used_once",
    "infinite_hits": "ceiling_hits",
    "path_min": "path_min",
    "path_median": "path_median",
    "path_max": "path_max",
    "roots": "roots",
    "leaves": "leaves",
    "branching_nodes": "branching_units",
    "max_children": "max_children",
    "input_length_sum": "tokens_in",
    "output_length_sum": "tokens_out",
}


@pytest.mark.parametrize("name", PREFIX_TRACES)
def test_real_prefix_traces_have_their_known_figures(shared_traces, tmp_path, name):
    known = json.loads((shared_traces / "reference.json").read_text())["prefix_traces"][name]
    path = shared_traces / known["file"].removeprefix("files/")
    instance = read(path)
    info, stats = trace_info(instance).as_dict(), known["stats"]
    assert {key: info[mine] for key, mine in FIGURES.items()} == {k: stats[k] for k in FIGURES}
    assert info["path_mean"] == pytest.approx(stats["path_mean"], abs=5e-4)
    assert info["ceiling_hit_rate"] == pytest.approx(stats["infinite_hit_ratio"], abs=5e-7)
    assert info["arrival_first"] == stats["ts_first"] / 1000
    assert info["arrival_last"] == stats["ts_last"] / 1000
    write(instance, tmp_path / "x.jsonl.gz", "mooncake")
    back = read(tmp_path / "x.jsonl.gz")
    assert same_requests(back, instance)
    assert back.tree == instance.tree


@pytest.mark.parametrize("name", ["2_pools", "loop", "multi1", "sprite", "zigzag"])
def test_real_paging_traces_have_their_known_figures(shared_traces, name):
    known = json.loads((shared_traces / "reference.json").read_text())["flat_traces"][name]
    info = trace_info(read(shared_traces / known["file"].removeprefix("files/")))
    assert (info.requests, info.units_distinct, info.ceiling_hits) == (
        known["refs"],
        known["distinct"],
        known["infinite_hits"],
    )
    assert info.path_min == info.path_max == 1


@pytest.mark.parametrize(("name", "rows"), [("code", 8819), ("conv", 19_366)])
def test_real_azure_traces(shared_traces, name, rows):
    instance = read(shared_traces / "azure" / f"AzureLLMInferenceTrace_{name}.csv.gz")
    assert instance.requests == rows
    assert instance.input_length.min() > 0
    assert 3400 < instance.arrival[-1] < 3600


def test_every_format_is_tested_here():
    known = {"npz", "jsonl", "mooncake", "prompts", "tokens", "requests", "azure"}
    assert set(FORMATS) == known  # prompts in test_export.py
