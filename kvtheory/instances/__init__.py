"""Generators of request sequences, by name, and the text that calls them.

Each is a function of plain parameters: the same parameters and seed give the same bytes, and
the instance's ``source`` is the text that makes it again.

Instances that are made to lead routers astray come with a cluster: `with_cluster`, `TRAPS`.

Add one: write ``kvtheory/instances/<name>.py`` with a function ``<name>`` whose parameters are
annotated and have defaults, and list it in `GENERATORS`.
"""

import inspect
import os
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Literal, NamedTuple, get_args, get_origin

from kvtheory.cluster import Cluster
from kvtheory.errors import InputError, bad, unknown
from kvtheory.instance import Ids, Instance
from kvtheory.instances.affinity_trap import (
    affinity_trap,
    affinity_trap_cluster,
    affinity_trap_makespan,
)
from kvtheory.instances.agentic import agentic
from kvtheory.instances.cyclic_broom import cyclic_broom
from kvtheory.instances.distribution_aware import distribution_aware
from kvtheory.instances.documents import documents
from kvtheory.instances.drift import drift
from kvtheory.instances.greedy_trap import (
    greedy_trap,
    greedy_trap_cluster,
    greedy_trap_makespan,
)
from kvtheory.instances.heavy_tail import heavy_tail
from kvtheory.instances.load_trap import (
    load_trap,
    load_trap_cluster,
    load_trap_makespan,
)
from kvtheory.instances.markov import markov
from kvtheory.instances.multi_turn import multi_turn
from kvtheory.instances.partition_gadget import (
    partition_gadget,
    partition_gadget_cluster,
    partition_gadget_makespan,
)
from kvtheory.instances.shared_prefix import shared_prefix
from kvtheory.instances.timed import timed
from kvtheory.instances.tournament import (
    tournament,
    tournament_cluster,
    tournament_makespan,
)
from kvtheory.instances.worst_cycle import worst_cycle
from kvtheory.instances.yao_uniform import yao_uniform
from kvtheory.instances.zipf import zipf
from kvtheory.parameters import split, unbracketed
from kvtheory.traces import read

GENERATORS: dict[str, Callable[..., Instance]] = {
    "affinity_trap": affinity_trap,
    "agentic": agentic,
    "cyclic_broom": cyclic_broom,
    "distribution_aware": distribution_aware,
    "documents": documents,
    "drift": drift,
    "greedy_trap": greedy_trap,
    "heavy_tail": heavy_tail,
    "load_trap": load_trap,
    "markov": markov,
    "multi_turn": multi_turn,
    "partition_gadget": partition_gadget,
    "shared_prefix": shared_prefix,
    "tournament": tournament,
    "worst_cycle": worst_cycle,
    "yao_uniform": yao_uniform,
    "zipf": zipf,
}


class Trap(NamedTuple):
    """What goes with an instance made for routers; functions of the same parameters."""

    cluster: Callable[..., Cluster]
    makespan: Callable[..., float]  # the least there is


TRAPS = {
    "affinity_trap": Trap(affinity_trap_cluster, affinity_trap_makespan),
    "greedy_trap": Trap(greedy_trap_cluster, greedy_trap_makespan),
    "load_trap": Trap(load_trap_cluster, load_trap_makespan),
    "partition_gadget": Trap(partition_gadget_cluster, partition_gadget_makespan),
    "tournament": Trap(tournament_cluster, tournament_makespan),
}

__all__ = [
    "GENERATORS",
    "TRAPS",
    "Trap",
    "affinity_trap",
    "agentic",
    "cyclic_broom",
    "distribution_aware",
    "documents",
    "drift",
    "generate",
    "greedy_trap",
    "heavy_tail",
    "least_makespan",
    "load_trap",
    "markov",
    "multi_turn",
    "partition_gadget",
    "shared_prefix",
    "source",
    "timed",
    "tournament",
    "with_cluster",
    "yao_uniform",
    "zipf",
]


