"""The help of one command: what it does, its options with units and defaults, an example."""

import re
import shutil
import textwrap
from collections.abc import Iterable

from kvtheory.commands.option import Option, about, options_of

MARGIN = 22  # where the texts of the options begin
WIDEST = 100
NARROWEST = 40
KEPT = "\0"  # a space at which a line does not end


def help_text(name: str, options: type) -> str:
    """What ``kvtheory NAME --help`` prints, wrapped to the terminal.

    Parameters
    ----------
    name
        Of the command.
    options
        Its ``Options``.
    """
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))
    listed = options_of(options)
    places = [option for option in listed if not option.names]
    needed = [option for option in listed if option.names and option.default is None]
    usage = " ".join(
        [f"usage: kvtheory {name}", *map(_written, places), *map(_written, needed), "[OPTIONS]"]
    )
    told, example = about(options)
    parts = [_wrapped(usage, width, "       ")]
    for paragraph in told.split("\n\n"):  # an indented one stays as it is
        parts.append(paragraph if paragraph[:1].isspace() else _wrapped(paragraph, width))
    if places:
        parts.append("\n".join(["arguments:", *_lines(places, width)]))
    parts.append("\n".join(["options:", *_lines(listed[len(places) :], width), _HELP]))
    if example:
        parts.append("example:\n" + _shell(example, width))
    return "\n\n".join(parts)


_HELP = f"  {'-h, --help':{MARGIN - 3}} show this"


def _lines(options: Iterable[Option], width: int) -> Iterable[str]:
    for option in options:
        head = f"  {_written(option)}"
        text = option.about
        if option.default:
            text += f" (default: {option.default})"
        elif option.default is None and option.names:
            text += " (needed)"
        indent = " " * (MARGIN if width >= 60 else 6)
        body = textwrap.wrap(text, width - len(indent), break_on_hyphens=False)
        if len(head) < len(indent) and body:
            yield f"{head:{len(indent)}}{body.pop(0)}"
        else:
            yield head
        yield from (indent + line for line in body)


def _written(option: Option) -> str:
    """As in ``--out FILE, -o FILE``, shortly: ``-o, --out FILE``."""
    value = option.value + ("..." if option.many else "")
    return " ".join([", ".join(reversed(option.names)), value]).strip()


def _wrapped(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), width, subsequent_indent=indent)


def _shell(command: str, width: int) -> str:
    """A command over several lines that a shell takes as one, broken where an option begins."""
    parts = re.sub(r" (?!--?[a-z])", KEPT, command)
    lines = textwrap.wrap(
        parts,
        width - 4,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines).replace(KEPT, " ")
