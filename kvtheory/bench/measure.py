"""One measured number, and how it is taken."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measurement:
    """A number with the spread of its repetitions.

    Parameters
    ----------
    name
        What was measured.
    value, unit
        The median and what it counts; ``low`` and ``high`` are the extremes of the repetitions.
    goal
        What it should be: ``">= 5e6"`` or ``"<= 0.3"``; empty if there is no goal.
    note
        The work it was measured on, or why there is no number (then ``value`` is None).
    compile_seconds
        Time to compile, None where nothing is compiled.
    """

    name: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    goal: str = ""
    note: str = ""
    compile_seconds: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a number.

        Examples
        --------
        >>> Measurement("reading", 0.2, "s", goal="<= 0.3").met
        True
        """
        if not self.goal or self.value is None:
            return None
        sign, _, bound = self.goal.partition(" ")
        return self.value >= float(bound) if sign == ">=" else self.value <= float(bound)

    def as_dict(self) -> dict[str, object]:
        """The fields in order, and ``met``."""
        return {**asdict(self), "met": self.met}


def timed(work: Callable[[], object], repeats: int, warm: bool = True) -> list[float]:
    """Seconds of each of ``repeats`` runs, after one that does not count."""
    if warm:
        work()
    out = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        out.append(time.perf_counter() - begin)
    return out


def timed_apart(work: Callable[[], object], repeats: int) -> tuple[list[float], float]:
    """Seconds of each run, and what the first one, which does not count, took on top: compiling."""
    (first,) = timed(work, 1, warm=False)
    times = timed(work, repeats, warm=False)
    return times, max(0.0, first - statistics.median(times))


def missing(name: str, unit: str, error: ImportError, **more: object) -> Measurement:
    """No number, for want of a library to compare with."""
    note = f"needs pip install 'kvtheory[bench]' ({error})"
    return Measurement(name, None, unit, note=note, **more)  # type: ignore[arg-type]


def seconds(name: str, times: list[float], **more: object) -> Measurement:
    """A time."""
    return Measurement(name, statistics.median(times), "s", min(times), max(times), **more)  # type: ignore[arg-type]


def rate(name: str, amount: float, times: list[float], unit: str, **more: object) -> Measurement:
    """Work per second."""
    return Measurement(
        name,
        amount / statistics.median(times),
        unit,
        amount / max(times),
        amount / min(times),
        **more,  # type: ignore[arg-type]
    )


def times_faster(
    name: str, slow: list[float], fast: list[float], share: float = 1.0, **more: object
) -> Measurement:
    """How many times faster; the slow one did only ``share`` of the work."""
    whole = [t / share for t in slow]
    return Measurement(
        name,
        statistics.median(whole) / statistics.median(fast),
        "x",
        min(whole) / max(fast),
        max(whole) / min(fast),
        **more,  # type: ignore[arg-type]
    )
