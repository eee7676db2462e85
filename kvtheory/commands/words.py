"""All the words that a shell can complete: commands, options, names of policies and the like."""

import importlib
import inspect
from dataclasses import dataclass

from kvtheory.commands.option import Option, options_of

# what is a file or a folder, by what a value is called
FILES = ("FILE", "FILE.html", "GRID.toml", "SOURCE", "SOURCE|DIR", "TARGET", "[FILE]")
FOLDERS = ("DIR",)
TREES: dict[str, tuple[str, ...]] = {
    "broom": ("L", "leaves"),
    "chains": ("n", "length"),
    "parents": (),
    "star": ("leaves",),
}


@dataclass(frozen=True)
class Vocabulary:
    """What can be completed."""

    commands: dict[str, str]
    """What each command does; the name of some is two words."""
    options: dict[str, list[Option]]
    """The options of each command, arguments that go by their place first."""
    names: dict[str, dict[str, tuple[str, ...]]]
    """By what a value is called (POLICY, ROUTER, SOURCE, …): the names, with their parameters."""

    def groups(self) -> dict[str, dict[str, str]]:
        """By the first word of the commands of two words: the second ones, and what they do."""
        found: dict[str, dict[str, str]] = {}
        for name, what in self.commands.items():
            first, _, second = name.partition(" ")
            if second:
                found.setdefault(first, {})[second] = what
        return found

    def first_words(self) -> dict[str, str]:
        """The first words of the commands, and what they do."""
        groups = self.groups()
        return {
            first: ", ".join(groups[first]) if first in groups else what
            for name, what in self.commands.items()
            for first in [name.split()[0]]
        }


def vocabulary() -> Vocabulary:
    """Everything that is registered."""
    from kvtheory.bench.cases import CASES
    from kvtheory.cli import COMMANDS
    from kvtheory.eviction import POLICIES
    from kvtheory.instances import GENERATORS
    from kvtheory.parameters import parameters_of
    from kvtheory.routing import ROUTERS
    from kvtheory.traces import FORMATS
    from proofs_check.registry import CLAIMS

    options = {
        name: options_of(importlib.import_module(f"kvtheory.commands.{module}").Options)
        for name, (module, _) in COMMANDS.items()
    }
    policies = {name: tuple(parameters_of(kind)) for name, kind in sorted(POLICIES.items())}
    routers = {name: tuple(parameters_of(kind)) for name, kind in sorted(ROUTERS.items())}
    sources = {
        name: tuple(inspect.signature(make).parameters) for name, make in sorted(GENERATORS.items())
    }
    return Vocabulary(
        commands={name: what for name, (_, what) in COMMANDS.items()},
        options=options,
        names={
            "POLICY": policies,
            "ROUTER": routers,
            "POLICY|ROUTER": policies | routers,
            "SOURCE": sources,
            "SOURCE|DIR": sources,
            "NAME|search": sources | {"search": ()},
            "TREE": TREES,
            "FORMAT": dict.fromkeys(("auto", *FORMATS), ()),
            "CASE": dict.fromkeys(CASES, ()),
            "CLAIM": {claim.id: () for claim in CLAIMS},
            "UNIT": {"all": (), "leaves": ()},
        },
    )
