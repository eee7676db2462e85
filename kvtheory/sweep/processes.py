"""What the processes of a sweep have in common: compiled programs, and how they end."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

_OPTIONS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def share_programs(folder: str | Path) -> None:
    """Load compiled programs from a folder, and keep new ones there, in this process.

    To be called in a process that works for a sweep; the library does not call it by itself. A
    folder that this machine does not have is passed over.
    """
    if Path(folder).is_dir():
        reset_cache()  # JAX looks at the options once, when it first compiles
        for name, value in _OPTIONS.items():
            jax.config.update(name, str(folder) if value is None else value)
        # a process that was killed may have left half a program: it is compiled again
        warnings.filterwarnings("ignore", message="Error reading persistent compilation cache")
        warnings.filterwarnings("ignore", message="Error writing persistent compilation cache")


@contextmanager
def shared_programs(folder: str | Path) -> Generator[None]:
    """`share_programs` for a while, in a process that has other things to do."""
    before = {name: getattr(jax.config, name) for name in _OPTIONS}
    with warnings.catch_warnings():
        share_programs(folder)
        try:
            yield
        finally:
            reset_cache()
            for name, value in before.items():
                jax.config.update(name, value)


def start_worker(folder: str | Path, parent: int) -> None:
    """Begin a process of the pool: it leaves interrupts to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share_programs(folder)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
