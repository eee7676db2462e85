"""Mutation run: break the core lines of what is under check, one at a time, and look who notices.

``python -m proofs_check.mutation`` copies the package, changes one line of the copy, and runs the
claims named beside it on the copy until one of them fails. A mutation is killed if one does: by
another verdict, by an error, or by not coming to an end. What survives is printed, and then the
exit code is 1.

It needs the source tree, takes several minutes, and is no part of the tests.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 180.0  # seconds for a claim


@dataclass(frozen=True)
class Mutation:
    """One change to one line, and the claims that should notice.

    Parameters
    ----------
    file
        Of the package.
    old, new
        The text, which occurs once, and what takes its place.
    claims
        To run, until one fails.
    """

    file: str
    old: str
    new: str
    claims: tuple[str, ...]


MUTATIONS = (
    # eviction
    Mutation("eviction/llru.py", "live = cache.last[query.base + edge] == position",
             "live = cache.last[query.base + edge] >= position", ("1", "10b")),
    Mutation("eviction/belady.py", 'return -tape.prepared.position["next_use"][unit.last]',
             'return tape.prepared.position["next_use"][unit.last]', ("7",)),
    Mutation("eviction/rlt.py", "new = (query.need > 0) & (own.leaves[query.worker] == 0)",
             "new = jnp.zeros((), bool)", ("6",)),
    Mutation("eviction/rlt.py", "(own.leaves[query.worker] == 0) & (need > 0),",
             "(own.leaves[query.worker] < 0),", ("6",)),
    Mutation("eviction/rlt.py", "edge, slots = read(own.slots, query.base + index)",
             "edge, slots = read(own.slots, query.base + 0 * index)", ("6",)),
    Mutation("eviction/rlt.py", "return zones.mark_path(zones.unmark_all(own, cache, query), tape, "
             "cache, query)[0]", "return zones.unmark_all(own, cache, query)", ("6",)),
    Mutation("eviction/rlt.py", "own, units = zones.mark_path(state.zones, tape, cache, query)",
             "own, units = state.zones, jnp.zeros((), jnp.int32)", ("6",)),
    Mutation("eviction/zones.py", "leaf = cache.kids[query.base + edge] == 0",
             "leaf = cache.kids[query.base + edge] >= 0", ("6",)),
    Mutation("eviction/zones.py", "frees = (cache.kids[base + parent] == 0) & ",
             "frees = (cache.kids[base + parent] < 0) & ", ("6",)),
    Mutation("eviction/random_words.py", "return stream, number.astype(jnp.int32), ",
             "return stream, (0 * number).astype(jnp.int32), ", ("6",)),
    Mutation("eviction/layered.py", "stream, pick, counts = random_words.below(stream, walk.count)",
             "pick, counts = jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32)", ("17",)),
    Mutation("eviction/layered.py", "~(same_prefix & state.stem),", "jnp.ones((), bool),", ("17",)),
    Mutation("eviction/layered.py", "walk = over_full.find(state.walk, layers, query)",
             "walk = over_full.find(state.walk._replace(excess=jnp.zeros((), jnp.int32)), layers, "
             "query)", ("17",)),
    Mutation("eviction/over_full.py", "((walk.excess <= 0) | (layers.dividers[place] == 0))",
             "((walk.excess <= 1) | (layers.dividers[place] == 0))", ("17",)),
    Mutation("eviction/over_full.py", "excess=walk.excess + (held >> 1) - own,",
             "excess=walk.excess + (held >> 1),", ("17",)),
    Mutation("eviction/over_full.py", "inside = bare & (above <= walk.at)", "inside = bare & False",
             ("17",)),
    # learning
    Mutation("learning/hedge.py", "centred(self.log_weights - eta * losses)",
             "centred(self.log_weights + eta * losses)", ("9",)),
    Mutation("learning/hedge.py", "centred(self.log_weights - eta * losses)",
             "centred(self.log_weights)", ("9",)),
    Mutation("learning/fixed_share.py", "jnp.logaddexp(kept, jnp.log(alpha / losses.shape[0]))",
             "kept", ("9",)),
    Mutation("learning/fixed_share.py", "self.log_weights - eta * losses",
             "self.log_weights + eta * losses", ("9",)),
    Mutation("learning/exp3.py", "add(eta * (1 - loss) / probability)",
             "add(eta * loss / probability)", ("9",)),
    Mutation("learning/exp3.py", "add(eta * (1 - loss) / probability)", "add(0.0)", ("9",)),
    Mutation("learning/ridge.py", "matrix = forget * matrix + phi[:, None] * phi[None, :]",
             "matrix = forget * matrix", ("9",)),
    Mutation("learning/ridge.py", "vector = forget * vector + phi * y", "vector = forget * vector",
             ("9",)),
    Mutation("learning/ridge.py", "vector = forget * vector + phi * y",
             "vector = forget * vector - phi * y", ("9",)),
    Mutation("learning/bounds.py", "return math.sqrt(T * math.log(n) / 2)",
             "return math.sqrt(T * math.log(n) / 8)", ("9",)),
    Mutation("learning/bounds.py", "return math.sqrt(8 * math.log(n) / T)", "return 0.0", ("9",)),
    # offline
    Mutation("offline/belady.py", "(-following).tolist(),", "(following).tolist(),", ("7",)),
    Mutation("offline/belady.py", "living = np.where(served, log.start[1:] - np.diff(dead_count),",
             "living = np.where(served, log.start[1:],", ("7",)),
    Mutation("offline/belady.py", "used += missing\n", "used += missing - 1\n", ("7",)),
    Mutation("offline/certificate.py", "return capacity - path_units(instance)",
             "return np.full(instance.requests, capacity)", ("7", "8")),
    Mutation("offline/certificate.py", 'owner[position].astype(np.int64) + (admission == "forced")',
             "owner[position].astype(np.int64)", ("7", "8")),
    Mutation("offline/certificate.py", "left = np.maximum(0, 1 - _toll(price, uses))",
             "left = np.zeros(len(uses.length))", ("7", "8")),
    Mutation("offline/interval_lp.py", "cp.Maximize(cp.sum(x[: program.columns]))",
             "cp.Minimize(cp.sum(x[: program.columns]))", ("7", "8")),
    Mutation("offline/interval_lp.py", "values = np.repeat([1.0, -1.0, -1.0, 1.0],",
             "values = np.repeat([1.0, -1.0, -1.0, 0.0],", ("7", "8")),
    Mutation("offline/layers.py", "total = np.cumsum(each[: seen.requests], dtype=np.int64)",
             "total = np.asarray(each[: seen.requests], dtype=np.int64)", ("16",)),
    Mutation("offline/weighted_program.py", "cp.Minimize(-pairs.value @ z)",
             "cp.Minimize(pairs.value @ z)", ("7b",)),
    Mutation("offline/weighted_program.py", "constraints.append(nested.matrix()[0] @ z <= 0)",
             "pass", ("7b",)),
    # what the exact claims rest on
    Mutation("layers/units.py", "pending += (layer & asked).bit_count()", "pending += 0", ("16",)),
    Mutation("layers/units.py", "return new + wrapped, type(self)", "return new, type(self)",
             ("16",)),
    Mutation("layers/units.py", "return max(self._excess(closed))",
             "return max(self._excess(closed)[1:], default=0)", ("16",)),
    Mutation("layers/device.py", "        new + wrapped,\n", "        new,\n", ("16",)),
    Mutation("ratio/width.py", "return capacity - int(np.maximum(inner, missing - branches).min())",
             "return capacity - int(np.maximum(inner, missing - branches).max())", ("1",)),
    Mutation("ratio/bounds.py", "Fraction(1, i) for i in range(1, n + 1)",
             "Fraction(1, i) for i in range(1, n)", ("2",)),
    Mutation("ratio/exact_engine/rlt.py", "old, marked = marked, above", "old, marked = marked, 0",
             ("2", "5")),
    Mutation("ratio/exact_engine/rlt.py", "return Fraction(sum(ways), len(leaves))",
             "return Fraction(max(ways))", ("2", "6")),
    Mutation("ratio/exact_engine/layered.py", "if self.stem and i == last and stem in odds:",
             "if False:", ("17",)),
    Mutation("ratio/exact_engine/in_order.py", "if self.newest:", "if not self.newest:", ("1",)),
    # routing
    Mutation("routing/exponential_potential.py", "return first_least(load / guess * rate",
             "return first_least(-load / guess * rate", ("10",)),
    Mutation("routing/lbgr.py", "near_least(counted + state.load)", "near_least(counted)",
             ("10", "10b")),
    Mutation("routing/lbgr.py", "y = (event.time - began) - event.service", "y = 0 * event.time",
             ("18",)),
)  # fmt: skip


def main() -> int:
    """Run all mutations, or those from a number on, and report who survived."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    survived, begin = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for i, mutation in enumerate(MUTATIONS, 1):
            if i < first:
                continue
            start = time.perf_counter()
            killer = killed_by(mutation, Path(folder) / str(i))
            seconds = time.perf_counter() - start
            what = f"killed by {killer}" if killer else "SURVIVED"
            change = f"{mutation.file}: {' '.join(mutation.new.split())[:60]}"
            print(f"{i:3}/{len(MUTATIONS)}  {what:30} {seconds:5.1f} s  {change}", flush=True)
            if not killer:
                survived.append(mutation)
    run = len(MUTATIONS) - first + 1
    print(f"{run - len(survived)} of {run} killed in {time.perf_counter() - begin:.0f} s")
    return 1 if survived else 0


