"""Bad input to every command: one or two lines that name it and say what to do, no traceback."""

import errno
import os
import subprocess
import sys

import pytest

from kvtheory import cli

STAR = "cyclic_broom:capacity=3,rounds=3"
BLOCKS = "zipf:requests=10,documents=4,block_size=16"
ONE = ("--eviction", "llru", "--capacity", "3")
SERVE = ("simulate", STAR, "--router", "lbgr", "--rate", "1", "--seeds", "1", *ONE)
SEARCH = ("adversary", "search", "--capacity", "2", "--generations", "1", "--population", "4")
EXACT = ("exact", "--tree", "star:leaves=3", "--capacity", "2")

SOURCES = [
    ("no/such.jsonl", ["no/such.jsonl", "neither a file nor a generator", "zipf"]),
    ("folder", ["folder: is a folder", "name a trace file"]),
    ("junk.bin", ["junk.bin: line 1", "not one integer id"]),
    ("junk.npz", ["junk.npz", "not an instance"]),
    ("junk.gz", ["junk.gz", "cannot be decompressed"]),
    ("junk.xz", ["junk.xz", "cannot be decompressed"]),
    ("empty.jsonl", ["empty.jsonl: is empty"]),
    ("latin.jsonl", ["line 1", "not UTF-8"]),
    ("half.jsonl", ["line 1", "bad JSON"]),
    ("", ["''", "neither a file nor a generator"]),
    ("\0", ["neither a file nor a generator"]),
    ("zpif", ["unknown generator 'zpif'", "did you mean zipf"]),
    ("zipf:requests=0", ["requests = 0", "at least 1"]),
    ("zipf:requests=x", ["requests = 'x'", "whole number"]),
    ("zipf:requests", ["requests", "has no value"]),
    ("zipf:reqests=3", ["unknown parameter", "did you mean requests"]),
    ("zipf:requests=3,requests=4", ["given twice"]),
    ("zipf:block_size=0", ["block_size = 0", "at least 1"]),
]

