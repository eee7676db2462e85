"""``kvtheory generators``: every generator of instances with its parameters."""

import inspect
from dataclasses import dataclass

from kvtheory.commands.output import print_json


@dataclass(frozen=True)
class Options:
    """List every generator of instances with its parameters and their defaults.

    Example: kvtheory generators --json
    """

    json: bool = False
    """Print a list of JSON objects."""


def rows() -> list[dict[str, object]]:
    """One entry per generator, by name."""
    from kvtheory.instances import GENERATORS

    return [
        {
            "generator": name,
            "parameters": {
                key: parameter.default
                for key, parameter in inspect.signature(make).parameters.items()
            },
            "about": (inspect.getdoc(make) or "").partition("\n")[0],
        }
        for name, make in sorted(GENERATORS.items())
    ]


def run(options: Options) -> int:
    """Print the list."""
    listed = rows()
    if options.json:
        print_json(listed)
        return 0
    for row in listed:
        told = ",".join(
            f"{key}={_text(value)}"
            for key, value in row["parameters"].items()  # type: ignore[attr-defined]
        )
        print(f"{row['generator']}:{told}\n    {row['about']}")
    return 0


def _text(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
