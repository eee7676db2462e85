"""The options of a command as data: help prints them and a shell completes them."""

import ast
import dataclasses
import inspect
import itertools
import sys
import types
import typing
from dataclasses import dataclass

# What a value is, where the annotation of its option does not say: by name of the option.
VALUES = {
    "against": "POLICY|ROUTER",
    "alpha_cached": "MS",
    "alpha_miss": "MS",
    "alpha_out": "MS",
    "budget": "SECONDS",
    "capacity": "CAPACITY",
    "counterexamples": "DIR",
    "detail": "CAPACITY",
    "eviction": "POLICY",
    "figure": "FILE",
    "format": "FORMAT",
    "id": "CLAIM",
    "only": "CASE",
    "optimum_seconds": "SECONDS",
    "queries": "UNIT",
    "rate": "PER_SECOND",
    "refresh": "SECONDS",
    "router": "ROUTER",
    "time_limit": "SECONDS",
    "to": "FORMAT",
    "tree": "TREE",
    "view_capacity": "CAPACITY",
    "worker_capacity": "CAPACITY",
}
PLAIN = {int: "N", float: "X", str: "TEXT"}


@dataclass(frozen=True)
class Option:
    """One option or argument of a command, as a user writes it."""

    names: tuple[str, ...]
    """``--out`` and ``-o``; nothing for an argument that goes by its place."""
    value: str
    """What the value is called; empty for a switch."""
    kind: type
    """bool, int, float or str: what a value must be."""
    choices: tuple[str, ...]
    """All values, if they are few and fixed."""
    many: bool
    """Takes several values."""
    default: str | None
    """None: it must be given; empty: nothing to tell."""
    about: str
    """What it does, in one line."""


def options_of(options: type) -> list[Option]:
    """The options of a command's ``Options``, arguments that go by their place first."""
    told = _told(options)
    listed = [_option(field, told.get(field.name, "")) for field in dataclasses.fields(options)]
    return sorted(listed, key=lambda option: bool(option.names))


def about(options: type) -> tuple[str, str]:
    """What a command does, and its example as one line (empty if it has none)."""
    text, _, example = (inspect.getdoc(options) or "").partition("Example: ")
    return text.rstrip(), " ".join(example.split())


def _option(field: dataclasses.Field, told: str) -> Option:
    hint, place, value, aliases = typing.cast(object, field.type), False, None, ()
    if typing.get_origin(hint) is typing.Annotated:
        from tyro.conf import Positional

        hint, *marks = typing.get_args(hint)
        place = Positional in marks
        for mark in marks:
            value = getattr(mark, "metavar", None) or value
            aliases = getattr(mark, "aliases", None) or aliases
    hint, many = _single(hint)
    choices = tuple(map(str, typing.get_args(hint)))
    kind = str if choices else typing.cast(type, hint)
    if kind is bool:
        value = ""
    elif value is None:
        value = "|".join(choices) or VALUES.get(field.name, PLAIN[kind])
    return Option(
        names=() if place else (f"--{field.name.replace('_', '-')}", *aliases),
        value=value,
        kind=kind,
        choices=choices,
        many=many,
        default=_default(field),
        about=told,
    )


def _single(hint: object) -> tuple[object, bool]:
    """The type of one value, and whether there may be several."""
    if isinstance(hint, types.UnionType):  # none, or a value
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    many = typing.get_origin(hint) is tuple
    return (typing.get_args(hint)[0] if many else hint), many


def _default(field: dataclasses.Field) -> str | None:
    value = field.default
    if value is dataclasses.MISSING:
        return None
    if value is None or value is False:
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _told(options: type) -> dict[str, str]:
    """The texts below the fields, by name, those of base classes included."""
    told: dict[str, str] = {}
    for owner in reversed(options.__mro__[:-1]):
        tree = ast.parse(inspect.getsource(sys.modules[owner.__module__]))
        body = next(
            node.body
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == owner.__name__
        )
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                name, value = field.target, text.value
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                    told[name.id] = " ".join(str(value.value).split())
    return told