def generate(text: str) -> Instance:
    """The instance that a text like ``"shared_prefix:groups=128,prompts=32"`` describes.

    Values are read as the parameter is annotated; ``/`` separates those of a list, and a text with
    commas in it is in brackets.

    Raises
    ------
    InputError
        For an unknown generator or parameter, with the nearest names, or a value that does not
        fit its parameter.

    Examples
    --------
    >>> generate("shared_prefix:groups=3,prompts=2,lengths=8/16,order=grouped")
    Instance('shared_prefix', requests=6, units=48, edges=9)
    """
    name, _, rest = text.partition(":")
    if name not in GENERATORS:
        raise unknown("generator", name, GENERATORS)
    wanted = inspect.signature(GENERATORS[name]).parameters
    given: dict[str, object] = {}
    for item in filter(None, map(str.strip, split(rest, ","))):
        key, equals, value = map(str.strip, item.partition("="))
        if key not in wanted:
            raise unknown(f"parameter of {name}", key, wanted)
        if not equals:
            raise InputError(f"{text!r}: parameter {key!r} has no value; write {key}=…")
        if key in given:
            raise InputError(f"{text!r}: parameter {key!r} is given twice")
        given[key] = _value(key, unbracketed(value), wanted[key].annotation)
    return GENERATORS[name](**given)


def with_cluster(text: str) -> tuple[Instance, Cluster]:
    """An instance made for routers, and the cluster that it is made for.

    Raises
    ------
    InputError
        For a generator without a cluster, and as for `generate`.

    Examples
    --------
    >>> instance, cluster = with_cluster("greedy_trap:workers=4,unit=10")
    >>> cluster.workers, least_makespan(instance)
    (4, 11.0)
    """
    name = text.partition(":")[0].strip()
    if name in GENERATORS and name not in TRAPS:
        raise InputError(f"{name!r} comes without a cluster; those that have one: {_listed(TRAPS)}")
    instance = generate(text)
    return instance, TRAPS[name].cluster(**_arguments(instance))


def least_makespan(instance: Instance) -> float:
    """The least makespan of an instance of `TRAPS` on its cluster, which is known exactly.

    Raises
    ------
    InputError
        If it is none.
    """
    if instance.name not in TRAPS:
        raise InputError(f"{instance.name!r} is none of {_listed(TRAPS)}")
    return TRAPS[instance.name].makespan(**_arguments(instance))


def _arguments(instance: Instance) -> dict[str, object]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in instance.parameters.items()}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def source(
    text: str | os.PathLike[str],
    format: str = "auto",
    ids: Ids | None = None,
    block_size: int | None = None,
    *,
    progress: bool = False,
) -> Instance:
    """The instance in a file, if there is one of that name, or else of a generator.

    The other arguments are those of `kvtheory.traces.read` and apply to files alone.

    Raises
    ------
    InputError
        If the text is neither, or what `read` or `generate` raise.

    Examples
    --------
    >>> source("yao_uniform:capacity=3,requests=10")
    Instance('yao_uniform', requests=10, units=4, edges=4)
    """
    if os.path.isfile(text):
        return read(text, format, ids, block_size, progress=progress)
    name = str(text).partition(":")[0]
    if name not in GENERATORS and not name.isidentifier():
        raise InputError(
            f"{os.fspath(text)!r} is neither a file nor a generator; generators: "
            f"{', '.join(GENERATORS)}"
        )
    for key, value in (("format", format), ("ids", ids), ("block_size", block_size)):
        if value not in (None, "auto"):
            raise InputError(f"{key} = {value!r}: applies to files; {name!r} is a generator")
    return generate(str(text))


def _value(key: str, text: str, kind: object) -> object:
    if isinstance(kind, UnionType):
        if text in ("None", "none") and NoneType in get_args(kind):
            return None
        kind = next(k for k in get_args(kind) if k is not NoneType)
    if get_origin(kind) is tuple:
        return tuple(_value(key, part, get_args(kind)[0]) for part in text.split("/"))
    if get_origin(kind) is Literal:
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise bad(key, text, "must be true or false")
        return text.lower() == "true"
    try:
        return kind(text)  # type: ignore[operator]
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise bad(key, text, f"must be {what}") from None
