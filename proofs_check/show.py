"""The results as a table, and the registry as a page."""

from collections.abc import Sequence

from kvtheory.report.table import Column, duration, table
from proofs_check.claim import Claim
from proofs_check.runner import Row

WIDTH = 100


def as_table(rows: Sequence[Row]) -> str:
    """One line a claim, and below it what was checked and what came out."""
    columns = [
        Column("id", right=False),
        Column("claim", right=False),
        Column("verdict", right=False),
        Column("mutants"),
        Column("time", "s"),
    ]
    body = [
        [
            row.claim.id,
            row.claim.title,
            row.verdict + ("" if row.verdict == row.claim.expected else "  (!)"),
            f"{len(row.killed)}/{len(row.killed) + len(row.survived)}",
            duration(row.seconds),
        ]
        for row in rows
    ]
    return table(columns, body)


def detail(row: Row) -> str:
    """One claim with its method, scope and evidence."""
    word = {"holds": "holds", "refuted": "refuted", "open": "open"}[row.verdict]
    lines = [
        f"{row.claim.id}. {row.claim.title}: {word} ({duration(row.seconds)} s)",
        *_wrapped("method", row.claim.method),
        *_wrapped("scope", row.scope),
        *_wrapped("refuted by" if row.verdict == "refuted" else "evidence", row.evidence),
    ]
    if row.killed or row.survived:
        total = len(row.killed) + len(row.survived)
        told = f"{len(row.killed)} of {total} rejected"
        if row.survived:
            told += f"; not rejected: {', '.join(row.survived)}"
        lines += _wrapped("mutants", told)
    return "\n".join(lines)


def _wrapped(name: str, text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text, WIDTH, initial_indent=f"    {name + ':':12}", subsequent_indent=" " * 16
    )


def as_markdown(claims: Sequence[Claim]) -> str:
    """The registry as a page of documentation."""
    quick, full = (sum(claim.seconds[i] for claim in claims) for i in (0, 1))
    mutants = sum(len(claim.mutants) for claim in claims)
    lines = [
        "# Claims",
        "",
        "<!-- generated: kvtheory check --markdown > docs/claims.md -->",
        "",
        "What the theory says, how it is checked, and what came out. `kvtheory check` (or",
        "`python -m proofs_check`) runs everything on this page, `--full` the larger scopes,",
        "`--id 7` one claim with what goes with it.",
        "",
        "A verdict is *holds* (on the scope of the check: a finite check is no proof of a",
        "statement about all trees), *refuted* (with a counterexample, the smallest that was",
        "found) or *open* (nothing speaks against it, and what was checked is not all of it).",
        f"Every check must reject its mutants, {mutants} in all: broken algorithms and bounds that",
        "are too tight. Certificates are checked in rational arithmetic or to the tolerance that",
        "is stated, by code that shares nothing with what made them (`proofs_check.judge`,",
        "`kvtheory.testing`).",
        "",
        f"Budgets, mutants included: {quick:.0f} s quick, {full / 60:.0f} min full, of one core.",
        "Measured on one core of a server (AMD EPYC): 106 s quick, 11 min full.",
        "",
        "| id | claim | verdict | method |",
        "|---|---|---|---|",
    ]
    for claim in claims:
        anchor = f"[{claim.id}](#claim-{claim.id})"
        lines.append(f"| {anchor} | {claim.title} | {claim.expected} | {_cell(claim.method)} |")
    for claim in claims:
        lines += ["", *_section(claim)]
    return "\n".join(lines) + "\n"


def _section(claim: Claim) -> list[str]:
    rows = [
        ("Source", claim.source),
        ("Assumptions", claim.assumptions),
        ("Method", claim.method),
        ("Scope, quick", claim.scope[0]),
        ("Scope, full", claim.scope[1]),
        ("Budget", f"{claim.seconds[0]:g} s quick, {claim.seconds[1]:g} s full"),
        ("Mutants", "; ".join(mutant.name for mutant in claim.mutants)),
        ("Check", f"`{claim.check.__module__}`"),
    ]
    picture = ["", "![Exact ratios of RLT and leaf LRU](figures/claim14.png)"]
    return [
        f'<a id="claim-{claim.id}"></a>',
        "",
        f"## {claim.id}. {claim.title}",
        "",
        f"**{claim.expected.capitalize()}.** {claim.statement}",
        "",
        f"$$ {claim.latex} $$",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(text)} |" for name, text in rows),
        *(picture if claim.id == "14" else []),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
