"""Counterexamples on disk: written as instances, read back and replayed by the driver."""

from collections.abc import Sequence
from pathlib import Path

from kvtheory.instance import Instance
from proofs_check.claim import Counterexample

FOLDER = Path(__file__).parent / "counterexamples"


def save(found: Sequence[tuple[str, Counterexample]], folder: Path) -> list[Path]:
    """Write each counterexample as ``claim-<id>.jsonl``, in the project's own format."""
    from kvtheory.traces import write

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for claim, counterexample in found:
        paths.append(folder / f"claim-{claim}.jsonl")
        write(counterexample.instance(f"claim {claim}"), paths[-1])
    return paths


def load(claim: str, folder: Path = FOLDER) -> Instance:
    """The counterexample to a claim; its capacity and numbers are among its parameters."""
    from kvtheory.traces import read

    return read(folder / f"claim-{claim}.jsonl")


def replay(instance: Instance) -> dict[str, list[int]]:
    """Hits of each query in the driver, with the policies that the counterexample names."""
    from kvtheory.eviction import policy
    from kvtheory.simulate import simulate

    parameters = instance.parameters
    capacity = int(parameters["capacity"])  # type: ignore[call-overload]
    policies = parameters["replayed"] or ["llru"]
    return {
        name: simulate(instance, capacity, policy(name)).hits[0].tolist()
        for name in policies  # type: ignore[attr-defined]
    }
