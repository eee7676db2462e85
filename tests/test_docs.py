"""The pages of the docs do what they say: every block of code runs and prints what is shown."""

import contextlib
import doctest
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sybil import Sybil
from sybil.example import Example
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

import kvtheory.cite
from kvtheory import cli
from kvtheory.cite import EVICTION, INSTANCES, ROUTING, WORKS, bibtex, entries, works
from kvtheory.errors import InputError
from kvtheory.eviction import POLICIES
from kvtheory.instance import Instance
from kvtheory.instances import GENERATORS, generate
from kvtheory.instances.runs import whole
from kvtheory.routing import ROUTERS, router
from kvtheory.testing.check_generator import GeneratorCheckFailed, check_generator
from kvtheory.tree import PrefixTree
from proofs_check import CLAIMS, failures, run

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SKELETONS = DOCS / "howto" / "skeletons"
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))
TEXTS = {name: (DOCS / name).read_text(encoding="utf-8") for name in PAGES}
# the others take more than a few seconds each
FAST_PAGES = ("tutorial/first_ratio.md", "howto/claim.md", "howto/generator.md")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# languages of blocks that are run, and of those that are only shown
RUN, SHOWN = {"python", "console"}, {"bash", "bibtex", "text", "json", "toml", "yaml"}


def told_by(command: str) -> str:
    """What a command of the package prints, run in this process."""
    program, *words = shlex.split(command)
    assert program == "kvtheory", command
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main(words) == 0, command
    return out.getvalue()


def run_console(example: Example) -> str | None:
    """Run the lines after ``$`` and compare what each prints with the lines below it."""
    checker = doctest.OutputChecker()
    for part in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
        command, _, want = part.partition("\n")
        while command.endswith("\\"):
            more, _, want = want.partition("\n")
            command = command[:-1] + more.strip()
        # columns are as wide as the times in them
        want, got = (f"{re.sub('─+', '─', text).rstrip()}\n" for text in (want, told_by(command)))
        if want.strip() and not checker.check_output(want, got, FLAGS):
            return checker.output_difference(doctest.Example(command, want), got, FLAGS)
    return None


SYBIL = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=FLAGS),
        CodeBlockParser("console", run_console),
    ]
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST_PAGES))
        for name, text in TEXTS.items()
        if re.search(r"^```(python|console)", text, re.MULTILINE)
    ],
)
def test_blocks_of_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    document = SYBIL.parse(DOCS / page)
    blocks = list(document.examples())
    assert blocks
    for block in blocks:
        block.evaluate()


def test_no_block_is_left_out():
    for name, text in TEXTS.items():
        fences = re.findall(r"^ *(?:`{3,}|:{3,}) *(\{?[\w:-]+\}?)", text, re.MULTILINE)
        languages = {f for f in fences if not f.startswith("{")}
        assert languages <= RUN | SHOWN, f"{name}: {languages - RUN - SHOWN}"


def test_make_targets_that_are_shown_exist():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    for name, text in TEXTS.items():
        for block in re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for target in re.findall(r"^make (\w[\w-]*)", block, re.MULTILINE):
                assert f"make {target} " in listed, f"{name}: make {target}"


# -- theory ----------------------------------------------------------------------------------

STATED = r"^:{3,}\{prf:(\w+)\}[^\n]*\n:label: theorem-(\w+)\n(.*?)^:{3,}\n"


def statements() -> dict[str, tuple[str, str]]:
    """Kind and body of the environment of each claim."""
    found: dict[str, tuple[str, str]] = {}
    for name, text in TEXTS.items():
        for kind, claim, body in re.findall(STATED, text, re.MULTILINE | re.DOTALL):
            assert claim not in found, f"{name}: claim {claim} is stated twice"
            found[claim] = (kind, body)
    return found


def test_every_claim_has_one_statement_that_says_how_it_is_checked():
    stated = statements()
    assert set(stated) == {claim.id for claim in CLAIMS}
    for claim, (_, body) in stated.items():
        assert f"{{checked-by}} {claim}\n" in body, claim


def test_what_is_refuted_or_open_is_no_theorem():
    for claim in CLAIMS:
        kind = statements()[claim.id][0]
        if claim.expected == "refuted":
            assert kind == "observation", claim.id
        if claim.expected == "open":
            assert kind == "conjecture", claim.id


