"""The machine that a measurement was made on."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "kvtheory",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "cvxpy",
    "highspy",
    "libcachesim",
    "kvcache-simulator",
)


def machine() -> dict[str, str]:
    """Processor, cores, memory, load, system and versions, by name.

    The load is the mean number of processes that wanted a core over the last minute, the
    benchmark's own included: above the number of cores, times are longer than they need be.
    """
    import jax

    device = jax.devices()[0]
    return {
        "date": date.today().isoformat(),
        "processor": _processor(),
        "cores": f"{len(_cores())} used of {os.cpu_count()}",
        "memory": f"{_memory() / 2**30:.0f} GiB",
        "load": _load(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "device": f"{device.platform}: {device.device_kind}",
        **{name: _version(name) for name in PACKAGES},
    }


def use_cores(number: int) -> None:
    """Keep this process on ``number`` cores; to be called before jax starts its threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(_cores())[:number])


def _cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
