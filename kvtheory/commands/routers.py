"""``kvtheory routers``: every router with its guarantee and source."""

from dataclasses import dataclass

from kvtheory.commands.output import print_json
from kvtheory.report.table import Column, table


@dataclass(frozen=True)
class Options:
    """List every router with its guarantee and source.

    Example: kvtheory routers --json
    """

    json: bool = False
    """Print a list of JSON objects."""


def rows() -> list[dict[str, object]]:
    """One entry per router, by name."""
    from kvtheory.parameters import parameters_of
    from kvtheory.routing import ROUTERS

    return [
        {
            "router": name,
            "parameters": parameters_of(router),
            "randomised": router.randomised,
            "guarantee": router.guarantee,
            "source": router.source,
        }
        for name, router in sorted(ROUTERS.items())
    ]


def run(options: Options) -> int:
    """Print the list."""
    listed = rows()
    if options.json:
        print_json(listed)
        return 0
    columns = [
        Column("router", right=False),
        Column("random", right=False),
        Column("guarantee", right=False),
        Column("source", right=False),
    ]
    body = [
        [
            _call(row),
            "yes" if row["randomised"] else "no",
            str(row["guarantee"]),
            str(row["source"]),
        ]
        for row in listed
    ]
    print(table(columns, body))
    return 0


def _call(row: dict[str, object]) -> str:
    told = [f"{k}={v}" for k, v in row["parameters"].items()]  # type: ignore[attr-defined]
    return f"{row['router']}:{','.join(told)}" if told else str(row["router"])