def test_a_theorem_has_a_proof_or_a_citation():
    for claim, (kind, body) in statements().items():
        if kind == "theorem" and "{cite" not in body:
            label = f":label: theorem-{claim}\n"
            text = next(text for text in TEXTS.values() if label in text)
            _, _, after = text.partition(label)[2].partition("\n:::\n")
            assert after.lstrip().startswith(":::{prf:proof}"), claim


def test_nothing_but_a_theorem_is_said_to_be_proved():
    for name, text in TEXTS.items():
        if name.startswith("theory/"):
            assert not re.search(r"\bprove[dn]\b", text), name


# -- skeletons and checks --------------------------------------------------------------------


def loaded(path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


@pytest.mark.slow
def test_the_skeleton_of_a_policy_passes_its_check():
    from kvtheory.testing.check_eviction import check_eviction

    skeleton = loaded(SKELETONS / "eviction_policy.py")
    report = check_eviction(skeleton.MyPolicy(), twin=skeleton.MyTwin, examples=20)
    assert report.ran["twin"] == 20


@pytest.mark.slow
def test_the_skeleton_of_a_router_passes_its_check():
    from kvtheory.testing.check_routing import check_routing

    skeleton = loaded(SKELETONS / "router.py")
    report = check_routing(skeleton.MyRouter(), twin=skeleton.MyTwin, examples=10)
    assert report.ran["twin"] == 10


def test_the_skeleton_of_a_generator_passes_its_check():
    skeleton = loaded(SKELETONS / "generator.py")
    ran = check_generator(skeleton.my_generator, documents=5, requests=30, length=4)
    assert set(ran) == {"signature", "value", "names", "numbering", "arrivals", "errors"}


def test_the_skeleton_of_a_claim_comes_out_as_stated_and_rejects_its_mutants():
    skeleton = loaded(SKELETONS / "claim.py")
    rows = run([skeleton.CLAIM])
    assert not failures(rows)
    assert [row.killed for row in rows] == [tuple(m.name for m in skeleton.CLAIM.mutants)]


def test_every_skeleton_has_a_page_that_names_it():
    for skeleton in SKELETONS.glob("*.py"):
        assert f"skeletons/{skeleton.name}" in TEXTS[f"howto/{skeleton.stem}.md"]


@pytest.mark.parametrize(
    "text",
    [
        "agentic:tasks=9,steps=4,agents=2,system_tokens=70,result_tokens=40",
        "greedy_trap:workers=4,unit=3",
        "shared_prefix:groups=6,prompts=4,lengths=8/20,shared=0.3,block_size=4",
        "yao_uniform:capacity=6,length=3,requests=50",
        "zipf:documents=13,requests=80,levels=3,branching=3,length=2",
    ],
)
def test_generators_of_the_project_pass_the_check(text):
    one = generate(text)
    small = {k: tuple(v) if isinstance(v, list) else v for k, v in one.parameters.items()}
    assert "errors" in check_generator(GENERATORS[one.name], **small)


def bare(requests=4, seed=0):
    return Instance.from_tokens([[seed]] * requests, name="bare")


def named_well(requests: int, seed: int) -> dict[str, object]:
    return {
        "name": "wrong",
        "parameters": {"requests": requests, "seed": seed},
        "source": f"wrong:requests={requests},seed={seed}",
    }


def wrong_seed(requests: int = 4, seed: int = 0) -> Instance:
    return Instance.from_tokens([[1]] * requests, **named_well(requests, 0))


def wrong_state(requests: int = 4, seed: int = 0) -> Instance:
    drawn = np.random.randint(0, 99, requests)  # noqa: NPY002
    return Instance.from_tokens([[int(d)] for d in drawn], **named_well(requests, seed))


def wrong_name(requests: int = 4, seed: int = 0) -> Instance:
    return Instance.from_tokens([[seed]] * requests, **named_well(requests, seed))


def wrong_error(requests: int = 4, seed: int = 0) -> Instance:
    fields = named_well(requests, seed) | {"name": "wrong_error"}
    fields["source"] = f"wrong_error:requests={requests},seed={seed}"
    return Instance.from_tokens([[seed]] * requests, **fields)


def wrong_numbering(requests: int = 4, seed: int = 0) -> Instance:
    whole(1, requests=requests)
    whole(0, seed=seed)
    tree = PrefixTree(np.array([-1, -1]), np.array([1, 1]))
    query = np.array([1, 0] * requests)
    fields = named_well(requests, seed) | {"name": "wrong_numbering"}
    fields["source"] = f"wrong_numbering:requests={requests},seed={seed}"
    return Instance(tree, query, **fields)


@pytest.mark.parametrize(
    ("make", "check"),
    [
        (bare, "signature"),
        (wrong_seed, "value"),
        (wrong_state, "value"),
        (wrong_name, "names"),
        (wrong_numbering, "numbering"),
        (wrong_error, "errors"),
    ],
)
def test_a_wrong_generator_is_rejected(make, check):
    with pytest.raises(GeneratorCheckFailed) as failed:
        check_generator(make)
    assert failed.value.check == check


# -- citations -------------------------------------------------------------------------------


def test_everything_registered_says_what_it_rests_on():
    assert set(EVICTION) == set(POLICIES)
    assert set(ROUTING) == set(ROUTERS)
    assert set(INSTANCES) == set(GENERATORS)


def test_no_key_is_missing_and_no_entry_is_idle():
    named = {key for keys in WORKS.values() for key in keys}
    cited = set()
    for text in TEXTS.values():
        for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text):
            cited |= set(keys.split(","))
    assert named | cited == set(entries())


