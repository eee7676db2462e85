"""Generators: what they promise, the same bytes each time, and the text that calls them."""

import inspect
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtheory.errors import InputError
from kvtheory.instance import Instance
from kvtheory.instances import (
    GENERATORS,
    cyclic_broom,
    generate,
    heavy_tail,
    multi_turn,
    shared_prefix,
    source,
    yao_uniform,
    zipf,
)
from kvtheory.instances.runs import from_runs
from kvtheory.traces import write

SMALL = {
    "affinity_trap": "affinity_trap:workers=3,queries=9,shared=5,own=2",
    "agentic": "agentic:tasks=9,steps=4,agents=2,system_tokens=70,result_tokens=40",
    "cyclic_broom": "cyclic_broom:capacity=6,length=3,rounds=4",
    "distribution_aware": "distribution_aware:policy=llru,requests=20",
    "documents": "documents:documents=6,questions=3,document_tokens=90,question_tokens=9,rate=2",
    "drift": "drift:documents=20,requests=60,hot=4,period=15,keep=0.5,levels=2,length=2,rate=1",
    "greedy_trap": "greedy_trap:workers=4,unit=3",
    "heavy_tail": "heavy_tail:requests=60,groups=7,rate=2.5",
    "load_trap": "load_trap:workers=3,rounds=4,length=5",
    "markov": "markov:documents=13,requests=80,follow=0.6,levels=3,branching=3,length=2,rate=1",
    "multi_turn": "multi_turn:conversations=12,turns=3,system_tokens=70",
    "partition_gadget": "partition_gadget:numbers=3/1/2",
    "shared_prefix": "shared_prefix:groups=6,prompts=4,lengths=8/20,shared=0.3,block_size=4,rate=3",
    "tournament": "tournament:workers=8",
    "worst_cycle": "worst_cycle:tree=[chains:n=3,length=2],capacity=4,cycles=3",
    "yao_uniform": "yao_uniform:capacity=6,length=3,requests=50",
    "zipf": "zipf:documents=13,requests=80,levels=3,branching=3,length=2,rate=1",
}


def canonical(instance: Instance) -> Instance:
    """The same requests, built from the units themselves."""
    ids = instance.tree.ids_of
    ends = None if instance.end is None else [ids(e).tolist() for e in instance.end.tolist()]
    pairs = [] if instance.warm is None else instance.warm.tolist()
    warm = [(worker, ids(edge).tolist()) for worker, edge in pairs]
    return Instance.from_tokens(instance.sequences(), ends=ends, warm=warm)


@pytest.mark.parametrize("name", GENERATORS)
def test_an_instance_is_a_value_that_knows_its_maker(name):
    one = generate(SMALL[name])
    assert one == generate(SMALL[name])
    assert one.name == name
    assert set(one.parameters) == set(inspect.signature(GENERATORS[name]).parameters)
    assert generate(one.source) == one  # the source makes it again, with every default spelt out
    if "seed" in one.parameters:
        assert generate(f"{SMALL[name]},seed=1") != one


@pytest.mark.parametrize("name", GENERATORS)
def test_trees_are_numbered_as_if_built_from_units(name):
    for text in (SMALL[name], name):
        one = generate(text)
        if one.units_requested > 3_000_000:
            continue
        built = canonical(one)
        assert built.tree.parent.tolist() == one.tree.parent.tolist()
        assert built.tree.length.tolist() == one.tree.length.tolist()
        assert built.query.tolist() == one.query.tolist()


@pytest.mark.parametrize("name", GENERATORS)
def test_the_global_random_state_plays_no_part(name):
    np.random.seed(0)  # noqa: NPY002
    one = generate(SMALL[name])
    np.random.seed(1)  # noqa: NPY002
    assert generate(SMALL[name]) == one


@given(st.data())
def test_runs_build_what_units_build(data):
    """Random trees of runs, some of them empty, against the units spelt out."""
    parent = [data.draw(st.integers(-1, i - 1)) for i in range(data.draw(st.integers(1, 7)))]
    length = np.array([data.draw(st.integers(0, 3)) for _ in parent])
    runs = []
    for node in data.draw(st.lists(st.integers(-1, len(parent) - 1), max_size=8)):
        path = []
        while node >= 0:
            path.append(node)
            node = parent[node]
        runs.append(path[::-1])
    start = np.cumsum([0, *map(len, runs)])
    flat = np.array([r for path in runs for r in path], np.int64)
    units = [[10 * r + k for r in path for k in range(length[r])] for path in runs]
    one, built = from_runs(flat, start, length), Instance.from_blocks(units)
    assert one.tree.parent.tolist() == built.tree.parent.tolist()
    assert one.tree.length.tolist() == built.tree.length.tolist()
    assert one.query.tolist() == built.query.tolist()


