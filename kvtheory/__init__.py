"""KV-cache eviction on prefix trees: policies, the offline optimum, competitive ratios.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
from importlib.metadata import PackageNotFoundError, version

_HOME = {
    "Cluster": "kvtheory.cluster",
    "InputError": "kvtheory.errors",
    "Instance": "kvtheory.instance",
    "PrefixCache": "kvtheory.online",
    "PrefixTree": "kvtheory.tree",
    "Result": "kvtheory.result",
    "Router": "kvtheory.online",
}

__all__ = [
    "Cluster",
    "InputError",
    "Instance",
    "PrefixCache",
    "PrefixTree",
    "Result",
    "Router",
    "cite",
]

try:
    __version__ = version("kvtheory")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "cite":
        return importlib.import_module("kvtheory.cite")  # a module that is called
    raise AttributeError(f"module 'kvtheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
