"""Exact competitive ratios on small forests: a worst case and a proof for each."""

from kvtheory.ratio.exact_engine.beliefs import BeliefModel, Beliefs, Foldable
from kvtheory.ratio.exact_engine.engine import exact
from kvtheory.ratio.exact_engine.forest import Forest, forest
from kvtheory.ratio.exact_engine.models import MODELS
from kvtheory.ratio.exact_engine.result import Certificate, Exact, to_instance

__all__ = [
    "MODELS",
    "BeliefModel",
    "Beliefs",
    "Certificate",
    "Exact",
    "Foldable",
    "Forest",
    "exact",
    "forest",
    "to_instance",
]
