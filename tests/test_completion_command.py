"""What a shell offers: the scripts of ``kvtheory completion``, asked as the shell asks them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kvtheory import cli
from kvtheory.commands.words import FILES, FOLDERS, vocabulary
from kvtheory.eviction import POLICIES
from kvtheory.instances import GENERATORS
from kvtheory.routing import ROUTERS

FIRST = sorted({command.split()[0] for command in cli.COMMANDS})
CASES = [
    ("kvtheory ", [*FIRST, "--help", "--version"]),
    ("kvtheory ra", ["ratio"]),
    ("kvtheory trace ", ["info", "convert", "--help"]),
    ("kvtheory ratio ya", ["yao_uniform"]),
    ("kvtheory trace info tr", ["trace.jsonl"]),
    ("kvtheory trace convert zipf tr", ["trace.jsonl"]),
    ("kvtheory ratio zipf --ev", ["--eviction"]),
    ("kvtheory ratio zipf --json --s", ["--seed", "--seeds", "--solver"]),
    ("kvtheory ratio zipf --eviction ", sorted(POLICIES)),
    ("kvtheory ratio zipf --eviction llru bel", ["belady"]),
    ("kvtheory ratio zipf --eviction rlt:", ["rlt:phase="]),
    ("kvtheory simulate zipf --router ", sorted(ROUTERS)),
    ("kvtheory simulate zipf --router lbgr:target=latency,fo", ["lbgr:target=latency,forget="]),
    ("kvtheory ratio zipf --kind ", ["strict", "asymptotic"]),
    ("kvtheory ratio zipf --kind=s", ["--kind=strict"]),
    ("kvtheory ratio zipf:documents=3,lev", ["zipf:documents=3,levels="]),
    ("kvtheory ratio zipf --seeds 3 --kind strict --eviction=lr", ["--eviction=lrlt"]),
    ("kvtheory ratio zipf --seeds ", []),
    ("kvtheory adversary s", ["search", "shared_prefix"]),
    ("kvtheory adversary zipf -o tr", ["trace.jsonl"]),
    ("kvtheory exact --tree br", ["broom"]),
    ("kvtheory sweep grid.toml --out res", ["results"]),
    ("kvtheory trace convert a b --drop end inp", ["input_length"]),
    ("kvtheory completion ", ["bash", "zsh", "fish"]),
    ("kvtheory nosuch ", []),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The scripts, beside a file and a folder that can be completed."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "trace.jsonl").touch()
    (folder / "results").mkdir()
    for shell in ("bash", "zsh", "fish"):
        with pytest.MonkeyPatch.context() as patch, (folder / f"kvtheory.{shell}").open("w") as out:
            patch.setattr("sys.stdout", out)
            assert cli.main(["completion", shell]) == cli.OK
    return folder


def asked(folder: Path, *shell: str) -> list[str]:
    """What a shell answers, a line for each case."""
    typed = [typed for typed, _ in CASES]
    told = subprocess.run([*shell, *typed], cwd=folder, check=True, capture_output=True, text=True)
    assert told.stderr == ""
    return told.stdout.splitlines()


def test_bash(folder):
    """Readline puts in what is after the last : or =, so the script leaves out what is before."""
    ask = (
        'source kvtheory.bash; for COMP_LINE in "$@"; do COMP_POINT=${#COMP_LINE}; _kvtheory;'
        ' echo "${COMPREPLY[*]}"; done'
    )
    lines = asked(folder, "bash", "--norc", "-c", ask, "bash")
    for (typed, wanted), line in zip(CASES, lines, strict=True):
        word = typed.rpartition(" ")[2]
        before = max(word.rfind(":"), word.rfind("=")) + 1
        assert sorted(line.split()) == sorted(name[before:] for name in wanted), typed


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish(folder):
    ask = (
        "source kvtheory.fish; for typed in $argv;"
        " echo (complete -C $typed | string replace -r '\\t.*' ''); end"
    )
    lines = asked(folder, "fish", "--no-config", "-c", ask)
    for (typed, wanted), line in zip(CASES, lines, strict=True):
        offered = {word.rstrip("/") for word in line.split()}
        assert offered == set(wanted) - {"--help", "--version"}, typed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(folder, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    subprocess.run([shell, "-n", f"kvtheory.{shell}"], cwd=folder, check=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_word_is_there(folder, shell):
    script = (folder / f"kvtheory.{shell}").read_text()
    words = vocabulary()
    for command, options in words.options.items():
        assert command.split()[-1] in script
        for option in options:
            for name in option.names:
                assert name in script or f"-l {name.lstrip('-')}" in script or len(name) == 2
    for name in (*POLICIES, *ROUTERS, *GENERATORS):
        assert name in script


def test_what_a_value_is_called_has_a_meaning():
    """A name, a number, a file, a folder, or one of a few words: nothing is left unnamed."""
    words = vocabulary()
    plain = {"N", "X", "TEXT", "SECONDS", "MS", "PER_SECOND", "CAPACITY", "ADDRESS", ""}
    for options in words.options.values():
        for option in options:
            known = option.choices or option.value in {*plain, *words.names, *FILES, *FOLDERS}
            assert known, option


def test_an_unknown_shell(capsys):
    assert cli.main(["completion", "tcsh"]) == cli.BAD_INPUT
    assert "bash or zsh or fish" in capsys.readouterr().err
