"""Eviction policies, one a file behind `kvtheory.cache.EvictionPolicy`."""

import dataclasses
import types
import typing

from kvtheory.cache import EvictionPolicy
from kvtheory.errors import InputError, bad, unknown
from kvtheory.eviction.belady import Belady
from kvtheory.eviction.cost_per_unit import CostPerUnit
from kvtheory.eviction.fifo import FIFO
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit
from kvtheory.eviction.lfu import LFU
from kvtheory.eviction.llru import LeafLRU
from kvtheory.eviction.marking import Marking, perturbed_next_uses
from kvtheory.eviction.mru import MRU
from kvtheory.eviction.node_lru import NodeLRU
from kvtheory.eviction.random_leaf import RandomLeaf
from kvtheory.eviction.replay import Replay
from kvtheory.eviction.rlt import RLT
from kvtheory.eviction.slru import SLRU
from kvtheory.eviction.tail_lru import TailLRU

POLICIES: dict[str, type[EvictionPolicy]] = {
    kind.name: kind
    for kind in (
        LeafLRU,
        RLT,
        RandomLeaf,
        FIFO,
        LFU,
        MRU,
        SLRU,
        CostPerUnit,
        TailLRU,
        NodeLRU,
        Marking,
        Belady,
    )
}

__all__ = [
    "FIFO",
    "LFU",
    "MRU",
    "POLICIES",
    "RLT",
    "SLRU",
    "Belady",
    "CostPerUnit",
    "EvictionPolicy",
    "KeyPolicy",
    "LeafLRU",
    "LeafUnit",
    "Marking",
    "NodeLRU",
    "RandomLeaf",
    "Replay",
    "TailLRU",
    "perturbed_next_uses",
    "policy",
]


def parameters_of(kind: type[EvictionPolicy]) -> dict[str, object]:
    """The hyper-parameters that can be written as text, with their defaults."""
    hints = typing.get_type_hints(kind)
    return {
        f.name: f.default
        for f in dataclasses.fields(kind)
        if f.init and not isinstance(hints[f.name], types.UnionType)
    }


def policy(text: str) -> EvictionPolicy:
    """The policy written as ``name`` or ``name:parameter=value,…``.

    Raises
    ------
    InputError
        For an unknown name or parameter, with the nearest known ones, or a bad value.

    Examples
    --------
    >>> policy("rlt:phase=query")
    RLT(phase='query')
    >>> policy("tail_lru:xi=8").xi
    8
    """
    name, _, rest = text.strip().partition(":")
    if name not in POLICIES:
        raise unknown("eviction policy", name, POLICIES)
    defaults = parameters_of(POLICIES[name])
    values: dict[str, object] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = item.partition("=")
        if key not in defaults:
            if not defaults:
                raise InputError(f"eviction policy {name!r} has no parameters, but got {item!r}")
            raise unknown(f"parameter of {name!r}", key, defaults)
        if not equals:
            raise bad(key, None, f"needs a value: {name}:{key}=…")
        values[key] = _parse(key, value, defaults[key])
    return POLICIES[name](**values)


def _parse(key: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise bad(key, text, "must be true or false")
        return text.lower() == "true"
    if isinstance(default, str):
        return text
    try:
        return type(default)(text)  # type: ignore[call-arg]
    except ValueError:
        raise bad(key, text, f"must be of type {type(default).__name__}") from None
