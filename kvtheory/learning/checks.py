"""Checks of arguments; a number that is traced cannot be looked at and passes."""

from jaxtyping import Array

from kvtheory.errors import bad


def size(argument: str, value: int) -> None:
    """A number of experts, arms, actions or features."""
    if value < 1:
        raise bad(argument, value, "must be at least 1")


def share(argument: str, value: Array | float) -> None:
    """A number from 0 to 1."""
    if isinstance(value, int | float) and not 0 <= value <= 1:
        raise bad(argument, value, "must be a share from 0 to 1")


def positive(argument: str, value: Array | float) -> None:
    """A number above 0."""
    if isinstance(value, int | float) and not value > 0:
        raise bad(argument, value, "must be positive")


def like(argument: str, value: Array, other: Array) -> None:
    """An array of the shape of another one, where broadcasting would hide a mistake."""
    if value.shape != other.shape:
        raise bad(argument, value.shape, f"must have the shape {other.shape}")
