"""``kvtheory policies``: every eviction policy with its guarantee and source."""

from dataclasses import dataclass

from kvtheory.commands.output import print_json
from kvtheory.report.table import Column, table


@dataclass(frozen=True)
class Options:
    """List every eviction policy with its guarantee and source.

    Example: kvtheory policies --json
    """

    json: bool = False
    """Print a list of JSON objects."""


def rows() -> list[dict[str, object]]:
    """One entry per policy, by name."""
    from kvtheory.eviction import POLICIES
    from kvtheory.parameters import parameters_of

    return [
        {
            "policy": name,
            "parameters": parameters_of(policy),
            "randomised": policy.randomised,
            "online": policy.online,
            "guarantee": policy.guarantee,
            "source": policy.source,
        }
        for name, policy in sorted(POLICIES.items())
    ]


def run(options: Options) -> int:
    """Print the list."""
    listed = rows()
    if options.json:
        print_json(listed)
        return 0
    columns = [
        Column("policy", right=False),
        Column("random", right=False),
        Column("guarantee", right=False),
        Column("source", right=False),
    ]
    body = [
        [
            _call(row),
            "yes" if row["randomised"] else "no",
            str(row["guarantee"]) + ("" if row["online"] else " (sees the future)"),
            str(row["source"]),
        ]
        for row in listed
    ]
    print(table(columns, body))
    return 0


def _call(row: dict[str, object]) -> str:
    told = [f"{k}={v}" for k, v in row["parameters"].items()]  # type: ignore[attr-defined]
    return f"{row['policy']}:{','.join(told)}" if told else str(row["policy"])
