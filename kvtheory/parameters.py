"""Policies written as text: a name, and parameters after a colon."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping

from kvtheory.errors import InputError, bad, unknown


def parameters_of(kind: type) -> dict[str, object]:
    """The hyper-parameters of a policy that can be written as text, with their defaults."""
    hints = typing.get_type_hints(kind)
    return {
        f.name: f.default
        for f in dataclasses.fields(kind)
        if f.init and not isinstance(hints[f.name], types.UnionType)
    }


def parse[T](text: str, kinds: Mapping[str, type[T]], what: str) -> T:
    """The policy written as ``name`` or ``name:parameter=value,…``.

    Where a value is other policies, they are joined by ``+``; one with parameters of its own is in
    brackets.

    Parameters
    ----------
    text
        What was written.
    kinds
        The policies by name.
    what
        What they are called in errors.

    Raises
    ------
    InputError
        For an unknown name or parameter, with the nearest known ones, or a bad value.
    """
    name, _, rest = text.strip().partition(":")
    if name not in kinds:
        raise unknown(what, name, kinds)
    defaults = parameters_of(kinds[name])
    values: dict[str, object] = {}
    for item in filter(None, (part.strip() for part in split(rest, ","))):
        key, equals, value = item.partition("=")
        if key not in defaults:
            if not defaults:
                raise InputError(f"{what} {name!r} has no parameters, but got {item!r}")
            raise unknown(f"parameter of {name!r}", key, defaults)
        if not equals:
            raise bad(key, None, f"needs a value: {name}:{key}=…")
        if isinstance(defaults[key], tuple):
            parts = [unbracketed(part.strip()) for part in split(value, "+")] if value else []
            values[key] = tuple(parse(part, kinds, what) for part in parts)
        else:
            values[key] = _value(key, value, defaults[key])
    return kinds[name](**values)


def parse_speeds(name: str, text: str | None, workers: int) -> list[float] | None:
    """Numbers as ``1,1,0.5,2``, one for each worker."""
    if text is None:
        return None
    rule = f"needs a positive number for each of {workers} workers: 1,1,0.5,2"
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise bad(name, text, rule) from None
    if len(values) != workers or not all(0 < value < math.inf for value in values):
        raise bad(name, text, rule)
    return values


def label(policy: typing.Any) -> str:
    """The name of a policy with the parameters that differ from their defaults, as `parse` reads.

    Examples
    --------
    >>> from kvtheory.eviction import policy
    >>> label(policy("rlt:phase=token")), label(policy("rlt:phase=query"))
    ('rlt', 'rlt:phase=query')
    >>> from kvtheory.routing import router
    >>> label(router("hedge:eta=0.05,experts=[lbgr:target=latency]+max_hit"))
    'hedge:experts=[lbgr:target=latency]+max_hit'
    """
    defaults = parameters_of(type(policy))
    given = {key: getattr(policy, key) for key in defaults}
    return call(policy.name, {k: v for k, v in given.items() if v != defaults[k]})


def call(name: str, values: Mapping[str, object]) -> str:
    """A policy with some parameters, as `parse` reads it."""
    told = [f"{key}={written(value)}" for key, value in values.items()]
    return f"{name}:{','.join(told)}" if told else name


def written(value: object) -> str:
    """The value of a parameter, as `parse` reads it."""
    if not isinstance(value, tuple):
        return str(value)
    labels = [label(policy) for policy in value]
    return "+".join(f"[{text}]" if ":" in text else text for text in labels)


def split(text: str, at: str) -> list[str]:
    """The parts of a text between the separators outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise bad("brackets", text, "must be closed")
    return parts


def unbracketed(text: str) -> str:
    """The text without the brackets around it, if there are any."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def _value(key: str, text: str, default: object) -> object:
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
