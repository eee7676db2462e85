"""``kvtheory routers``: every router with its guarantee and source."""

from dataclasses import dataclass

from kvtheory.commands.catalogue import show


@dataclass(frozen=True)
class Options:
    """List every router with its guarantee and source.

    Example: kvtheory routers --json
    """

    json: bool = False
    """Print a list of JSON objects."""


def run(options: Options) -> int:
    """Print the list."""
    from kvtheory.routing import ROUTERS

    return show("router", ROUTERS, options.json)
