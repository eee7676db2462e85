"""Sequences for real servers: Mooncake lines with times, token lists, text prompts."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory import cli
from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances import agentic, documents, generate, multi_turn, timed, zipf
from kvtheory.traces import read, write


def same_requests(one: Instance, two: Instance) -> None:
    assert one.tree.parent.tolist() == two.tree.parent.tolist()
    assert one.tree.length.tolist() == two.tree.length.tolist()
    assert one.query.tolist() == two.query.tolist()
    assert one.tokens.tolist() == two.tokens.tolist()
    assert one.block_size == two.block_size


def prompts(path) -> list[str]:
    return [json.loads(line)["prompt"] for line in path.read_text().splitlines()]


def common_words(a: str, b: str) -> int:
    n = 0
    for x, y in zip(a.split(), b.split(), strict=False):
        if x != y:
            break
        n += 1
    return n


def common_units(one: Instance, i: int, j: int) -> int:
    n = 0
    for x, y in zip(one.ids(i).tolist(), one.ids(j).tolist(), strict=False):
        if x != y:
            break
        n += 1
    return n


INSTANCES = [
    zipf(documents=30, requests=60, levels=3, branching=3, length=2, block_size=16, rate=2.0),
    zipf(documents=9, requests=30),
    documents(documents=6, questions=4, document_tokens=300, question_tokens=9, rate=1.0),
    timed(multi_turn(conversations=10, turns=3, system_tokens=70), 2.0),
    agentic(tasks=8, steps=4, system_tokens=90, result_tokens=50, cache_output=False),
    Instance.from_tokens([[1, 2], [], [1, 3]], block_size=4),
]


@pytest.mark.parametrize("one", INSTANCES, ids=lambda one: one.name)
def test_prompts_are_read_as_they_were(one, tmp_path):
    path = tmp_path / "x.jsonl"
    write(one, path, "prompts")
    back = read(path, block_size=one.block_size)  # known by its first line
    same_requests(one, back)
    for key in ("arrival", "output_length"):
        have, want = getattr(back, key), getattr(one, key)
        assert (have is None) == (want is None)
        assert want is None or have.tolist() == want.tolist()
    again = tmp_path / "y.jsonl"
    write(back, again, "prompts")
    assert again.read_bytes() == path.read_bytes()
    first = path.read_bytes()
    write(one, path, "prompts")
    assert path.read_bytes() == first


@pytest.mark.parametrize("one", INSTANCES, ids=lambda one: one.name)
def test_prompts_have_the_words_and_share_the_prefixes(one, tmp_path):
    path = tmp_path / "x.jsonl"
    write(one, path, "prompts")
    texts = prompts(path)
    assert [len(text.split()) for text in texts] == one.tokens.tolist()
    rng = np.random.default_rng(0)
    for _ in range(300):
        i, j = rng.integers(0, one.requests, 2).tolist()
        words, units = common_words(texts[i], texts[j]), common_units(one, i, j)
        least = min(units * one.block_size, *one.tokens[[i, j]].tolist())
        if one.query[i] == one.query[j]:
            assert words >= least
        else:  # the first word of another unit is another one
            assert words == least


def test_the_block_size_is_that_of_the_longest_unit(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    write(INSTANCES[0], path, "prompts")
    same_requests(INSTANCES[0], read(path, "prompts"))
    assert read(path).name == "x"


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=6), st.data())
def test_any_small_instance_comes_back(tmp_path_factory, rows, data):
    block = data.draw(st.integers(1, 3))
    lengths = [
        max(0, len(row) * block + data.draw(st.integers(1 - block if row else 0, 2 * block)))
        for row in rows
    ]
    one = Instance.from_tokens(rows, block_size=block, input_length=lengths)
    if one.tree.units == 0:
        return
    path = tmp_path_factory.mktemp("p") / "x.jsonl"
    write(one, path, "prompts")
    same_requests(one, read(path, "prompts", block_size=block))


def test_prompts_by_hand(tmp_path):
    path = tmp_path / "x.jsonl"
    one = Instance.from_tokens(
        [[7, 8], [7, 9], [7]],
        block_size=3,
        input_length=[6, 5, 4],
        arrival=[0.0, 0.5, 2.0],
        output_length=[1, 2, 3],
    )
    write(one, path, "prompts")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["timestamp"] for row in rows] == [0, 500, 2000]
    assert [row["output_length"] for row in rows] == [1, 2, 3]
    a, b, c = (row["prompt"].split() for row in rows)
    assert a[:3] == b[:3] == c[:3]
    assert (a[0], a[3], b[3]) == ("Baba", "Babe", "Babi")
    assert c[3] == "Tail-babi"
    assert (len(a), len(b), len(c)) == (6, 5, 4)
    # the mutant: names that repeat would share what is not shared
    assert len({a[0], a[3], b[3], c[3]}) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"prompt": "hello World"}', "line 1: 'hello' is not the name of a unit"),
        ('{"prompt": "Hello world"}', "line 1: 'Hello' is not the name of a unit"),
        ('{"prompt": 3}', r"line 1: is not a prompt as \{\"prompt\": …\}"),
        ('{"prompt": "Baba"}\n{}', "line 2: is not a prompt"),
        ('{"prompt": "Baba", "timestamp": "x"}', "line 1: is not a prompt"),
        ('{"prompt": "Baba", "timestamp": 1}\n{"prompt": "Baba"}', "timestamp is on some lines"),
        ('{"prompt": "Baba"}\n{"prompt": "Baba", "output_length": 1}', "output_length is on some"),
    ],
)
def test_other_prompts_are_refused(tmp_path, text, problem):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read(path)


def test_what_prompts_cannot_say_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    with pytest.raises(InputError, match="'prompts' has no place for end"):
        write(agentic(tasks=3, steps=2), path, "prompts")
    short = Instance.from_tokens([[1, 2, 3]], block_size=4, input_length=[8])
    with pytest.raises(InputError, match="query 0 has 8 tokens but 3 units of 4"):
        write(short, path, "prompts")
    assert not path.exists()


# -- the command -------------------------------------------------------------------------


def convert(capsys, *arguments: str) -> tuple[int, str]:
    code = cli.main(["trace", "convert", *arguments])
    return code, capsys.readouterr().err


SOURCE = "zipf:documents=20,requests=200,levels=2,length=4,block_size=16"


def test_mooncake_lines_with_times_for_a_replay(capsys, tmp_path):
    path = tmp_path / "hard.jsonl"
    code, err = convert(
        capsys, SOURCE, str(path), "--to", "mooncake", "--rate", "4", "--output-tokens", "128"
    )
    assert code == 0, err
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 200
    assert rows[-1]["timestamp"] == pytest.approx(200 / 4 * 1000, rel=0.3)
    times = [row["timestamp"] for row in rows]
    assert times == sorted(times)
    for row in rows:
        assert row["input_length"] == 16 * len(row["hash_ids"])
        assert row["output_length"] == 128
    one = timed(generate(SOURCE), 4.0, 128)
    back = read(path, block_size=16)
    same_requests(one, back)
    assert back.arrival.tolist() == one.arrival.tolist()
    # the seed is that of the arrivals alone
    code, _ = convert(
        capsys, SOURCE, str(path), "--to", "mooncake", "--rate", "4", "--seed", "1", "--force"
    )
    assert code == 0
    other = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["hash_ids"] for row in other] == [row["hash_ids"] for row in rows]
    assert [row["timestamp"] for row in other] != times


def test_prompts_and_token_lists_by_the_command(capsys, tmp_path):
    path = tmp_path / "hard.jsonl"
    assert convert(capsys, SOURCE, str(path), "--to", "prompts", "--rate", "2")[0] == 0
    same_requests(read(path), generate(SOURCE))
    tokens = tmp_path / "hard.tokens"
    assert convert(capsys, SOURCE, str(tokens))[0] == 0
    assert read(tokens, block_size=16).query.tolist() == generate(SOURCE).query.tolist()


def test_what_a_format_has_no_place_for_can_be_dropped(capsys, tmp_path):
    path = tmp_path / "x.jsonl"
    given = ["agentic:tasks=4,steps=3", str(path), "--to", "mooncake"]
    code, err = convert(capsys, *given)
    assert code == cli.BAD_INPUT
    assert "kvtheory trace convert --drop end" in err
    code, err = convert(capsys, *given, "--drop", "end")
    assert code == 0, err
    assert read(path, block_size=16).requests == agentic(4, 3).requests
    code, err = convert(capsys, *given, "--drop", "end", "--force", "--rate", "0")
    assert code == cli.BAD_INPUT
    assert "rate = 0.0: must be finite and above 0" in err
