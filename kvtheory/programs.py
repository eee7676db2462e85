"""Compiled programs by the shapes of their arguments, and what compiling them took."""

import time
from collections.abc import Callable
from typing import Any

import jax

_programs: dict[Any, Callable[..., Any]] = {}


def program(function: Any, static: Any, *arguments: Any) -> tuple[Callable[..., Any], float]:
    """A jitted function compiled for arguments of these shapes, and the seconds it took.

    Parameters
    ----------
    function
        Jitted, with one static argument, the first.
    static
        That argument, hashable.
    arguments
        The others: pytrees of arrays.

    Returns
    -------
    callable, float
        To be called with ``arguments``; 0 seconds if it was compiled before.
    """
    leaves, structure = jax.tree.flatten(arguments)
    shapes = tuple((x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves)
    wide = bool(jax.config.jax_enable_x64)
    key = (function, static, structure, shapes, wide, jax.default_backend())
    if key in _programs:
        return _programs[key], 0.0
    begin = time.perf_counter()
    _programs[key] = function.lower(static, *arguments).compile()
    return _programs[key], time.perf_counter() - begin


def compilations() -> int:
    """Programs compiled so far."""
    return len(_programs)
