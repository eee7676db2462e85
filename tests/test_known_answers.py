"""Numbers that independent programs found: the jitted driver has to meet them."""

import json
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

from kvtheory import traces
from kvtheory.eviction import POLICIES, policy
from kvtheory.instance import Instance
from kvtheory.instances import cyclic_broom, shared_prefix, yao_uniform, zipf
from kvtheory.offline.optimum import optimum
from kvtheory.ratio import compare, harmonic, ratio_over_instances
from kvtheory.result import Result
from kvtheory.simulate import simulate, simulate_capacities

TOKENS = 192_000
PREFIX_TRACES = 6
FLAT_TRACES = ("2_pools", "loop", "multi1", "sprite", "zigzag")
QUICK = ("loop",)  # the others in the full run


@pytest.fixture(scope="module")
def reference(shared_traces: Path) -> dict[str, dict]:
    return json.loads((shared_traces / "reference.json").read_text())


def read(shared_traces: Path, entry: dict) -> Instance:
    return traces.read(shared_traces / entry["file"].removeprefix("files/"))


def hits_at(instance: Instance, cells: list[dict], text: str) -> dict[int, Result]:
    sizes = [cell["capacity"] for cell in cells]
    results = simulate_capacities(instance, sizes, policy(text), oversize="truncate")
    return dict(zip(sizes, results, strict=True))


def test_the_reference_names_the_traces_of_these_tests(reference: dict[str, dict]) -> None:
    assert len(reference["prefix_traces"]) == PREFIX_TRACES
    assert set(reference["flat_traces"]) == set(FLAT_TRACES)


@pytest.mark.parametrize("place", range(PREFIX_TRACES))
def test_prefix_traces_to_the_unit(
    shared_traces: Path, reference: dict[str, dict], place: int
) -> None:
    entry = list(reference["prefix_traces"].values())[place]
    instance, cells = read(shared_traces, entry), entry["cells"]
    lru, forced, bypass = (
        hits_at(instance, cells, text) for text in ("llru", "belady", "belady:bypass=true")
    )
    for cell in cells:
        size = cell["capacity"]
        per_request = lru[size].hits[0]
        text = ",".join(map(str, per_request.tolist()))
        assert zlib.crc32(text.encode()) == cell["leaf_lru_per_request_crc32"]
        assert int(lru[size].total_hits[0]) == cell["leaf_lru_hits"]
        assert int(lru[size].misses[0]) == cell["leaf_lru_misses"]
        # the reference counts an empty query, of less than one block, as fully hit
        full = per_request == instance.query_length
        assert int(full.sum()) == cell["leaf_lru_full_hit_requests"]
        assert int(forced[size].total_hits[0]) == cell["belady_forced_hits"]
        assert int(bypass[size].total_hits[0]) == cell["belady_bypass_hits"]


@pytest.mark.parametrize(
    "name", [t if t in QUICK else pytest.param(t, marks=pytest.mark.slow) for t in FLAT_TRACES]
)
def test_classic_traces_to_the_unit(
    shared_traces: Path, reference: dict[str, dict], name: str
) -> None:
    entry = reference["flat_traces"][name]
    instance = read(shared_traces, entry)
    for text, field in (("llru", "lru_hits"), ("fifo", "fifo_hits"), ("belady", "belady_hits")):
        found = hits_at(instance, entry["cells"], text)
        for cell in entry["cells"]:
            assert int(found[cell["capacity"]].total_hits[0]) == cell[field], (text, cell)


@pytest.mark.parametrize(
    ("capacity", "llru", "belady"),
    [(1_000, 0.0445, 0.1792), (3_000, 0.0653, 0.2916), (10_000, 0.2116, 0.3664)],
)
def test_conversation_trace_at_round_capacities(
    shared_traces: Path, capacity: int, llru: float, belady: float
) -> None:
    instance = traces.read(shared_traces / "mooncake" / "conversation_trace.jsonl.gz")
    rates = [
        float(simulate(instance, capacity, policy(text)).hit_rate_units[0])
        for text in ("llru", "belady")
    ]
    assert rates == pytest.approx([llru, belady], abs=5e-5)


def test_counts_belong_to_units_and_not_to_edges(shared_traces: Path) -> None:
    instance = traces.read(shared_traces / "mooncake" / "conversation_trace.jsonl.gz")
    # 37,915 if a record stood for a whole edge
    assert int(simulate(instance, 10_000, policy("lfu")).total_hits[0]) == 38_004


@pytest.mark.parametrize(("seed", "hits"), [(0, 2_639_360), (1, 2_709_248), (2, 2_645_248)])
def test_shared_prefix_with_leaf_lru(seed: int, hits: int) -> None:
    instance = shared_prefix(seed=seed)
    assert instance.units_requested == 12_812_288
    assert int(simulate(instance, TOKENS, policy("llru")).total_hits[0]) == hits


@pytest.mark.parametrize(
    ("phase", "rate"), [("token", 0.23256), pytest.param("query", 0.23306, marks=pytest.mark.slow)]
)
def test_shared_prefix_with_rlt(phase: str, rate: float) -> None:
    result = simulate(shared_prefix(seed=0), TOKENS, policy(f"rlt:phase={phase}"), seeds=32)
    assert float(result.hit_rate_units.mean()) == pytest.approx(rate, abs=0.0002)


