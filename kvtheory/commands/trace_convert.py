"""``kvtheory trace convert``: a request sequence in another format."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from kvtheory.commands.output import check_files, naming
from kvtheory.commands.source import SourceOptions


@dataclass(frozen=True, kw_only=True)
class Options(SourceOptions):
    """Write a trace or a generated instance in another format.

    The suffix of the target decides: .npz and .jsonl hold everything, .tokens and .trace the ids
    alone; .gz or .xz after it compresses. An existing file is kept unless --force is given.
    Two formats are for benchmarks of real servers: mooncake (times, lengths and block hashes, for
    replayers of Mooncake traces) and prompts (JSON lines with text whose shared prefixes are real).

    Example: kvtheory trace convert zipf:requests=1000,block_size=16,length=8 hard.jsonl --to
    mooncake --rate 2 --output-tokens 128
    """

    target: Annotated[str, Positional, arg(metavar="TARGET")]
    """The file to write."""
    to: str = "auto"
    """Format to write, if the suffix does not tell: jsonl, mooncake, npz, prompts, requests,
    tokens."""
    rate: float | None = None
    """Queries per second: Poisson arrivals, in place of the source's own."""
    seed: int = 0
    """Seed of the arrivals."""
    output_tokens: int | None = None
    """Output tokens of every query, in place of the source's own."""
    drop: tuple[Literal["arrival", "input_length", "output_length", "end", "warm"], ...] = ()
    """What to leave out because the format has no place for it."""
    force: bool = False
    """Replace an existing file."""


def run(options: Options) -> int:
    """Write the file."""
    from kvtheory.errors import InputError
    from kvtheory.instances.timed import timed
    from kvtheory.traces import write

    check_files(target=options.target)
    if Path(options.target).exists() and not options.force:
        raise InputError(f"{options.target} exists; pass --force to replace it")
    instance = options.instance()
    if options.drop:
        dropped: dict[str, Any] = dict.fromkeys(options.drop)
        instance = replace(instance, **dropped)
    if options.rate is not None or options.output_tokens is not None:
        instance = timed(instance, options.rate, options.output_tokens, options.seed)
    with naming(options.target):
        write(instance, options.target, options.to)
    size = Path(options.target).stat().st_size
    print(f"{options.target}: {instance.requests:,} requests, {size:,} bytes", file=sys.stderr)
    return 0
