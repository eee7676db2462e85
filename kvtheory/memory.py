"""The memory that a run may take: of a device that tells, of the host otherwise; in bytes."""

import os
from pathlib import Path

import jax

SHARE = 0.8  # of what is free: the rest is for whatever else goes on
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def host_memory() -> int | None:
    """Bytes of this machine, or of the container, that a run may take; None if nobody knows.

    Read anew at each call: other programs come and go.
    """
    free = _available()
    limits = [free] if free is not None else []
    for path in _LIMITS:
        told = _first_word(Path(path))
        if told is not None and told.isdigit():  # "max" is no limit
            limits.append(int(told) - _resident())
    return int(SHARE * max(0, min(limits))) if limits else None


def device_memory(device: jax.Device) -> int | None:
    """Bytes of a device that a run may take; None where it uses the memory of the host."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if not stats or "bytes_limit" not in stats:
        return None
    return int(SHARE * max(0, stats["bytes_limit"] - stats.get("bytes_in_use", 0)))


def told(size: float) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> told(400e6), told(3 * 2**30), told(12)
    ('381 MiB', '3.0 GiB', '1 MiB')
    """
    if size >= 2**30:
        return f"{size / 2**30:,.1f} GiB"
    return f"{max(1, round(size / 2**20))} MiB"


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:  # no Linux: all of the machine's memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _resident() -> int:
    pages = (_first_word(Path("/proc/self/statm"), 1) or "0").strip()
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _first_word(path: Path, index: int = 0) -> str | None:
    try:
        return path.read_text().split()[index]
    except (OSError, IndexError):
        return None
