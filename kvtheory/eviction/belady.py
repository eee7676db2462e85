"""Belady's rule: the leaf unit whose next use is farthest goes."""

from typing import ClassVar

import equinox as eqx
import numpy as np

from kvtheory.cache import Admission, Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit
from kvtheory.instance import Instance
from kvtheory.next_use import next_use


class Belady(KeyPolicy):
    """Evict the leaf unit with the farthest next use; optimal where a miss costs the same.

    A descendant is never used before its ancestor, so the leaf rule costs nothing.

    Parameters
    ----------
    bypass
        ``True`` lets units of the query itself go, which no online policy may do.

    Guarantee
    ---------
    The fewest misses of any policy with the same admission (not with ``oversize="skip"``).
    """

    bypass: bool = eqx.field(static=True, default=False)

    name: ClassVar[str] = "belady"
    source: ClassVar[str] = "Belady 1966; Mattson et al. 1970"
    guarantee: ClassVar[str] = "optimal (offline, equal miss costs)"
    online: ClassVar[bool] = False

    @property
    def admission(self) -> Admission:
        return "bypass" if self.bypass else "forced"

    def look_ahead(self, instance: Instance, served: np.ndarray | None) -> dict[str, np.ndarray]:
        return {"next_use": next_use(instance.log, served)}

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return -tape.prepared.position["next_use"][unit.last]