ARGUMENTS = [
    # capacities
    *(
        (["ratio", BLOCKS, f"--capacity={bad}"], [f"capacity = {bad!r}", "positive number"])
        for bad in ("0", "-1", "abc", "1e99", "", "nan%", "0.5")
    ),
    (["curve", BLOCKS, "--capacity=5tok"], ["5tok", "less than one block of 16"]),
    (["optimum", BLOCKS, "--capacity=5tok"], ["5tok", "less than one block of 16"]),
    (["adversary", STAR, "--capacity="], ["capacity = ''", "positive number"]),
    (["exact", "--tree", "star:leaves=3", "--capacity", "2", "5%"], ["'5%'", "whole number"]),
    # policies, routers, trees
    (["ratio", STAR, "--eviction", "llur"], ["'llur'", "did you mean llru"]),
    (["ratio", STAR, "--eviction", "rlt:phse=query"], ["'phse'", "did you mean phase"]),
    (["curve", STAR, "--eviction", "rlt:phase=never"], ["phase = 'never'", "'query'"]),
    (["adversary", STAR, "--against", ""], ["unknown eviction policy ''", "known: belady"]),
    (["adversary", "serach"], ["unknown generator 'serach'", "search"]),
    (["adversary", "zipf"], ["any capacity", "pass --capacity"]),
    (["optimum", STAR, "--router", "lbrg"], ["unknown router 'lbrg'", "did you mean lbgr"]),
    ([*SERVE[:2], "--router", "lbgr:tgt=1", "--rate", "1"], ["'tgt'", "did you mean target"]),
    (["exact", "--tree", "star", "--capacity", "2"], ["leaves is missing", "write star:leaves="]),
    ([*EXACT, "--queries", "x"], ["queries = 'x'", "all, leaves, or numbers"]),
    # numbers
    (["ratio", STAR, "--seed=-1"], ["seed = -1", "between 0 and 2^32 - 1"]),
    (["ratio", STAR, "--optimum", "lp", "--time-limit", "nan"], ["time_limit = nan", "positive"]),
    (["adversary", STAR, "--seeds", "0"], ["seeds = 0", "at least 1"]),
    ([*SEARCH, "--budget", "x"], ["--budget = 'x'", "must be a number", "adversary --help"]),
    (["check", "--id", "1", "--seeds", "0"], ["seeds = 0", "at least 1"]),
    (["check", "--id", "99"], ["unknown claim '99'"]),
    (["optimum", STAR, "--mip-gap=-1"], ["mip_gap = -1.0", "not negative"]),
    (["optimum", STAR, "--mip-gap=nan"], ["mip_gap = nan", "finite"]),
    (["optimum", STAR, "--seed=-1"], ["seed = -1", "between"]),
    (["optimum", STAR, "--workers", "0"], ["workers = 0", "at least 1"]),
    ([*SERVE, "--optimum", "--optimum-seconds", "0"], ["optimum_seconds = 0.0", "positive"]),
    ([*SERVE, "--speeds", "1,2"], ["speeds = '1,2'", "each of 4 workers: 1,1,0.5,2"]),
    ([*SERVE, "--speed-changes", "0"], ["speed_changes", "170:0:0.25"]),
    ([*SERVE, "--alpha-miss=-1"], ["alpha_miss = -1.0", "not negative"]),
    (["simulate", STAR, *ONE], ["no arrival times", "pass --rate"]),
    (["survey", "--units", "9"], ["units", "<= 8"]),
    (["bench", "--repeats", "0"], ["repeats = 0", "at least 1"]),
    (["sweep", "grid.toml", "--out", "r", "--jobs", "99999999999"], ["jobs", "between 1 and"]),
    (["sweep", "grid.toml", "--out", "r", "--jobs", "two"], ["--jobs = 'two'", "whole number"]),
    (["trace", "convert", STAR, "o.npz", "--rate=-1"], ["rate = -1.0", "above 0"]),
    # options
    (["policies", "--jsn"], ["unknown option '--jsn'", "did you mean --json", "policies --help"]),
    (["routers", "lbgr"], ["'lbgr' is one argument too many"]),
    (["generators", "-x"], ["unknown option '-x'"]),
    (["trace", "convert", STAR], ["missing: TARGET"]),
    (["ratio", "--eviction", "llru", STAR], ["missing: SOURCE", "goes before the options"]),
    (["trace", "convert", STAR, "o.npz", "--drop", "warn"], ["'warn'", "did you mean warm?"]),
    (["trace", "info", STAR, "--format", "jsnl"], ["format = 'jsnl'", "applies to files"]),
    (["exact", "--capacity", "2"], ["missing: --tree TREE", "exact --help"]),
    (["sweep", "grid.toml"], ["missing: --out DIR"]),
    # files
    (["sweep", "no.toml", "--dry-run"], ["grid = 'no.toml'", "is no file", "sweep --help"]),
    (["sweep", "junk.bin", "--dry-run"], ["junk.bin: is no TOML file"]),
    (["sweep", "grid.toml", "--out", ""], ["out = ''", "name of a folder"]),
    (["sweep", "grid.toml", "--out", "r", "--csv", "no/x"], ["no/x", "does not exist"]),
    (["check", "--id", "1", "--counterexamples", "junk.bin"], ["is no folder; name one"]),
    (["check", "--id", "14", "--figure", "map.gif"], [".png, .pdf, .svg"]),
    (["trace", "convert", STAR, ""], ["target = ''", "name of a file"]),
    (["trace", "convert", STAR, "junk.npz"], ["junk.npz exists", "--force"]),
    (["trace", "convert", STAR, "x.abc"], ["x.abc", "no format has the suffix", ".jsonl"]),
    (["adversary", STAR, "-o", "x.csv"], ["out = 'x.csv'", ".jsonl or .npz"]),
    (["bench", "--only", "rlt", "--history", "no/x"], ["no/x", "does not exist"]),
    (["bench", "--trace", "folder"], ["trace = 'folder'", "is not a file"]),
    *(
        ([*command, "folder"], ["folder", "is a folder; name a file"])
        for command in (
            ["ratio", STAR, "--csv"], ["curve", STAR, "--csv"], [*SERVE, "--csv"],
            ["optimum", STAR, "--schedule"], ["survey", "--units", "2", "--csv"],
            ["bench", "--only", "rlt", "--markdown"],
        )
    ),
    *(
        ([*command, "no/x.svg"], ["no/x.svg", "the folder 'no' does not exist"])
        for command in (
            ["ratio", STAR, "--plot"], ["curve", STAR, "--plot"], [*SERVE, "--plot"],
            ["survey", "--units", "2", "--plot"],
        )
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "junk.bin").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "junk.npz").write_bytes(b"PK\x03\x04" + bytes(200))
    (tmp_path / "junk.gz").write_bytes(b"\x1f\x8b\x08" + bytes(50))
    (tmp_path / "junk.xz").write_bytes(b"\xfd7zXZ\x00" + bytes(50))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "latin.jsonl").write_bytes('{"hash_ids": [1], "x": "é"}\n'.encode("latin-1"))
    (tmp_path / "half.jsonl").write_text('{"timestamp": 0, "input_length": 1, "hash_ids": [1')
    (tmp_path / "grid.toml").write_text(
        f'[grid]\nsource = "{STAR}"\ncapacity = 3\neviction = "llru"\nseeds = 1\n'
    )


