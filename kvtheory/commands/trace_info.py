"""``kvtheory trace info``: what a request sequence contains."""

from dataclasses import dataclass

from kvtheory.commands.output import print_json
from kvtheory.commands.source import SourceOptions


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """What a trace or a generated instance contains: requests, units, tree, lengths, arrivals.

    Example: kvtheory trace info zipf:documents=100,requests=1000
    """

    json: bool = False
    """Print a JSON object."""


def run(options: Options) -> int:
    """Print the figures."""
    from kvtheory.traces.info import trace_info

    info = trace_info(options.instance())
    if options.json:
        print_json(info.as_dict())
        return 0
    rows = info.rows()
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:{width}}  {value}" for name, value in rows))
    return 0
