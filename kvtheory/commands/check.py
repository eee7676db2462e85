"""``kvtheory check``: every claim of the theory with its check, its evidence and its mutants."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvtheory.commands.output import Progress, check_files, naming, print_json
from kvtheory.errors import InputError, bad
from kvtheory.report.table import MISSING

if TYPE_CHECKING:
    from proofs_check.claim import Claim


@dataclass(frozen=True, kw_only=True)
class Options:
    """Check the claims of the theory one by one; exit code 1 if one is not as stated.

    Example: kvtheory check --id 1 7 15
    """

    id: tuple[str, ...] = ()
    """Claims by number or id: 7 stands for 7, 7b and 7c. All by default."""
    full: bool = False
    """Spend the full budget: larger trees, more cases and seeds; some 11 minutes, not 2."""
    json: bool = False
    """Print a list of JSON objects instead of the table."""
    markdown: bool = False
    """Print the registry as a page of documentation, and check nothing."""
    list: bool = False
    """Print the table only, without the evidence."""
    seed: int = 0
    """Seed of the statistical checks; a check fails on a fresh one with the probability that it
    states."""
    seeds: int = 1
    """More than 1: run the statistical checks alone, with so many consecutive seeds, and count the
    failures."""
    no_mutants: bool = False
    """Leave the mutants out."""
    counterexamples: str | None = None
    """Folder to write the counterexamples to, as instances for kvtheory simulate and ratio."""
    figure: str | None = None
    """File to draw the map of claim 14 into."""


def run(options: Options) -> int:
    """Run the checks and print what came out."""
    from proofs_check.registry import CLAIMS, chosen
    from proofs_check.runner import Row, failures
    from proofs_check.runner import run as run_checks
    from proofs_check.show import as_markdown, as_table, detail

    if options.seeds < 1:
        raise bad("seeds", options.seeds, "must be at least 1")
    check_files(figure=options.figure)
    folder = None if options.counterexamples is None else Path(options.counterexamples)
    if options.counterexamples == "" or (folder and folder.exists() and not folder.is_dir()):
        raise bad("counterexamples", options.counterexamples, "is no folder; name one")
    if options.markdown:
        print(as_markdown(CLAIMS), end="")
        return 0
    claims = chosen(options.id)
    if options.seeds > 1:
        return _repeat(claims, options)
    rows: list[Row] = []
    try:
        with Progress(len(claims)) as progress:

            def finished(row: Row) -> None:
                rows.append(row)
                progress(row.claim.title, 1.0)

            run_checks(
                claims,
                full=options.full,
                mutants=not options.no_mutants,
                seed=options.seed,
                tell=progress,
                finished=finished,
            )
    finally:  # an interrupt keeps what is finished
        if rows and options.json:
            print_json([row.as_dict() for row in rows])
        elif rows:
            if not options.list:
                print("\n\n".join(map(detail, rows)), end="\n\n")
            print(as_table(rows))
    if folder is not None:
        from proofs_check.replays import save

        found = [(row.claim.id, row.counterexample) for row in rows if row.counterexample]
        save(found, folder)
    if options.figure is not None:
        from proofs_check.worse_map import draw

        with naming(options.figure):
            draw(options.figure)
    wrong = failures(rows)
    for line in wrong:
        print(f"kvtheory: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _repeat(claims: "Sequence[Claim]", options: Options) -> int:
    """Statistical checks with many seeds; 1 if one of them failed."""
    from kvtheory.report.table import Column, count, duration, table
    from proofs_check.runner import repeated

    drawn = [claim for claim in claims if claim.drawn is not None]
    if not drawn:
        raise InputError("none of these claims has a statistical check: leave out --seeds or --id")
    body, wrong = [], 0
    try:
        with Progress(len(drawn) * options.seeds) as progress:
            for claim in drawn:
                begin, run = time.perf_counter(), 0

                def finished(seed: int, verdict: str, claim: "Claim" = claim) -> None:
                    nonlocal run
                    run += 1
                    progress(claim.title, 1.0)

                failed: list[int] | None = None
                try:
                    failed = repeated(
                        claim,
                        options.seeds,
                        first=options.seed,
                        full=options.full,
                        tell=progress,
                        finished=finished,
                    )
                finally:
                    told = MISSING if failed is None else count(len(failed))
                    seconds = duration(time.perf_counter() - begin)
                    body.append([claim.id, claim.title, count(run), told, seconds])
                wrong += len(failed)
    finally:  # an interrupt keeps what is finished
        names = ("claim", "statement", "seeds", "failed", "time")
        units = {"time": "s"}
        columns = [Column(n, units.get(n, ""), right=n != "statement") for n in names]
        print(table(columns, body))
    return 1 if wrong else 0
