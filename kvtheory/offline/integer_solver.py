"""Integer programs through cvxpy, without losing what the solver had proved when it stopped."""

import contextlib
import math
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kvtheory.errors import bad
from kvtheory.offline import solver as solvers
from kvtheory.offline.solver import Ending

Progress = Callable[[float, float | None, float], object]
"""Called with seconds, the best value so far or None, and the bound so far (−∞ if none)."""

_GAP = {
    "CBC": "ratioGap",
    "COPT": "RelGap",
    "CPLEX": "mip.tolerances.mipgap",
    "GLPK_MI": "mip_gap",
    "GUROBI": "MIPGap",
    "HIGHS": "mip_rel_gap",
    "SCIP": "limits/gap",
    "SCIPY": "mip_rel_gap",
}
_POLL_SECONDS = 0.2


class Search(NamedTuple):
    """How a search ended, and what it proved."""

    ending: Ending
    bound: float  # no solution is smaller, says the solver; −∞ if it says nothing


def search(
    problem: Any,
    solver: str,
    *,
    time_limit: float | None = None,
    mip_gap: float = 0.0,
    options: Mapping[str, Any] | None = None,
    start: Mapping[Any, np.ndarray] | None = None,
    progress: Progress | None = None,
) -> Search:
    """Minimise a cvxpy problem with whole variables, in place.

    Parameters
    ----------
    problem
        A ``cvxpy.Problem``: minimise a linear function without a constant.
    solver
        As `kvtheory.offline.solver.choose` gives it.
    time_limit
        Seconds for the solver, or None.
    mip_gap
        Relative gap at which to stop.
    options
        Options of the solver under its own names; they come before ``mip_gap``.
    start
        Values of the variables to begin from. HiGHS takes them, and completes them if only the
        whole variables are right; other solvers begin from nothing.
    progress
        Called a few times a second; only HiGHS tells what it has found meanwhile.

    Returns
    -------
    Search
        The bound also where the solver stopped without a solution.

    Raises
    ------
    InputError
        If the solver refuses an option, or has no time limit that we know of.

    Notes
    -----
    ``cvxpy.Problem.solve`` raises when the time is up before there is a solution, and what has been
    proved is lost with it. So the three steps that it consists of are taken one by one, as cvxpy
    documents them, and the bound is read from what the solver returned.
    """
    from cvxpy.error import SolverError

    defaults = {_GAP[solver]: float(mip_gap)} if solver in _GAP else {}
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        log = None
        if solver == "HIGHS" and progress is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            log = Path(folder) / "log"
            # the console stays silent: cvxpy sees to that
            defaults |= {"output_flag": True, "log_file": os.fspath(log)}
        arguments = solvers.arguments_of(solver, time_limit, options, defaults)
        solvers.prepare(solver)
        raw = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data, chain, inverse = problem.get_problem_data(solver)
            cache = _cache(solver, data, start)

            def run() -> Any:
                return chain.solver.solve_via_data(data, bool(cache), False, arguments, cache)

            raw = run() if progress is None else _watched(run, log, progress, began)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.unpack_results(raw, chain, inverse)
        except (SolverError, ArithmeticError, IndexError) as error:
            return Search(_failed(error, time_limit, began), _bound(raw))
        except (ValueError, TypeError, KeyError) as error:
            if options and raw is None:
                rule = f"{solver} refuses them: {error}"
                raise bad("solver_options", dict(options), rule) from None
            return Search(_failed(error, time_limit, began), _bound(raw))
    ending = solvers.ending_of(problem, solver, time_limit)
    bound = _bound(raw)
    if bound == -math.inf and ending.status == "optimal" and ending.solution:
        gap = {**defaults, **(options or {})}.get(_GAP.get(solver, ""), mip_gap)
        bound = problem.value - float(gap) * abs(problem.value)
    if progress is not None:
        progress(time.perf_counter() - began, problem.value if ending.solution else None, bound)
    return Search(ending, bound)


def _failed(error: Exception, time_limit: float | None, began: float) -> Ending:
    # Without a solution at the end of its time a solver may seem to have failed.
    in_time = time_limit is None or time.perf_counter() - began < time_limit / 2
    return solvers.failed(error, None if in_time else time_limit)


def _cache(solver: str, data: Any, start: Mapping[Any, np.ndarray] | None) -> dict[str, Any]:
    """What cvxpy would have remembered, had the problem been solved with the values ``start``."""
    if solver != "HIGHS" or start is None:
        return {}
    import highspy

    columns = np.zeros(len(data["c"]))
    place = data["param_prob"].var_id_to_col
    for variable, values in start.items():
        if variable.id not in place:
            return {}
        first = place[variable.id]
        columns[first : first + len(values)] = values
    solution = highspy.HighsSolution()
    solution.col_value = columns.tolist()
    return {"HIGHS": (None, None, {"model_status": "kOptimal", "solution": solution})}


def _bound(raw: Any) -> float:
    """The bound that a solver returned; each has its own way to say it."""
    if raw is None:
        return -math.inf
    readers: list[Callable[[], Any]] = [
        lambda: raw["info"].mip_dual_bound,
        lambda: raw["mip_dual_bound"],
        lambda: raw["model"].ObjBound,
        lambda: raw["model"].getDualbound(),
    ]
    for read in readers:
        with contextlib.suppress(Exception):
            bound = float(read())
            if not math.isnan(bound) and bound < math.inf:
                return bound
    return -math.inf


def _watched(run: Callable[[], Any], log: Path | None, progress: Progress, began: float) -> Any:
    """Run in a thread, and tell what its log says meanwhile."""
    outcome: list[Any] = []
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(run())
        except BaseException as error:
            trouble.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    told = None
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        latest = _latest(log)
        if latest is not None and latest != told:
            told = latest
            progress(time.perf_counter() - began, *latest)
    if trouble:
        raise trouble[0]
    return outcome[0]


def _latest(log: Path | None) -> tuple[float | None, float] | None:
    """The last (value, bound) in a log of HiGHS, whose lines read … 12.5% bound value gap% …"""
    if log is None or not log.is_file():
        return None
    for line in reversed(log.read_text(errors="replace").splitlines()):
        words = line.split()
        at = next((i for i, word in enumerate(words) if word.endswith("%")), None)
        if at is None or len(words) < at + 4 or not words[-1].endswith("s"):
            continue
        try:
            bound, value = float(words[at + 1]), float(words[at + 2])
        except ValueError:
            continue
        return (value if math.isfinite(value) else None), bound
    return None