def killed_by(mutation: Mutation, folder: Path) -> str | None:
    """The claim that fails on the changed package, and how; None if none does.

    Raises
    ------
    ValueError
        If the text to change does not occur just once.
    """
    source = mutated(mutation)
    for package in ("kvtheory", "proofs_check"):
        shutil.copytree(ROOT / package, folder / package, ignore=_no_caches)
    (folder / "kvtheory" / mutation.file).write_text(source)
    for claim in mutation.claims:
        how = failure(folder, claim)
        if how:
            return f"claim {claim} ({how})"
    return None


def mutated(mutation: Mutation) -> str:
    """The file with the change in it."""
    source = (ROOT / "kvtheory" / mutation.file).read_text()
    if source.count(mutation.old) != 1:
        raise ValueError(f"{mutation.file}: {mutation.old!r} occurs {source.count(mutation.old)} x")
    return source.replace(mutation.old, mutation.new)


def failure(folder: Path, claim: str) -> str:
    """How a check fails on a copy of the package; empty if it does not."""
    code = (
        "import sys; from proofs_check import CLAIMS, failures, run; "
        "sys.exit(3 * bool(failures(run([c for c in CLAIMS if c.id == sys.argv[1]], "
        "mutants=False))))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, claim],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return "no end"
    return {0: "", 3: "verdict"}.get(done.returncode, "error")


def _no_caches(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__"}


if __name__ == "__main__":
    sys.exit(main())
