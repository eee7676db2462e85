"""Checks what was typed against the options of a command, before anything is parsed."""

import difflib
from collections.abc import Iterator, Sequence

from kvtheory.commands.option import Option
from kvtheory.errors import InputError

KINDS = {int: "a whole number", float: "a number"}


def check(arguments: Sequence[str], options: Sequence[Option]) -> None:
    """Whether the arguments are some that the command takes.

    Parameters
    ----------
    arguments
        What was typed after the name of the command.
    options
        The options of the command.

    Raises
    ------
    InputError
        Naming the first argument that is not, and what to write in its place.
    """
    named = {name: option for option in options for name in option.names}
    places = [option for option in options if not option.names]
    given: set[Option] = set()
    several = False
    for name, values in _grouped(arguments, named):
        if name is None:
            if len(values) > len(places):
                raise InputError(f"{values[len(places)]!r} is one argument too many")
            for place, value in zip(places, values, strict=False):
                _check_values(place.value, [value], place)
                given.add(place)
            continue
        if name not in named:
            raise _unknown(name, named)
        given.add(named[name])
        several |= named[name].many
        _check_values(name, values, named[name])
    missing = [option for option in options if option.default is None and option not in given]
    if missing:
        hint = ""
        if several and not missing[0].names:
            hint = "; it goes before the options that take several values"
        raise InputError(f"missing: {', '.join(map(_written, missing))}{hint}")


def _grouped(
    arguments: Sequence[str], named: dict[str, Option]
) -> Iterator[tuple[str | None, list[str]]]:
    """Each option with its values, then under None the arguments that go by their place."""
    places: list[str] = []
    i = 0
    while i < len(arguments):
        name, equals, value = arguments[i].partition("=")
        i += 1
        if not _is_option(name, named):
            places.append(arguments[i - 1])
            continue
        if name.startswith("--"):
            name = name.replace("_", "-")
        values = [value] if equals else []
        option = named.get(name)
        most = 0 if option is None or option.kind is bool else 1
        while i < len(arguments) and not _is_option(arguments[i].partition("=")[0], named):
            if option is None or not (option.many or len(values) < most):
                break
            values.append(arguments[i])
            i += 1
        yield name, values
    yield None, places


def _is_option(word: str, named: dict[str, Option]) -> bool:
    """A negative number is none, nor is ``-`` for standard output."""
    return word in named or (word.startswith("-") and word.lstrip("-")[:1].isalpha())


def _check_values(name: str, values: list[str], option: Option) -> None:
    if option.kind is bool:
        if values:
            raise InputError(f"{name} takes no value, but got {values[0]!r}")
        return
    if not values and not option.many:
        raise InputError(f"{name} needs a value: {' or '.join(option.choices) or option.value}")
    for value in values:
        if option.choices and value not in option.choices:
            near = difflib.get_close_matches(value, option.choices, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{name} = {value!r}: must be {' or '.join(option.choices)}{hint}")
        if option.kind in KINDS:
            try:
                option.kind(value)
            except ValueError:
                raise InputError(f"{name} = {value!r}: must be {KINDS[option.kind]}") from None


def _unknown(name: str, named: dict[str, Option]) -> InputError:
    near = difflib.get_close_matches(name, named, n=3)
    hint = f": did you mean {' or '.join(near)}?" if near else ""
    return InputError(f"unknown option {name!r}{hint}")


def _written(option: Option) -> str:
    return " ".join([*option.names[:1], option.value])
