"""KV-cache eviction on prefix trees: policies, the offline optimum, competitive ratios.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib

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


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("kvtheory")
        except PackageNotFoundError:  # run from a source tree that is not installed
            return "0+unknown"
    if name == "cite":
        return importlib.import_module("kvtheory.cite")  # a module that is called
    raise AttributeError(f"module 'kvtheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
