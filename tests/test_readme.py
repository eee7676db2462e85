"""Every command and snippet of the README does what it says it does: it runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


LINES = [line for block in blocks("bash") for line in block.splitlines() if line.strip()]
COMMANDS = [line for line in LINES if line.startswith("kvtheory ")]
TARGETS = [line.split("#")[0].strip() for line in LINES if line.startswith("make")]


def run(command: list[str] | str, folder: Path) -> str:
    env = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    told = subprocess.run(
        command, cwd=folder, env=env, shell=isinstance(command, str), capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_every_line_is_checked():
    assert len(COMMANDS) + len(TARGETS) == len(LINES)
    assert COMMANDS
    assert blocks("python")


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, tmp_path):
    assert run(command, tmp_path)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("snippet", blocks("python"))
def test_snippet(snippet, tmp_path):
    assert run([sys.executable, "-c", snippet], tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_make_target_exists(target):
    asked = target.split()[1:]
    listed = run("make help", ROOT)
    for name in asked:
        assert f"make {name} " in listed
        run(f"make --dry-run {name}", ROOT)


def test_links_lead_somewhere():
    paths = re.findall(r"\]\((?!http)([^)#]+)", TEXT)
    assert paths
    for path in paths:
        assert (ROOT / path).is_file(), path