def gsp_tokens(groups: int, prompts: int, lengths: list[int], shared: float) -> list[list[int]]:
    """The list that the order permutes, token by token."""
    rows = []
    for g in range(groups):
        total = lengths[g % len(lengths)]
        common = round(shared * total)
        for p in range(prompts):
            own = [1_000_000 + 1000 * (g * prompts + p) + k for k in range(total - common)]
            rows.append([1000 * g + k for k in range(common)] + own)
    return rows


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shared_prefix_is_the_permuted_list(seed):
    rows = gsp_tokens(5, 3, [8, 16], 0.25)
    want = [rows[i] for i in np.random.default_rng(seed).permutation(15)]
    one = shared_prefix(5, 3, (8, 16), 0.25, seed=seed)
    built = Instance.from_tokens(want)
    assert one.tree.parent.tolist() == built.tree.parent.tolist()
    assert one.tree.length.tolist() == built.tree.length.tolist()
    assert one.query.tolist() == built.query.tolist()
    turns = Instance.from_tokens([rows[3 * g + p] for p in range(3) for g in range(5)])
    for order, other in (("grouped", Instance.from_tokens(rows)), ("round_robin", turns)):
        one = shared_prefix(5, 3, (8, 16), 0.25, order=order, seed=seed)
        assert one.query.tolist() == other.query.tolist()
        assert one.tree.length.tolist() == other.tree.length.tolist()


def test_shared_prefix_at_full_size():
    one = shared_prefix()
    assert one.units_requested == 12_812_288
    assert (one.requests, one.tree.edges) == (4096, 4224)
    assert set(np.diff(one.log.start).tolist()) == {2}
    assert one.input_length is None
    blocks = shared_prefix(block_size=16)
    assert blocks.units_requested * 16 == 12_812_288
    assert blocks.query.tolist() == one.query.tolist()


@pytest.mark.parametrize(
    ("shared", "length", "block", "common", "total"),
    [
        (0.0, 10, 1, 0, 10),
        (1.0, 10, 1, 10, 10),
        (0.7, 10, 1, 7, 10),  # 0.7 * 10 is a bit less in floats
        (0.29, 100, 1, 29, 100),
        (0.5, 100, 16, 3, 7),
        (0.5, 15, 16, 0, 1),
    ],
)
def test_shared_parts_are_whole_blocks(shared, length, block, common, total):
    one = shared_prefix(2, 3, (length,), shared, block)
    assert set(one.query_length.tolist()) == {total}
    assert one.tree.units == 2 * common + 2 * 3 * (total - common)
    assert one.tokens.tolist() == [length] * 6
    single = shared_prefix(4, 1, (length,), shared, block)
    assert single.tree.length.tolist() == [total] * 4


