"""Tables of what is registered: the directive ``catalogue``.

``{catalogue} eviction`` lists the eviction policies, ``routing`` the routers, ``instances`` the
generators and ``commands`` the commands, each with what it rests on.
"""

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from kvtheory.cite import works
from kvtheory.cli import COMMANDS
from kvtheory.eviction import POLICIES
from kvtheory.instances import GENERATORS
from kvtheory.routing import ROUTERS


def first_line(thing: object) -> str:
    """The summary of a docstring, as MyST."""
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")


def cited(name: str) -> str:
    """Citations of the works behind a name."""
    keys = works(name)
    return f"{{cite}}`{','.join(keys)}`" if keys else "–"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in MyST."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def policies(kinds: dict[str, type]) -> str:
    """Policies with guarantee and works."""
    rows = [
        (f"`{name}`", first_line(kind), kind.guarantee, cited(name)) for name, kind in kinds.items()
    ]
    return table(("name", "what it does", "guarantee", "works"), rows)


def generators() -> str:
    """Generators with parameters and works."""
    rows = [
        (f"`{name}`", first_line(made), ", ".join(_parameters(made)), cited(name))
        for name, made in GENERATORS.items()
    ]
    return table(("name", "what it makes", "parameters", "works"), rows)


def _parameters(made: object) -> Iterator[str]:
    for parameter in inspect.signature(made).parameters.values():  # type: ignore[arg-type]
        yield f"`{parameter.name}={parameter.default}`"


def commands() -> str:
    """Every command with its options."""
    parts = []
    for name, (module, _) in COMMANDS.items():
        options = importlib.import_module(f"kvtheory.commands.{module}").Options
        what, _, example = (inspect.getdoc(options) or "").partition("Example:")
        parts += [f"## `kvtheory {name}`", what.strip()]
        if example:
            parts.append(f"```text\n{' '.join(example.split())}\n```")
        rows = list(_options(options))
        if rows:
            parts.append(table(("option", "default", "meaning"), rows))
    return "\n\n".join(parts)


def _options(options: type) -> Iterator[tuple[str, ...]]:
    told: dict[str, str] = {}
    for kind in reversed(options.__mro__[:-1]):
        docs = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
        told |= {
            key: " ".join(text) for (owner, key), text in docs.items() if owner == kind.__name__
        }
    hints = typing.get_type_hints(options)
    positional = typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        place = "Positional" in str(positional[field.name])
        name = field.name.upper() if place else f"--{field.name.replace('_', '-')}"
        choices = "|".join(map(str, _choices(hints[field.name])))
        yield f"`{name}`" + (f" `{choices}`" if choices else ""), _default(field), told[field.name]


def _choices(hint: object) -> tuple[object, ...]:
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    return next((c for part in typing.get_args(hint) if (c := _choices(part))), ())


def _default(field: dataclasses.Field) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        return "required"
    if value is None or value is False or value == ():
        return "–"
    return f"`{' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


TEXTS = {
    "eviction": lambda: policies(POLICIES),
    "routing": lambda: policies(ROUTERS),
    "instances": generators,
    "commands": commands,
}


class Catalogue(SphinxDirective):
    """One of the tables."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, parsed."""
        name = self.arguments[0]
        if name not in TEXTS:
            raise self.error(f"no catalogue {name}; known: {', '.join(TEXTS)}")
        return self.parse_text_to_nodes(TEXTS[name](), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, object]:
    """Register with Sphinx."""
    app.add_directive("catalogue", Catalogue)
    # JAX runs threads by now, and a process that forks with threads hangs
    return {"parallel_read_safe": False, "parallel_write_safe": False}