def refused(capsys, arguments, words, code=cli.BAD_INPUT):
    before = sorted(os.listdir("."))
    assert cli.main(arguments) == code
    told = capsys.readouterr()
    assert told.out == ""  # refused before the work and not after it
    assert sorted(os.listdir(".")) == before
    assert told.err.startswith("kvtheory: error: ")
    assert len(told.err.splitlines()) <= 2
    assert "Traceback" not in told.err
    for word in words:
        assert word in told.err


@pytest.mark.parametrize(("source", "words"), SOURCES)
def test_sources(capsys, source, words):
    refused(capsys, ["trace", "info", source], words)


@pytest.mark.parametrize("command", ["ratio", "curve", "optimum", "simulate", "trace convert"])
def test_every_command_refuses_the_same_sources(capsys, command):
    target = ["out.npz"] if command == "trace convert" else []
    for source, words in [SOURCES[0], SOURCES[1], SOURCES[2], SOURCES[6]]:
        refused(capsys, [*command.split(), source, *target], words)


@pytest.mark.parametrize(("arguments", "words"), ARGUMENTS, ids=lambda a: " ".join(a)[:60])
def test_arguments(capsys, arguments, words):
    refused(capsys, arguments, words)


class Missing:
    """A finder by which some packages are not installed."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("matplotlib", ["ratio", STAR, *ONE, "--plot", "x.svg"], "plot"),
        ("matplotlib", ["curve", STAR, "--plot", "x.svg"], "plot"),
        ("matplotlib", [*SERVE, "--plot", "x.svg"], "plot"),
        ("matplotlib", ["survey", "--units", "2", "--plot", "x.svg"], "plot"),
        ("matplotlib", ["check", "--id", "14", "--figure", "x.svg"], "plot"),
        ("pyarrow", ["survey", "--units", "2", "--out", "x.parquet"], "survey"),
        ("pyarrow", ["sweep", "grid.toml", "--out", "x"], "sweep"),
    ],
)
def test_what_is_not_installed_is_named_with_how_to(capsys, monkeypatch, package, arguments, extra):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(package), *sys.meta_path])
    refused(capsys, arguments, [f"need {package}", f"pip install 'kvtheory[{extra}]'"])


def test_a_full_disk_is_named(capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code = cli.main(["trace", "convert", STAR, "star.npz"])
    assert code == cli.FAILED
    wanted = "kvtheory: error: star.npz: No space left on device: make room, or write elsewhere\n"
    assert capsys.readouterr().err == wanted
    assert not [name for name in os.listdir(".") if "star" in name]


def test_too_large_for_the_memory(capsys, monkeypatch):
    from kvtheory import instances

    def large(*_, **__):
        raise MemoryError("Unable to allocate 728. TiB")

    monkeypatch.setattr(instances, "source", large)
    words = ["not enough memory", "728. TiB", "fewer requests"]
    refused(capsys, ["trace", "info", STAR], words, code=cli.FAILED)


@pytest.mark.parametrize(
    ("ending", "code", "told"),
    [
        (">&-", 0, ""),
        ("nosuch 2>&-", 2, ""),
        (
            ">/dev/full",
            1,
            "kvtheory: error: No space left on device: make room, or write elsewhere",
        ),
    ],
)
def test_output_that_goes_nowhere(ending, code, told):
    if "/dev/full" in ending and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    command = f"'{sys.executable}' -m kvtheory {'' if 'nosuch' in ending else '--help'} {ending}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip(), done.stdout) == (code, told, "")
