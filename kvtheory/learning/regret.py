"""Regret: how much more was lost than by the best expert, or sequence of experts, in hindsight."""

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike

from kvtheory.errors import bad


def regret(losses: ArrayLike, plays: ArrayLike) -> float:
    """External regret Σ_t loss_t(play_t) − min_i Σ_t loss_t(i).

    Parameters
    ----------
    losses
        float[rounds, experts].
    plays
        int[rounds], the expert of each round; or float[rounds, experts], the probability of each,
        for the expected loss.

    Raises
    ------
    InputError
        If the shapes do not match, or a play is not an expert.

    Examples
    --------
    >>> regret([[0, 1], [1, 0], [0, 1]], [1, 0, 1])
    2.0
    >>> regret([[0, 1], [1, 0], [0, 1]], [[0.5, 0.5]] * 3)
    0.5
    """
    rows = _rows(losses)
    return _paid(rows, np.asarray(plays)) - float(rows.sum(axis=0).min())


def tracking_regret(losses: ArrayLike, plays: ArrayLike, switches: int) -> float:
    """As `regret`, against the best sequence of experts that changes at most ``switches`` times.

    Cost: O(rounds·switches·experts), by dynamic programming.

    Examples
    --------
    >>> tracking_regret([[0, 1], [0, 1], [1, 0]], [1, 1, 1], switches=1)
    2.0
    """
    if switches < 0:
        raise bad("switches", switches, "must not be negative")
    rows = _rows(losses)
    # best[s, i]: the least loss so far with at most s changes and expert i last
    best = np.zeros((switches + 1, rows.shape[1]))
    for row in rows:
        changed = np.append(np.inf, best[:-1].min(axis=1))
        best = np.minimum(best, changed[:, None]) + row
    return _paid(rows, np.asarray(plays)) - float(best[-1].min())


def _rows(losses: ArrayLike) -> Float[np.ndarray, "rounds experts"]:
    rows = np.asarray(losses, np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise bad("losses", rows.shape, "must have the shape (rounds, experts)")
    return rows


def _paid(rows: Float[np.ndarray, "rounds experts"], plays: Shaped[np.ndarray, "..."]) -> float:
    rounds, experts = rows.shape
    if plays.shape == rows.shape:
        return float((rows * plays).sum())
    if plays.shape != (rounds,):
        raise bad("plays", plays.shape, f"must have the shape ({rounds},) or {rows.shape}")
    if rounds == 0:
        return 0.0
    if plays.dtype.kind not in "iu" or plays.min() < 0 or plays.max() >= experts:
        raise bad("plays", plays.tolist(), f"must be experts, whole numbers below {experts}")
    return float(np.take_along_axis(rows, plays[:, None], axis=1).sum())
