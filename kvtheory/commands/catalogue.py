"""Lists of policies: what each is called with, its guarantee and its source."""

from collections.abc import Mapping
from typing import Any

from kvtheory.commands.output import print_json
from kvtheory.report.table import Column, table


def rows(what: str, kinds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry per policy, by name; ``what`` is the key of the name."""
    from kvtheory.parameters import parameters_of, written

    return [
        {
            what: name,
            "parameters": {
                key: written(value) if isinstance(value, tuple) else value
                for key, value in parameters_of(kind).items()
            },
            "randomised": kind.randomised,
            "online": getattr(kind, "online", True),
            "guarantee": kind.guarantee,
            "source": kind.source,
        }
        for name, kind in sorted(kinds.items())
    ]


def show(what: str, kinds: Mapping[str, Any], json: bool) -> int:
    """Print the list as a table or as JSON; returns the exit code."""
    from kvtheory.parameters import call

    listed = rows(what, kinds)
    if json:
        print_json(listed)
        return 0
    columns = [Column(name, right=False) for name in (what, "random", "guarantee", "source")]
    body = [
        [
            call(row[what], row["parameters"]),
            "yes" if row["randomised"] else "no",
            row["guarantee"] + ("" if row["online"] else " (sees the future)"),
            row["source"],
        ]
        for row in listed
    ]
    print(table(columns, body))
    return 0
