"""A report as one HTML page that needs nothing else: styles, script and figures are in it."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from kvtheory.errors import InputError
from kvtheory.report import figures, views
from kvtheory.report.data import ReportData, SourceReport
from kvtheory.report.table import count, decimal

REPLAY = """\
import kvtheory.instances
from jax.random import key
from kvtheory.eviction import policy
from kvtheory.simulate import simulate

instance = {call}"""


@dataclass(frozen=True)
class Section:
    """What the page shows of one request sequence."""

    name: str
    heading: str
    facts: tuple[str, ...]
    findings: tuple[str, ...]
    headline: views.TableView | None
    ratios: tuple[figures.Figure, ...]
    inside: tuple[figures.Figure, ...]
    cluster: views.TableView | None
    cluster_figures: tuple[figures.Figure, ...]
    worst: views.TableView | None
    replay: str
    digest: str
    notes: tuple[str, ...]


def page(data: ReportData) -> str:
    """The whole page as text.

    Equal data gives equal text. Its policy forbids the browser every request, so that what it
    shows is in it.

    Raises
    ------
    InputError
        If Jinja2 or matplotlib is missing.
    """
    try:
        import jinja2
    except ImportError:
        raise InputError("reports need Jinja2: pip install 'kvtheory[report]'") from None
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_part),
    )
    script = _part("page.js")
    return environment.get_template("page.html.jinja").render(
        data=data,
        sections=[section(source, f"s{i}") for i, source in enumerate(data.sources)],
        style=_part("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def section(report: SourceReport, name: str) -> Section:
    """The tables and figures of one source."""
    return Section(
        name=name,
        heading=report.name,
        facts=_facts(report),
        findings=_findings(report),
        headline=views.headline(report.rows, name) if report.rows else None,
        ratios=tuple(figures.ratio_figures(report, name)),
        inside=tuple(figures.inside_figures(report.inside, name)) if report.inside else (),
        cluster=views.cluster(report.cluster, name) if report.cluster else None,
        cluster_figures=tuple(figures.cluster_figures(report, name)),
        worst=views.worst(report.worst, name) if report.worst else None,
        replay=REPLAY.format(call=report.call) if report.call and report.worst else "",
        digest=report.digest,
        notes=(*report.notes, *_row_notes(report)),
    )


def _facts(report: SourceReport) -> tuple[str, ...]:
    if not report.rows:
        first = report.cluster[0] if report.cluster else None
        if first is None:
            return ()
        return (f"{count(first.requests)} requests", f"{count(first.units)} units asked for")
    row = report.rows[0]
    ceiling = 1 - row.units_distinct / row.units
    facts = [
        f"{count(row.requests)} requests",
        f"{count(row.units)} units asked for",
        f"{count(row.units_distinct)} distinct",
        f"no cache hits more than {decimal(ceiling)} of those asked for",
    ]
    if row.oversize != "error":
        facts.append(f"queries longer than the cache: {row.oversize}")
    return tuple(facts)


def _findings(report: SourceReport) -> tuple[str, ...]:
    """For each capacity the policy with the fewest misses, beside the optimum."""
    found = []
    for capacity in dict.fromkeys(row.capacity_units for row in report.rows):
        rows = [r for r in report.rows if r.capacity_units == capacity]
        best = min(rows, key=lambda row: row.misses)
        told = (
            f"At {count(capacity)} units {best.policy} has the fewest misses of {len(rows)} "
            f"policies, {decimal(best.ratio)} times those of the optimum"
            if len(rows) > 1
            else f"At {count(capacity)} units {best.policy} has {decimal(best.ratio)} times the "
            "misses of the optimum"
        )
        if best.ratio_low != best.ratio_high and best.ratio_low == best.ratio_low:
            told += f" ({decimal(best.ratio_low)} … {decimal(best.ratio_high)})"
        told += f"; it hits {decimal(best.hit_rate_units)} of the units"
        if best.kind == "strict":
            told += f", the optimum {decimal(1 - best.optimum_high / best.units)}"
        found.append(f"{told}.")
    return tuple(found)


def _row_notes(report: SourceReport) -> Sequence[str]:
    return list(dict.fromkeys(f"{row.policy}: {row.note}" for row in report.rows if row.note))


def _part(name: str) -> str:
    return files("kvtheory.report").joinpath(name).read_text(encoding="utf-8")
