"""What tells finished cells apart: everything that can change a number of theirs."""

import hashlib
import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("kvtheory", "jax", "numpy")
# No number of a cell is theirs.
UNCONCERNED = {
    *("bench", "commands", "curve", "online", "report", "testing"),
    *("cite.py", "cli.py", "plot.py"),
}


def name_of(value: object) -> str:
    """24 hexadecimal digits of the SHA-256 of a value as canonical JSON.

    Examples
    --------
    >>> name_of({"a": 1, "b": None}) == name_of({"b": None, "a": 1}) != name_of({"a": 1.0})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that draw and compute, and a digest of this one's code.

    The code is told apart from version to version and, for those who change it, within one.
    """
    return {name: _version(name) for name in PACKAGES} | {"code": _code()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _code() -> str:
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root)
        if parts.parts[0] not in UNCONCERNED:
            digest.update(parts.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]
