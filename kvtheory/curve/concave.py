"""A concave function of whole numbers, from its values at a few."""

from collections.abc import Callable

import numpy as np


def concave(value: Callable[[int], int], first: int, last: int) -> np.ndarray:
    """All values of a concave function that does not decrease, with few evaluations.

    Parameters
    ----------
    value
        Whole, concave and not decreasing on ``first`` … ``last``; called at most once for each
        argument.
    first, last
        The range, both included.

    Returns
    -------
    int64[last − first + 1]

    Notes
    -----
    Two neighbouring values give a line that the function never exceeds on either side of them.
    An interval whose chord has the slope of a line at one of its ends is settled: the function
    lies between the two. Elsewhere the lines of both ends cross inside, and the function is
    evaluated there, which settles a corner or finds another slope.

    Cost: with s slopes, at most 6·s evaluations. The slopes are distinct whole numbers, at least
    0, so s <= 1 + √(2·(value(last) − value(first))).

    References
    ----------
    Eisner, Severance (1976), Mathematical techniques for efficient record segmentation in large
    shared databases.

    Examples
    --------
    >>> asked = []
    >>> concave(lambda x: asked.append(x) or min(3 * x, x + 100), 0, 1_000)[[0, 50, 51, 1_000]]
    array([   0,  150,  151, 1100])
    >>> len(asked)
    6
    """
    known: dict[int, int] = {}

    def at(x: int) -> int:
        if x not in known:
            known[x] = value(x)
        return known[x]

    out = np.full(last - first + 1, at(first), np.int64)
    # (a, b, slope of a line at a, slope of a line at b)
    open_intervals = [(first, last, at(first + 1) - at(first), 0)] if last > first else []
    while open_intervals:
        a, b, steep, flat = open_intervals.pop()
        width, rise = b - a, at(b) - at(a)
        if width == 1 or rise in (steep * width, flat * width):
            out[a - first : b - first + 1] = at(a) + rise // width * np.arange(width + 1)
            continue
        # at(a) + steep·x = at(b) − flat·(width − x); 0 < x < width
        x, rest = divmod(rise - flat * width, steep - flat)
        middle = a + x + (x == 0)
        if rest == 0 and at(middle) == at(a) + steep * x:
            open_intervals += [(a, middle, steep, steep), (middle, b, flat, flat)]
            continue
        slope = at(middle + 1) - at(middle)
        open_intervals += [
            (x, y, left, right)
            for x, y, left, right in (
                (a, middle, steep, slope),
                (middle, middle + 1, slope, slope),
                (middle + 1, b, slope, flat),
            )
            if x < y
        ]
    return out