def test_shared_prefix_with_node_lru() -> None:
    result = simulate(shared_prefix(seed=0), TOKENS, policy("node_lru"))
    assert float(result.hit_rate_units[0]) == pytest.approx(0.192, abs=0.0005)


@pytest.mark.parametrize(("capacity", "length"), [(4, 1), (8, 3), (16, 1), (9, 9)])
def test_the_worst_case_of_leaf_lru_on_brooms(capacity: int, length: int) -> None:
    worst = cyclic_broom(capacity=capacity, length=length, rounds=60 * (capacity - length + 1))
    (row,) = compare(worst, ["llru"], capacity, kind="asymptotic")
    k = capacity - length + 1
    # each half is a whole number of periods of the optimum, so nothing is left over
    assert row.ratio == k
    assert row.bound == k


def yao(capacity: int, length: int) -> tuple[list[Instance], np.ndarray]:
    instances = [
        yao_uniform(capacity=capacity, length=length, requests=4_096, seed=seed)
        for seed in range(64)
    ]
    return instances, np.array([optimum(i, capacity).upper for i in instances], float)


ONLINE = [name for name, kind in POLICIES.items() if kind.online]
FEW = ["llru", "rlt", "lrlt", "lfu"]


@pytest.mark.parametrize(
    ("capacity", "length", "names"),
    [
        (5, 1, FEW),
        pytest.param(5, 1, ONLINE, marks=pytest.mark.slow),
        pytest.param(8, 3, ONLINE, marks=pytest.mark.slow),
    ],
)
def test_no_policy_escapes_the_uniform_leaf(capacity: int, length: int, names: list[str]) -> None:
    instances, best = yao(capacity, length)
    expected = float(harmonic(capacity - length + 1))
    assert len(ONLINE) == len(POLICIES) - 2  # belady and marking see the future
    for name in names:
        misses = [
            float(simulate(i, capacity, policy(name), key=jax.random.key(s)).misses[0])
            for s, i in enumerate(instances)
        ]
        ratio = ratio_over_instances(misses, best, start=capacity, confidence=0.99)
        assert ratio.low <= expected <= ratio.high, (name, ratio)


@pytest.mark.slow
def test_fifo_and_random_eviction_hit_alike_under_independent_requests() -> None:
    # Gelenbe 1973; over 32 instances, as a difference with its standard error
    difference = []
    for seed in range(32):
        instance = zipf(documents=60, requests=4_096, exponent=0.8, seed=seed)
        fifo, uniform = (
            float(simulate(instance, 12, policy(text), key=jax.random.key(seed)).hit_rate_units[0])
            for text in ("fifo", "random_leaf")
        )
        difference.append(fifo - uniform)
    error = np.std(difference, ddof=1) / np.sqrt(len(difference))
    assert error < 0.002
    assert abs(np.mean(difference)) < 3.3 * error  # exceeded with probability 0.001


def test_records_of_units_by_hand() -> None:
    # units a, b below a, c, d; FIFO hits once by units, twice if [a, b] were one edge
    a, b, c, d = range(4)
    instance = Instance.from_tokens([[a, b], [c], [d], [a, b], [c], [d]])
    assert int(simulate(instance, 3, policy("fifo")).total_hits[0]) == 1


def full_hits(result: Result, wanted: np.ndarray | None = None) -> float:
    asked = np.arange(result.instance.requests) if wanted is None else wanted
    length = result.instance.query_length
    return float((result.hits[0, asked] == length[asked]).mean())


@pytest.mark.slow
def test_an_order_blind_to_size_serves_fewer_whole_requests() -> None:
    # 60 prefixes of 8 units for 60 % of the requests, 12 of 300 units for the others, B = 1000
    rng = np.random.default_rng(0)
    small = rng.random(30_000) < 0.6
    document = np.where(small, rng.integers(0, 60, 30_000), 60 + rng.integers(0, 12, 30_000))
    paths = [[10_000 * i + j for j in range(8 if i < 60 else 300)] for i in range(72)]
    instance = Instance.from_blocks([paths[i] for i in document])
    found = {}
    for name in ("llru", "cost_per_unit"):
        result = simulate(instance, 1_000, policy(name))
        found[name] = (full_hits(result), float(result.hit_rate_units[0]))
    assert found["llru"] == pytest.approx((0.16, 0.26), abs=0.02)
    assert found["cost_per_unit"] == pytest.approx((0.63, 0.18), abs=0.02)


@pytest.mark.slow
def test_a_scan_empties_leaf_lru_but_not_the_segmented_one() -> None:
    # 40 hot units for a fifth of the requests, each of the others asked for once, B = 100
    rng = np.random.default_rng(0)
    hot = rng.random(20_000) < 0.2
    unit = np.where(hot, rng.integers(0, 40, 20_000), 1_000 + np.arange(20_000))
    instance = Instance.from_blocks(unit[:, None].tolist())
    rate = {
        name: full_hits(simulate(instance, 100, policy(name)), np.flatnonzero(hot))
        for name in ("llru", "lfu", "slru")
    }
    assert rate["llru"] == pytest.approx(0.40, abs=0.02)
    assert rate["slru"] == pytest.approx(0.97, abs=0.02)
    # counts that are never raised would make it leaf LRU
    assert rate["lfu"] > rate["llru"] + 0.3
