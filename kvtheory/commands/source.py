"""The option that most commands begin with: where the requests come from."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from kvtheory.errors import InputError

if TYPE_CHECKING:
    from kvtheory.instance import Instance


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the requests come from."""

    source: Annotated[str, Positional, arg(metavar="SOURCE")]
    """A trace file, or a generator with parameters: shared_prefix:groups=128,prompts=32
    (kvtheory generators lists them)."""
    format: str = "auto"
    """Format of a trace file: azure, jsonl, mooncake, npz, prompts, requests, tokens; auto goes by
    its content."""
    ids: Literal["auto", "global", "local"] = "auto"
    """In a trace file: does an id name a whole prefix (global), or only a unit below its prefix
    (local)? auto: as the format has it."""
    block_size: int | None = None
    """Tokens in one unit of a trace file; by default as the format has it."""

    def instance(self) -> "Instance":
        """Read the file or run the generator."""
        if os.path.isdir(self.source):
            raise InputError(f"{self.source}: is a folder; name a trace file in it")
        from kvtheory.instances import source

        ids = None if self.ids == "auto" else self.ids
        return source(self.source, self.format, ids, self.block_size, progress=True)
