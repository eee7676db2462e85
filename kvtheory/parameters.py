"""Policies written as text: a name, and parameters after a colon."""

import dataclasses
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
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = item.partition("=")
        if key not in defaults:
            if not defaults:
                raise InputError(f"{what} {name!r} has no parameters, but got {item!r}")
            raise unknown(f"parameter of {name!r}", key, defaults)
        if not equals:
            raise bad(key, None, f"needs a value: {name}:{key}=…")
        values[key] = _value(key, value, defaults[key])
    return kinds[name](**values)


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
