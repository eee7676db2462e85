# %% [markdown]
# # An eviction policy of one's own
#
# A key per unit: the leaf unit with the smallest key goes. Here the key is the number of queries
# that contained the unit, up to a cap: with cap 1 it is leaf LRU, with a large one LFU.
#
# Run me with `python examples/own_policy.py`.

# %%
from typing import ClassVar

import jax.numpy as jnp

from kvtheory.cache import Scalar, Tape
from kvtheory.eviction.keyed import KeyPolicy, LeafUnit
from kvtheory.instances import drift
from kvtheory.ratio import compare
from kvtheory.testing.check_eviction import check_eviction
from kvtheory.testing.twin_cache import Record
from kvtheory.testing.twins_deterministic import KeyTwin


class CappedLFU(KeyPolicy):
    """Evict the leaf unit that the fewest queries contained, counted up to a cap."""

    cap: int = 2

    name: ClassVar[str] = "capped_lfu"
    remembers_load: ClassVar[bool] = True

    def key(self, unit: LeafUnit, tape: Tape) -> Scalar:
        return jnp.minimum(unit.count, self.cap)


# %% [markdown]
# ## Is it right?
#
# The same rule in plain Python, unit by unit, and many tiny random instances. A mistake is shown
# with the smallest case that was found.


# %%
class CappedTwin(KeyTwin):
    """The rule as the text has it."""

    def key(self, record: Record) -> int:
        return min(record.count, 2)


report = check_eviction(CappedLFU(), twin=CappedTwin, examples=10)
print(f"{report.policy} passes: {', '.join(report.ran)}")

# %% [markdown]
# ## Is it good?
#
# One fifth of the popular documents is exchanged every 800 queries, and 40 % of the queries are for
# any document. Leaf LRU lets those push out what is popular, LFU holds on to what was; between the
# two it is enough to know whether a unit has been asked for twice.

# %%
instance = drift(documents=2000, hot=32, period=800, popularity=0.6, keep=0.8, requests=8000)
policies = ["llru", "slru", "lfu", *(CappedLFU(cap=cap) for cap in (1, 2, 3, 8))]
for row in compare(instance, policies, 64):
    print(f"{row.policy:18} hit rate {row.hit_rate_units:.3f}, ratio {row.ratio:.3f}")
