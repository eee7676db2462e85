"""The help of every command: what it says is true, it can be pasted, and it comes at once."""

import contextlib
import importlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from kvtheory import cli
from kvtheory.commands.option import about, options_of
from kvtheory.commands.words import TREES
from kvtheory.tree_text import _KINDS

QUICK = ("completion", "exact", "generators", "policies", "routers", "trace convert", "trace info")
TOLD = (Path(__file__).parent.parent / "docs" / "reference" / "commands.md").read_text("utf-8")


def options(command: str) -> type:
    return importlib.import_module(f"kvtheory.commands.{cli.COMMANDS[command][0]}").Options


def help_of(capsys, command: str) -> str:
    assert cli.main([*command.split(), "--help"]) == cli.OK
    return capsys.readouterr().out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_it_lists_what_the_parser_takes(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    told = help_of(capsys, command)
    parser = io.StringIO()
    with contextlib.redirect_stdout(parser), contextlib.suppress(SystemExit):
        tyro.cli(options(command), args=["--help"], config=(tyro.conf.FlagCreatePairsOff,))
    taken = re.compile(r"^[│|]? {1,2}(?:-\w[^-\n]*, )?(--[a-z][a-z-]*)", re.MULTILINE)
    assert sorted(taken.findall(told)) == sorted(taken.findall(parser.getvalue()))
    for option in options_of(options(command)):
        assert option.about.endswith((".", "?")), option
        assert option.value in told


@pytest.mark.parametrize("command", cli.COMMANDS)
@pytest.mark.parametrize("columns", [40, 80])
def test_it_fits_the_terminal(capsys, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    told = help_of(capsys, command)
    assert told.startswith(f"usage: kvtheory {command}")
    # the value of an option cannot be broken, nor a line that is to be pasted
    assert all(
        len(line) <= columns
        for line in told.splitlines()
        if not line.startswith(("    ", "  -", "  kvtheory"))
    )


def test_a_command_can_be_named_after_help(capsys):
    assert cli.main(["help", "trace", "info"]) == cli.OK
    assert capsys.readouterr().out == help_of(capsys, "trace info")


@pytest.mark.parametrize(
    "command",
    [
        command if command in QUICK else pytest.param(command, marks=pytest.mark.slow)
        for command in cli.COMMANDS
    ],
)
def test_its_example_works_when_it_is_pasted(capsys, monkeypatch, tmp_path, command):
    """The shell takes the lines as they are printed, and the command does its work."""
    monkeypatch.setenv("COLUMNS", "80")
    pasted = help_of(capsys, command).partition("example:\n")[2]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {pasted}"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert words == shlex.split(about(options(command))[1])
    assert words[: len(command.split()) + 1] == ["kvtheory", *command.split()]
    monkeypatch.chdir(tmp_path)
    if block := re.search(r"as (\S+):\n\n((?: {4}.*\n)+)", inspect.getdoc(options(command)) or ""):
        (tmp_path / block[1]).write_text(block[2].replace("    ", ""))
    assert cli.main(words[1:]) == cli.OK
    told = capsys.readouterr()
    assert told.out or command == "trace convert"
    assert (tmp_path / "hard.jsonl").exists() == ("hard.jsonl" in words)


def test_exit_codes_are_all_told(capsys):
    """In the help, in the documentation, and no others."""
    names = ("OK", "FAILED", "BAD_INPUT", "INTERRUPTED", "BROKEN_PIPE", "TERMINATED")
    codes = sorted(getattr(cli, name) for name in names)
    assert codes == [0, 1, 2, 130, 141, 143] == sorted(cli.EXIT_CODES)
    cli.main(["--help"])
    listed = capsys.readouterr().out.partition("exit codes:\n")[2].partition("\n\n")[0]
    assert [int(line.split()[0]) for line in listed.splitlines()] == codes
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", TOLD, re.MULTILINE)
    assert [int(code) for code, _ in rows] == codes
    assert [what for _, what in rows] == [cli.EXIT_CODES[code] for code in codes]


def test_the_trees_that_are_completed_are_those_there_are():
    assert dict(sorted(_KINDS.items())) == TREES


@pytest.mark.parametrize("command", ["", "trace convert", "simulate"])
def test_nothing_heavy_is_imported(command):
    heavy = ["cvxpy", "jax", "matplotlib", "numpy", "scipy", "typeguard"]
    code = (
        f"import sys; from kvtheory.cli import main; main({[*command.split(), '--help']});"
        f"heavy = set({heavy}) & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.slow
def test_it_is_quick():
    def seconds(*arguments: str) -> float:  # of the processor, so that a busy one does not count
        begin = os.times()
        line = [sys.executable, "-m", "kvtheory", *arguments]
        subprocess.run(line, check=True, capture_output=True)
        end = os.times()
        return sum(end[2:4]) - sum(begin[2:4])

    assert min(seconds("--help") for _ in range(5)) < 0.3
    for command in cli.COMMANDS:
        assert min(seconds(*command.split(), "--help") for _ in range(3)) < 0.5
