"""Offline optima: what the best schedule could have done, knowing the future."""

from kvtheory.offline.belady import belady
from kvtheory.offline.certificate import Certificate, Check, check_certificate
from kvtheory.offline.evictions import evictions, from_evictions
from kvtheory.offline.layers import optimum_over_time
from kvtheory.offline.optimum import Optimum, optimum
from kvtheory.offline.replay import replay, verify
from kvtheory.offline.schedule import Schedule, ScheduleError

__all__ = [
    "Certificate",
    "Check",
    "Optimum",
    "Schedule",
    "ScheduleError",
    "belady",
    "check_certificate",
    "evictions",
    "from_evictions",
    "optimum",
    "optimum_over_time",
    "replay",
    "verify",
]
