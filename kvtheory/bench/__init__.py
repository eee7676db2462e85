"""How fast this library is on this machine, measured with the same work for everybody.

Times are medians of several runs without compilation, which is told apart. Ratios are taken within
one run of the program, so that they travel better between machines than times do.
"""

from kvtheory.bench.cases import CASES, run
from kvtheory.bench.hardware import machine
from kvtheory.bench.measure import Measurement

__all__ = ["CASES", "Measurement", "machine", "run"]
