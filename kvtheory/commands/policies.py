"""``kvtheory policies``: every eviction policy with its guarantee and source."""

from dataclasses import dataclass

from kvtheory.commands.catalogue import show


@dataclass(frozen=True)
class Options:
    """List every eviction policy with its guarantee and source.

    Example: kvtheory policies --json
    """

    json: bool = False
    """Print a list of JSON objects."""


def run(options: Options) -> int:
    """Print the list."""
    from kvtheory.eviction import POLICIES

    return show("policy", POLICIES, options.json)
