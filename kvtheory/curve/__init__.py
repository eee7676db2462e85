"""Hit rates against capacity: leaf LRU and the optimum at every capacity, the others at some."""

from kvtheory.curve.hit_curve import HitCurve
from kvtheory.curve.leaf_lru import leaf_lru_curve, leaf_lru_hits
from kvtheory.curve.optimum import optimum_curve, optimum_hits

__all__ = ["HitCurve", "leaf_lru_curve", "leaf_lru_hits", "optimum_curve", "optimum_hits"]
