"""Compiled programs by the shapes of their arguments, and what compiling them took."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax

_programs: dict[Any, Callable[..., Any]] = {}
_sizes: dict[Any, int] = {}


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
    key = (function, static, *_shapes(arguments))
    if key in _programs:
        return _programs[key], 0.0
    begin = time.perf_counter()
    _programs[key] = function.lower(static, *arguments).compile()
    return _programs[key], time.perf_counter() - begin


def size_of_result(function: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> int:
    """Bytes of what ``function(*static, *arguments)`` would return: it is traced, but never run."""
    key = (function, static, *_shapes(arguments))
    if key not in _sizes:
        _sizes[key] = size(jax.eval_shape(functools.partial(function, *static), *arguments))
    return _sizes[key]


def size(arrays: Any) -> int:
    """Bytes of all arrays of a pytree.

    Examples
    --------
    >>> import numpy as np
    >>> size({"a": np.zeros((2, 3), np.int32), "b": np.zeros(1)})
    32
    """
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(arrays))


def compilations() -> int:
    """Programs compiled so far."""
    return len(_programs)


def _shapes(arguments: Any) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(arguments)
    shapes = tuple((x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves)
    wide = bool(jax.config.jax_enable_x64)
    return structure, shapes, wide, jax.default_backend(), jax.config.jax_default_device
