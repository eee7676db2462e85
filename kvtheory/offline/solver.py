"""The solvers behind cvxpy: which there are, their options, and how a solve ended."""

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from kvtheory.errors import bad

DEFAULT = "HIGHS"
# The option of each solver that takes seconds, and the argument of cvxpy that holds its options.
_TIME_LIMIT = {
    "CBC": "maximumSeconds",
    "CLARABEL": "time_limit",
    "COPT": "TimeLimit",
    "CPLEX": "timelimit",
    "GUROBI": "TimeLimit",
    "HIGHS": "time_limit",
    "OSQP": "time_limit",
    "SCIP": "limits/time",
    "SCIPY": "time_limit",
    "SCS": "time_limit_secs",
}
_HOLDER = {
    "CPLEX": "cplex_params",
    "HIGHS": "highs_options",
    "MOSEK": "mosek_params",
    "SCIP": "scip_params",
    "SCIPY": "scipy_options",
}


class Ending(NamedTuple):
    """How a solve ended.

    ``"optimal"``, ``"time limit"``, ``"limit"`` (another one, set by an option), or
    ``"failed: …"`` with the reason.
    """

    status: str
    solution: bool  # whether the variables have values, if not optimal ones


def choose(name: str | None = None, *, integer: bool = False) -> str:
    """The name of an installed solver, HiGHS by default.

    Parameters
    ----------
    name
        A cvxpy solver in any case, or None.
    integer
        Whether it must take integer variables.

    Raises
    ------
    InputError
        If cvxpy has no such solver here, naming those that it has.
    """
    from cvxpy.reductions.solvers import defines

    installed = sorted(defines.INSTALLED_MI_SOLVERS if integer else defines.INSTALLED_SOLVERS)
    chosen = DEFAULT if name is None else name.upper()
    if chosen not in installed:
        what = "for integer programs " if integer else ""
        raise bad("solver", name or DEFAULT, f"is not installed {what}here: {', '.join(installed)}")
    return chosen


def solve(
    problem: Any,
    solver: str,
    *,
    time_limit: float | None = None,
    options: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Ending:
    """Solve a cvxpy problem; a solver that gives up is a status, not an exception.

    Parameters
    ----------
    problem
        A ``cvxpy.Problem``, solved in place.
    solver
        As given by `choose`.
    time_limit
        Seconds for the solver, or None.
    options
        Options of the solver under its own names, for example ``{"solver": "ipm"}`` for HiGHS.
    defaults
        Options to use where ``options`` does not name them.

    Raises
    ------
    InputError
        If the solver refuses an option, or has no time limit that we know of.
    """
    from cvxpy.error import SolverError

    arguments = arguments_of(solver, time_limit, options, defaults)
    prepare(solver)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate": the status says so
            problem.solve(solver=solver, **arguments)
    except (SolverError, ArithmeticError, IndexError) as error:
        return failed(error, time_limit)
    except (ValueError, TypeError, KeyError) as error:
        if options:
            raise bad("solver_options", dict(options), f"{solver} refuses them: {error}") from None
        return failed(error, time_limit)
    return ending_of(problem, solver, time_limit)


def ending_of(problem: Any, solver: str, time_limit: float | None) -> Ending:
    """How a solve ended, by the status that cvxpy gave the problem."""
    status = problem.status
    solution = all(variable.value is not None for variable in problem.variables())
    if status == "optimal":
        return Ending("optimal", solution)
    if time_limit is not None and status in ("user_limit", "optimal_inaccurate"):
        return Ending("time limit", solution)
    if status == "user_limit":
        return Ending("limit", solution)
    return Ending(f"failed: {solver} says {status}", solution)


def arguments_of(
    solver: str,
    time_limit: float | None = None,
    options: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The options in the form that cvxpy hands on to the solver; as for `solve`.

    Raises
    ------
    InputError
        If the solver has no time limit that we know of.
    """
    given = {**(defaults or {}), **(options or {})}
    if time_limit is not None:
        if not time_limit > 0:
            raise bad("time_limit", time_limit, "must be a positive number of seconds")
        if solver not in _TIME_LIMIT:
            known = ", ".join(sorted(_TIME_LIMIT))
            raise bad("time_limit", time_limit, f"is not known for {solver}, only for {known}")
        given[_TIME_LIMIT[solver]] = float(time_limit)
    holder = _HOLDER.get(solver)
    return {holder: given} if holder and given else given


def failed(error: Exception, time_limit: float | None) -> Ending:
    """How a solve ended that raised ``error``."""
    # Some interfaces raise when the time is up before there is any solution.
    if time_limit is not None:
        return Ending("time limit", False)
    return Ending(f"failed: {' '.join(str(error).split()) or type(error).__name__}", False)


def prepare(solver: str) -> None:
    """Keep a solver from printing when it is first used."""
    if solver == "HIGHS":
        _without_banner()


@functools.cache
def _without_banner() -> None:
    # The first HiGHS object of a process prints a banner on file descriptor 1, whatever its
    # options, which would spoil output that others parse.
    import highspy

    with contextlib.suppress(OSError), _silent_stdout():
        highspy.Highs()


@contextlib.contextmanager
def _silent_stdout() -> Generator[None]:
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.flush()
    saved = os.dup(1)
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
