"""The policies one query at a time, for simulators and servers of one's own.

`PrefixCache` is one cache with an eviction policy, `Router` a routing policy with its own trees of
the workers. Neither knows the queries to come, and both decide as the drivers do, since they run
the same code on a tape that grows.
"""

from kvtheory.online.prefix_cache import PrefixCache, Served
from kvtheory.online.request import Request
from kvtheory.online.router import Router

__all__ = ["PrefixCache", "Request", "Router", "Served"]
