"""The layers: the optimum of one cache for every prefix of a sequence, found without looking ahead.

Three forms of one rule. `Layers` is a value on single units, for exact engines and proofs;
`EdgeLayers` counts on the edges of a compressed tree, in plain Python; `kvtheory.layers.device`
is the same on the device, for scans and policies. Plain Python here, no JAX.
"""

from kvtheory.layers.edges import EdgeLayers
from kvtheory.layers.units import Layers, mask_of

__all__ = ["EdgeLayers", "Layers", "mask_of"]
