"""Errors for bad input: each names the argument, its value and the rule it breaks."""

from collections.abc import Iterable


class InputError(ValueError):
    """Bad input at the boundary of the library; the message says what to do next."""


def bad(argument: str, value: object, rule: str) -> InputError:
    """The error for ``argument`` holding ``value``, which breaks ``rule``."""
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return InputError(f"{argument} = {shown}: {rule}")


def check_seed(seed: int) -> None:
    """Raise `InputError` unless ``seed`` is one of a random stream: 32 bits, not negative."""
    if not 0 <= seed < 2**32:
        raise bad("seed", seed, "must lie between 0 and 2^32 - 1")


def unknown(kind: str, name: str, options: Iterable[str]) -> InputError:
    """The error for a name that is not among ``options``, with the nearest of them."""
    import difflib

    options = sorted(options)
    near = difflib.get_close_matches(name, options, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(options)}"
    return InputError(f"unknown {kind} {name!r}: {hint}")
