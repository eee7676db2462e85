"""What is changed in docstrings before they are parsed.

They write |q| and |T| as mathematics does, which reStructuredText reads as a substitution; and the
fields of a named tuple come with a text that says nothing.
"""

import re

from sphinx.application import Sphinx

LITERAL = re.compile(r"(``.*?``|`.*?`)")


def tidy(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Escape bars outside of literals and code, in place; drop the text of fields."""
    if len(lines) <= 2 and lines and lines[0].startswith("Alias for field number"):
        lines.clear()
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = LITERAL.split(line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[i] = "".join(parts)


def setup(app: Sphinx) -> dict[str, object]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", tidy, priority=900)
    return {"parallel_read_safe": True}
