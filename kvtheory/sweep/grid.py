"""Grids: all combinations of the parameters' values, from Python or from a TOML file."""

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from kvtheory.errors import InputError, bad
from kvtheory.sweep.cell import CacheCell, Cell, ClusterCell, check_names


def grid(**axes: object) -> list[Cell]:
    """The cells of all combinations, each once, in the order of the parameters as given.

    Parameters
    ----------
    axes
        For each parameter of `CacheCell`, or with ``router`` of `ClusterCell`, a value or a list
        of values.

    Raises
    ------
    InputError
        For an unknown parameter or name, or a bad value; and if two seeds of a cluster with
        ``rate`` are nearer than its lanes, as these would share arrivals.

    Examples
    --------
    >>> cells = grid(source="zipf", capacity=["5%", "10%"], eviction=["llru", "rlt"], seed=[0, 1])
    >>> [(cell.capacity, cell.eviction, cell.seed, cell.seeds) for cell in cells[:3]]
    [('5%', 'llru', 0, 1), ('5%', 'rlt', 0, 16), ('5%', 'rlt', 1, 16)]
    """
    kind = ClusterCell if "router" in axes else CacheCell
    check_names(axes, kind)
    values = {name: list(v) if isinstance(v, list | tuple) else [v] for name, v in axes.items()}
    for name, some in values.items():
        if not some:
            raise bad(name, [], "name at least one value")
    every = itertools.product(*values.values())
    cells = [kind(**dict(zip(values, point, strict=True))) for point in every]  # type: ignore[arg-type]
    check_arrivals(cells)
    return list(dict.fromkeys(cells))


def check_arrivals(cells: list[Cell]) -> None:
    """Raise `InputError` if two cells that differ in the seed alone share Poisson arrivals."""
    taken: dict[Cell, dict[int, None]] = {}
    for cell in cells:
        if isinstance(cell, ClusterCell) and cell.rate is not None:
            taken.setdefault(cell.with_seed(0), {})[cell.seed] = None
    for cell, seeds in taken.items():
        for a, b in itertools.pairwise(sorted(seeds)):
            if b - a < cell.seeds:
                rule = (
                    f"lane s draws the arrivals of seed + s, so with {cell.seeds} lanes these "
                    f"overlap: use multiples of {cell.seeds}"
                )
                raise bad("seed", [a, b], rule)


def read_grid(path: str | Path) -> list[Cell]:
    """The cells of a TOML file: of its table ``[grid]``, or of several ``[[grid]]``.

    Paths of traces are relative to where the program runs.

    Raises
    ------
    InputError
        Naming the file and what is wrong with it.
    """
    try:
        with open(path, "rb") as file:
            told = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no TOML file: {error}") from None
    grids = told.get("grid")
    if isinstance(grids, Mapping):
        grids = [grids]
    if set(told) != {"grid"} or not isinstance(grids, list) or not grids:
        raise InputError(f"{path}: needs a table [grid], or several [[grid]], and nothing else")
    cells: list[Cell] = []
    for table in grids:
        try:
            cells += grid(**table)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    check_arrivals(cells)
    return list(dict.fromkeys(cells))
