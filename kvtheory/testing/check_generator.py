"""`check_generator`: what every generator of request sequences has to satisfy.

For authors of generators. Nothing beyond the package itself is needed.
"""

import inspect
import random
from collections.abc import Callable, Iterator

import numpy as np

from kvtheory.errors import InputError, bad
from kvtheory.instance import Instance

__all__ = ["GeneratorCheckFailed", "check_generator"]

MOST_UNITS = 1_000_000


class GeneratorCheckFailed(AssertionError):
    """A generator does not satisfy a check.

    Attributes
    ----------
    check
        Name of the check, as in what `check_generator` returns.
    """

    def __init__(self, name: str, check: str, problem: str) -> None:
        super().__init__(f"{name!r} fails the check {check!r}: {problem}")
        self.check = check


def check_generator(make: Callable[..., Instance], **small: object) -> tuple[str, ...]:
    """Check a generator on one small instance.

    Parameters
    ----------
    make
        The generator: a function of plain parameters with annotations and defaults.
    **small
        Parameters that make a small instance.

    Returns
    -------
    tuple of str
        The checks that ran:

        ``signature``
            Every parameter has an annotation and a default.
        ``value``
            The same parameters give the same bytes, whatever the state of the global generators
            of random numbers; another ``seed``, if there is one, gives others.
        ``names``
            The instance knows its name and all its parameters, and its source names them.
        ``numbering``
            The tree is numbered as if it had been built from the units.
        ``arrivals``
            With a ``rate`` there are arrival times.
        ``errors``
            −1 for any parameter that is a number is an `InputError` that names it.

    Raises
    ------
    GeneratorCheckFailed
        An `AssertionError` with the name of the check.
    InputError
        If the instance is too large to be checked unit by unit.

    Examples
    --------
    >>> from kvtheory.instances import zipf
    >>> check_generator(zipf, documents=8, requests=40, levels=2)
    ('signature', 'value', 'names', 'numbering', 'arrivals', 'errors')
    """
    name = make.__name__
    one = make(**small)
    if one.units_requested > MOST_UNITS:
        raise bad("small", small, f"asks for more than {MOST_UNITS:,} units")
    checks = {
        "signature": _bare_parameters(make),
        "value": _not_a_value(make, small, one),
        "names": _nameless(make, one),
        "numbering": _odd_numbering(one),
        "arrivals": _untimed(make, small),
        "errors": _accepted(make, small),
    }
    for check, problems in checks.items():
        for problem in problems:
            raise GeneratorCheckFailed(name, check, problem)
    return tuple(checks)


# Each of these yields what is wrong.


def _bare_parameters(make: Callable[..., Instance]) -> Iterator[str]:
    for key, parameter in inspect.signature(make).parameters.items():
        if parameter.annotation is parameter.empty or parameter.default is parameter.empty:
            yield f"parameter {key!r} needs an annotation and a default"


def _not_a_value(
    make: Callable[..., Instance], small: dict[str, object], one: Instance
) -> Iterator[str]:
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        if make(**small) != one:
            yield "the same parameters give another instance: draw from default_rng(seed) only"
    if "seed" in inspect.signature(make).parameters:
        given = one.parameters.get("seed", 0)
        if make(**{**small, "seed": int(given) + 1}) == one:  # type: ignore[call-overload]
            yield "another seed gives the same instance"


def _nameless(make: Callable[..., Instance], one: Instance) -> Iterator[str]:
    wanted = set(inspect.signature(make).parameters)
    if one.name != make.__name__:
        yield f"the instance is called {one.name!r}"
    if set(one.parameters) != wanted:
        yield f"the instance knows the parameters {sorted(one.parameters)}, not {sorted(wanted)}"
    missing = [key for key in wanted if f"{key}=" not in one.source]
    if not one.source.startswith(f"{make.__name__}:") or missing:
        yield f"its source, {one.source!r}, does not say how to make it again"


def _odd_numbering(one: Instance) -> Iterator[str]:
    ids = one.tree.ids_of
    ends = None if one.end is None else [ids(e).tolist() for e in one.end.tolist()]
    warm = [] if one.warm is None else one.warm.tolist()
    pairs = [(worker, ids(edge).tolist()) for worker, edge in warm]
    built = Instance.from_tokens(one.sequences(), ends=ends, warm=pairs)
    for what, mine, theirs in (
        ("parents", one.tree.parent, built.tree.parent),
        ("lengths", one.tree.length, built.tree.length),
        ("queries", one.query, built.query),
    ):
        if mine.tolist() != theirs.tolist():
            yield f"the {what} are not those of the tree that its units make"


def _untimed(make: Callable[..., Instance], small: dict[str, object]) -> Iterator[str]:
    timed = "rate" in inspect.signature(make).parameters
    if timed and make(**{**small, "rate": 2.0}).arrival is None:
        yield "a rate gives no arrival times"


def _accepted(make: Callable[..., Instance], small: dict[str, object]) -> Iterator[str]:
    for key, parameter in inspect.signature(make).parameters.items():
        if parameter.annotation not in (int, float, "int", "float"):
            continue
        try:
            make(**{**small, key: -1})
        except InputError as error:
            if key not in str(error):
                yield f"the error for {key} = −1 does not name it: {error}"
        except Exception as error:
            yield f"{key} = −1 raises {type(error).__name__}, not InputError"
        else:
            yield f"{key} = −1 is accepted"
