"""What the registry of claims says of a theorem: the directive ``checked-by``.

``{checked-by} 17b`` becomes a paragraph with the verdict, the scope and a link to the claim, so
that a page cannot say more than the check does. The generated page of claims gets targets to link
to.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from proofs_check.claim import Claim
from proofs_check.registry import CLAIMS

VERDICT = {
    "holds": "It holds on this scope",
    "refuted": "It is refuted by a counterexample within this scope",
    "open": "Nothing speaks against it on this scope, which is not all of it",
}


def sentence(claim: Claim) -> str:
    """The evidence behind a claim in a few sentences, as MyST."""
    quick, full = claim.scope
    more = "" if full == quick else f" In the full run: {full}."
    return (
        f"*Checked by [claim {claim.id}](#claim-{claim.id}), {claim.method}. "
        f"{VERDICT[claim.expected]}: {quick}.{more}*"
    )


class CheckedBy(SphinxDirective):
    """The paragraph of one or more claims."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """One paragraph for each id."""
        known = {claim.id: claim for claim in CLAIMS}
        wanted = self.arguments[0].split()
        if wrong := [name for name in wanted if name not in known]:
            raise self.error(f"no claim {', '.join(wrong)}")
        text = "\n\n".join(sentence(known[name]) for name in wanted)
        return self.parse_text_to_nodes(text)


def targets(app: Sphinx, name: str, source: list[str]) -> None:
    """Anchors in HTML become targets of MyST, which other pages can link to."""
    if name == "claims":
        source[0] = re.sub(r'<a id="([\w-]+)"></a>', r"(\1)=", source[0])


def setup(app: Sphinx) -> dict[str, object]:
    """Register with Sphinx."""
    app.add_directive("checked-by", CheckedBy)
    app.connect("source-read", targets)
    # JAX runs threads by now, and a process that forks with threads hangs
    return {"parallel_read_safe": False, "parallel_write_safe": False}
