"""``kvtheory trace convert``: a request sequence in another format."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from kvtheory.commands.source import SourceOptions


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """Write a trace or a generated instance in another format.

    The suffix of the target decides: .npz and .jsonl hold everything, .tokens and .trace the ids
    alone; .gz or .xz after it compresses. An existing file is kept unless --force is given.

    Example: kvtheory trace convert zipf:requests=1000 zipf.jsonl.gz
    """

    target: Annotated[str, Positional, arg(metavar="TARGET")]
    """The file to write."""
    to: str = "auto"
    """Format to write, if the suffix does not tell: jsonl, mooncake, npz, requests, tokens."""
    force: bool = False
    """Replace an existing file."""


def run(options: Options) -> int:
    """Write the file."""
    from kvtheory.errors import InputError
    from kvtheory.traces import write

    if Path(options.target).exists() and not options.force:
        raise InputError(f"{options.target} exists; pass --force to replace it")
    instance = options.instance()
    write(instance, options.target, options.to)
    size = Path(options.target).stat().st_size
    print(f"{options.target}: {instance.requests:,} requests, {size:,} bytes", file=sys.stderr)
    return 0