def test_entries_are_whole():
    for key, entry in entries().items():
        assert re.match(rf"@\w+\{{{key},", entry)
        assert entry.count("{") == entry.count("}"), key
        fields = set(re.findall(r"^  (\w+) *=", entry, re.MULTILINE))
        assert {"title", "author"} <= fields, key
        assert fields & {"year", "howpublished"}, key
        assert fields & {"journal", "booktitle", "publisher", "note", "howpublished"}, key


def test_bibtex_of_names():
    text = bibtex(["rlt:phase=query", "zipf:documents=5", "interval_lp", "rlt"])
    keys = re.findall(r"^@\w+\{(\S+),$", text, re.MULTILINE)
    assert keys == [
        "kvtheory",
        *dict.fromkeys([*MODEL_FIRST, *works("zipf"), *works("interval_lp")]),
    ]
    assert all(entries()[key] in text for key in keys[1:])


MODEL_FIRST = ("wu2026randomization", *works("rlt"))


def test_experts_and_nested_policies_are_cited():
    assert set(works("max_hit")) | set(works("gorgo")) <= set(
        works("exp4:experts=max_hit+[gorgo:rtt=0.1]")
    )
    assert set(works("rlt")) <= set(works("distribution_aware:policy=[rlt:phase=query],requests=9"))


@pytest.mark.parametrize("names", [["rltt"], ["hedge:experts=lbgrr"], "rlt"])
def test_bibtex_of_what_is_not_known(names):
    with pytest.raises(InputError):
        bibtex(names)


def test_citing_a_run(capsys):
    instance = generate("zipf:documents=4,requests=20")
    row = SimpleNamespace(policy="slru", source=instance.source, method="belady")
    cross = SimpleNamespace(source="chat.jsonl", router="hedge:experts=lbgr+gorgo", eviction="mine")
    kvtheory.cite([row, cross], router("dualmap"), instance)
    told = capsys.readouterr().out
    for name in ("slru", "belady", "zipf", "hedge", "lbgr", "gorgo", "dualmap"):
        assert all(f"{{{key}," in told for key in works(name)), name
    assert "% chat.jsonl: not of this project" in told
    assert "% mine: not of this project" in told
    with pytest.raises(InputError, match="names no policy"):
        kvtheory.cite(3)


# -- links -----------------------------------------------------------------------------------


def test_dead_links_are_found(tmp_path):
    check_links = loaded(DOCS / "check_links.py")
    (tmp_path / "a.html").write_text('<h1 id="top">a</h1><a href="b.html#part">b</a>')
    (tmp_path / "b.html").write_text(
        '<h1 id="part">b</h1><a href="a.html#top">a</a><a href="https://example.org/x">x</a>'
    )
    assert check_links.dead_links(tmp_path) == []
    (tmp_path / "a.html").write_text('<a href="b.html#other">b</a><a href="c.html">c</a>')
    dead = check_links.dead_links(tmp_path)
    assert dead == [
        "a.html: no anchor b.html#other",
        "a.html: no file c.html",
        "b.html: no anchor a.html#top",
    ]
    assert check_links.main(tmp_path) == 1
