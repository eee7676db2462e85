"""Numbers that divide every length, and every cost: what bounds may be rounded up to."""

import math
from fractions import Fraction

import numpy as np

from kvtheory.cluster import Cluster
from kvtheory.instance import Instance
from kvtheory.offline.objective import Objective, alpha_depth


def step_of(instance: Instance, cluster: Cluster) -> int:
    """A number that divides all lengths and capacities: units are counted in multiples of it."""
    beyond = instance.beyond if instance.beyond is not None else np.zeros(0, np.int64)
    numbers = (instance.tree.length, cluster.capacity, beyond)
    return math.gcd(*(int(np.gcd.reduce(a, initial=0)) for a in numbers)) or 1


def grain_of(instance: Instance, cluster: Cluster, objective: Objective, step: int) -> float:
    """The greatest number known to divide the objective of every best schedule of a routing.

    Costs are taken as the decimal numbers that they are written as.
    """
    if objective == "misses":
        return float(step)
    outputs = np.zeros(0, np.int64) if instance.output_length is None else instance.output_length
    tokens = int(np.gcd.reduce(outputs, initial=0))
    numbers: list[Fraction] = []
    for i in range(cluster.workers):
        speed = _decimal(cluster.speed[i])
        per_unit = (cluster.alpha_cached[i], cluster.alpha_miss[i])
        numbers += [_decimal(alpha) * step / speed for alpha in per_unit]
        numbers.append(_decimal(alpha_depth(cluster)[i]) / speed)
        numbers.append(_decimal(cluster.alpha_out[i]) * tokens / speed)
        numbers.append(_decimal(cluster.overhead[i]) / speed)
    top, bottom = 0, 1
    for number in numbers:
        bottom = math.lcm(bottom, number.denominator)
    for number in numbers:
        top = math.gcd(top, number.numerator * (bottom // number.denominator))
    try:
        return top / bottom
    except OverflowError:
        return 0.0


def _decimal(value: float) -> Fraction:
    return Fraction(repr(float(value)))
