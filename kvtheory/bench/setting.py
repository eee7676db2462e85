"""What all cases of the benchmark need: the instances, and how often to measure."""

import os
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jax

from kvtheory.eviction import policy
from kvtheory.instance import Instance
from kvtheory.instances import shared_prefix
from kvtheory.result import Result
from kvtheory.simulate import simulate
from kvtheory.traces import read

TOKENS = 192_000  # capacity on the shared-prefix instance
BLOCKS = 10_000  # capacity on the conversation trace, blocks of 512 tokens


@dataclass(frozen=True)
class Setting:
    """What all cases need.

    Parameters
    ----------
    repeats
        Runs of each measurement.
    trace
        The Mooncake conversation trace, None if it is not at hand.
    """

    repeats: int = 5
    trace: Path | None = None

    @cached_property
    def gsp(self) -> Instance:
        """4,096 prompts of 512-8,192 tokens in blocks of 16, half of each shared by 32."""
        return shared_prefix(block_size=16)

    @cached_property
    def gsp_tokens(self) -> Instance:
        """The same, a unit a token."""
        return shared_prefix(block_size=1)

    @cached_property
    def small(self) -> Instance:
        """A small one of the same kind, for plain Python."""
        return shared_prefix(groups=16, prompts=8, block_size=16)

    @cached_property
    def conversation(self) -> Instance | None:
        """The conversation trace."""
        return None if self.trace is None else read(self.trace)

    @property
    def workloads(self) -> list[tuple[str, Instance, int]]:
        """Name, instance and capacity in units of what rivals are measured on."""
        out = [("block 16", self.gsp, TOKENS // 16)]
        if self.conversation is not None:
            out.append(("conversation", self.conversation, BLOCKS))
        return out

    def runs(self, instance: Instance, capacity: int, text: str, seeds: int = 1) -> list[Result]:
        """Runs of a policy; the first has compiled, if anything had to be."""
        return [
            simulate(instance, capacity, policy(text), seeds=seeds, oversize="truncate")
            for _ in range(self.repeats + 1)
        ]


def default_trace() -> Path | None:
    """The conversation trace named by KVTHEORY_TRACES or lying in ``../shared/traces``."""
    folder = Path(os.environ.get("KVTHEORY_TRACES", "../shared/traces"))
    path = folder / "mooncake" / "conversation_trace.jsonl.gz"
    return path if path.is_file() else None


def whole_runs(
    setting: Setting, instance: Instance, capacity: int, text: str, seeds: int = 1
) -> tuple[list[float], float, Result]:
    """Seconds of each run from the instance to the result, compiling apart, and the last result."""
    rule, times = policy(text), []
    result = simulate(instance, capacity, rule, seeds=seeds, oversize="truncate")
    compiling = result.compile_seconds
    for i in range(setting.repeats):
        begin = time.perf_counter()
        key = jax.random.key(i)
        result = simulate(instance, capacity, rule, seeds=seeds, key=key, oversize="truncate")
        times.append(time.perf_counter() - begin - result.compile_seconds)
    return times, compiling, result