def lru_misses(sequences: list[list[int]], capacity: int) -> int:
    """Leaf LRU in plain Python: inside a query the deeper unit is the older one."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for sequence in sequences:
        misses += sum(unit not in cache for unit in sequence)
        for unit in reversed(sequence):
            cache[unit] = None
            cache.move_to_end(unit)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return misses


@pytest.mark.parametrize(("capacity", "length"), [(1, 1), (4, 1), (5, 3), (6, 6)])
def test_cyclic_broom_makes_lru_miss_every_leaf(capacity, length):
    one = cyclic_broom(capacity, length, rounds=10)
    n = capacity - length + 2
    assert one.requests == 10 * n
    assert set(one.query_length.tolist()) == {length}
    assert one.tree.units == length - 1 + n == capacity + 1
    assert lru_misses(one.sequences(), capacity) == length - 1 + one.requests
    # one leaf fewer fits
    fits = cyclic_broom(capacity, length, leaves=n - 1, rounds=10)
    assert lru_misses(fits.sequences(), capacity) == fits.tree.units == capacity


def test_yao_uniform_draws_each_leaf_equally_often():
    one = yao_uniform(capacity=6, length=3, requests=20_000, seed=5)
    assert one.tree.units == 2 + 5
    counts = np.bincount(one.query)[1:]
    assert len(counts) == 5
    assert ((counts - 4000) ** 2 / 4000).sum() < 25  # chi-square of 4 degrees, p < 1e-4
    assert yao_uniform(capacity=6, length=3, leaves=9, requests=2000).tree.units == 2 + 9


def test_zipf_draws_by_rank():
    n, requests = 50, 50_000
    one = zipf(n, requests, exponent=1.0, seed=3)
    counts = np.sort(np.bincount(one.query, minlength=n))[::-1]
    want = 1 / np.arange(1, n + 1)
    want *= requests / want.sum()
    assert ((counts - want) ** 2 / want).sum() < 110  # 49 degrees, p < 1e-6
    assert one.tree.length.tolist() == [1] * n
    assert one.sequences()[0] == [0]
    uniform = np.bincount(zipf(n, requests, exponent=0).query)
    assert ((uniform - 1000) ** 2 / 1000).sum() < 110


def test_zipf_tree_has_the_branching_asked_for():
    one = zipf(documents=27, requests=3000, levels=3, branching=3, length=4, exponent=0.2)
    tree = one.tree
    assert set(one.query_length.tolist()) == {12}
    assert (tree.edges, int((tree.parent < 0).sum())) == (3 + 9 + 27, 3)
    assert sorted(set(tree.children.tolist())) == [0, 3]
    deep = zipf(documents=3, requests=20, levels=80, branching=9)  # 9^79 overflows int64
    assert set(deep.query_length.tolist()) == {80}


def test_multi_turn_extends_what_was_said():
    one = multi_turn(conversations=40, turns=5, system_tokens=100, block_size=1, seed=2)
    assert one.query_length.tolist() == one.input_length.tolist()
    sequences = one.sequences()
    assert all(s[:100] == list(range(100)) for s in sequences)
    last: dict[int, int] = {}  # the turn before, by the first unit that is a conversation's own
    for t, s in enumerate(sequences):
        before = last.get(s[100])
        if before is not None:
            assert s[: len(sequences[before])] == sequences[before]
            assert len(s) > len(sequences[before]) + one.output_length[before]
            assert one.arrival[t] > one.arrival[before]
        last[s[100]] = t
    assert len(last) == 40
    assert (np.diff(one.arrival) >= 0).all()
    blocks = multi_turn(conversations=40, turns=5, system_tokens=100, block_size=16, seed=2)
    assert blocks.input_length.tolist() == one.input_length.tolist()
    assert blocks.query_length.tolist() == (one.input_length // 16).tolist()


def test_multi_turn_has_the_means_asked_for():
    one = multi_turn(4000, turns=3, prompt_tokens=50, output_tokens=80, rate=2, think_seconds=5)
    assert one.requests / 4000 == pytest.approx(3, rel=0.05)
    assert one.output_length.mean() == pytest.approx(80, rel=0.05)
    assert one.arrival[-1] == pytest.approx(2000, rel=0.1)
    once = multi_turn(5000, turns=1, system_tokens=0, prompt_tokens=50)
    assert once.requests == 5000
    assert once.input_length.mean() == pytest.approx(50, rel=0.05)


def test_heavy_tail_has_the_tail_asked_for():
    one = heavy_tail(20_000, 1, 1, 100, tail=1.5, longest=10**9, block_size=1, seed=1)
    least = 100 * 0.5 / 1.5
    for times in (3, 10, 30):  # P(X > x·least) = x^−1.5
        share = (one.tokens > times * least).mean()
        assert share == pytest.approx(times**-1.5, rel=0.25)
    normal = heavy_tail(20_000, 1, 1, 100, "lognormal", 1.0, 10**9, block_size=1)
    logs = np.log(normal.tokens)
    assert logs.mean() == pytest.approx(np.log(100) - 0.5, abs=0.05)
    assert logs.std() == pytest.approx(1, abs=0.05)
    assert heavy_tail(1000, longest=500).input_length.max() <= 1000


def test_heavy_tail_shares_prefixes_by_group():
    one = heavy_tail(300, groups=5, block_size=16, seed=4)
    assert one.tree.parent[one.query].min() >= 0
    assert len(set(one.tree.parent[one.query].tolist())) == 5
    assert (one.query_length == -(-one.input_length // 16)).all()


def test_poisson_arrivals_have_their_rate_and_a_stream_of_their_own():
    slow, fast = (shared_prefix(lengths=(2,), rate=rate, seed=3) for rate in (1.0, 12.0))
    assert slow.arrival == pytest.approx(12 * fast.arrival)
    assert slow.arrival[-1] / 4096 == pytest.approx(1, rel=0.1)
    assert np.diff(slow.arrival).std() == pytest.approx(1, rel=0.1)  # exponential gaps
    assert slow.query.tolist() == shared_prefix(lengths=(2,), seed=3).query.tolist()


BAD = [
    ("shared_prefix:groups=0", "groups = 0: must be at least 1"),
    ("shared_prefix:prompts=-2", "prompts = -2: must be at least 1"),
    ("shared_prefix:lengths=8/0", "lengths = 0: must be at least 1"),
    ("shared_prefix:lengths=", "lengths = '': must be a whole number"),
    ("shared_prefix:shared=1.5", r"shared = 1.5: must be a share from 0 to 1"),
    ("shared_prefix:shared=nan", "shared = nan: must be a share from 0 to 1"),
    ("shared_prefix:block_size=0", "block_size = 0: must be at least 1"),
    ("shared_prefix:order=rnd", "order = 'rnd': must be one of random, grouped, round_robin"),
    ("shared_prefix:seed=-1", "seed = -1: must be at least 0"),
    ("shared_prefix:rate=0", "rate = 0.0: must be finite and above 0"),
    ("shared_prefix:groups=2.5", "groups = '2.5': must be a whole number"),
    ("shared_prefix:rate=fast", "rate = 'fast': must be a number"),
    ("shared_prefix:groups=none", "groups = 'none': must be a whole number"),
    ("shared_prefix:groups", "parameter 'groups' has no value"),
    ("shared_prefix:groups=2,groups=3", "parameter 'groups' is given twice"),
    ("shared_prefix:group=2", "unknown parameter of shared_prefix 'group': did you mean groups"),
    ("shared_prefx:groups=2", "unknown generator 'shared_prefx': did you mean shared_prefix"),
    ("cyclic_broom:capacity=0", "capacity = 0: must be at least 1"),
    ("cyclic_broom:capacity=3,length=4", "length = 4: a query must fit the capacity, 3"),
    ("cyclic_broom:rounds=0", "rounds = 0: must be at least 1"),
    ("cyclic_broom:leaves=0", "leaves = 0: must be at least 1"),
    ("yao_uniform:requests=0", "requests = 0: must be at least 1"),
    ("yao_uniform:length=0", "length = 0: must be at least 1"),
    ("zipf:exponent=-1", "exponent = -1.0: must be finite and not negative"),
    ("zipf:documents=0", "documents = 0: must be at least 1"),
    ("zipf:levels=0", "levels = 0: must be at least 1"),
    ("zipf:rate=inf", "rate = inf: must be finite and above 0"),
    ("multi_turn:turns=0.5", "turns = 0.5: is a mean of at least 1"),
    ("multi_turn:output_tokens=0", "output_tokens = 0.0: must be finite and above 0"),
    ("multi_turn:rate=-1", "rate = -1.0: must be finite and above 0"),
    ("heavy_tail:law=cauchy", "law = 'cauchy': must be one of pareto, lognormal"),
    ("heavy_tail:tail=1", "tail = 1.0: a Pareto law needs a shape above 1"),
    ("heavy_tail:longest=0", "longest = 0: must be at least 1"),
]


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_bad_parameters_are_named(text, problem):
    with pytest.raises(InputError, match=problem):
        generate(text)


def test_wrong_types_are_refused_in_calls_too():
    with pytest.raises(InputError, match=r"groups = 2\.5: must be a whole number"):
        shared_prefix(groups=2.5)
    with pytest.raises(InputError, match="rounds = True: must be a whole number"):
        cyclic_broom(rounds=True)
    with pytest.raises(InputError, match="rate = 'x': must be a number"):
        zipf(rate="x")
    with pytest.raises(InputError, match=r"lengths = \(\): must hold at least one length"):
        shared_prefix(lengths=())


def test_text_is_read_by_the_annotations():
    one = generate("shared_prefix: groups=2, prompts = 1 ,lengths=4/6,rate=None,shared=.25")
    assert one == shared_prefix(groups=2, prompts=1, lengths=(4, 6), shared=0.25)
    assert generate("zipf") == zipf() == generate("zipf:")


def test_a_source_is_a_file_or_a_generator(tmp_path, monkeypatch):
    one = generate(SMALL["zipf"])
    path = tmp_path / "x.npz"
    write(one, path)
    assert source(path) == source(str(path)) == source(SMALL["zipf"]) == one
    (tmp_path / "page.txt").write_text("1\n2\n1\n")
    assert source(tmp_path / "page.txt", format="tokens", block_size=4).block_size == 4
    for text in ("no/such.jsonl", "trace.jsonl", "./zipf", ""):
        with pytest.raises(InputError, match="is neither a file nor a generator; generators: aff"):
            source(text)
    with pytest.raises(InputError, match="unknown generator 'ziph': did you mean zipf"):
        source("ziph:requests=3")
    with pytest.raises(InputError, match="block_size = 4: applies to files; 'zipf' is a generator"):
        source("zipf", block_size=4)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zipf").mkdir()  # a folder is no trace
    assert source("zipf:requests=5,documents=2").requests == 5
