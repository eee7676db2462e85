"""Ctrl-C and SIGTERM end a command once, quietly, and whenever they come."""

import atexit
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

AGAIN_SECONDS = 0.01


@contextmanager
def interruptible() -> Generator[None]:
    """While a command runs, SIGTERM is a `KeyboardInterrupt` too, and none gets lost.

    SIGTERM raises it with the number of the signal, so that what is finished is shown as after
    Ctrl-C. Python drops what is raised in a finaliser or in a callback of the garbage collector,
    of which jax has one: then it is raised again a moment later, outside of that. After the
    command a signal finds nothing to stop but the interpreter on its way out, and is ignored
    there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    term = signal.signal(signal.SIGTERM, _raise)
    alarm = signal.signal(signal.SIGALRM, _raise)
    hook = sys.unraisablehook

    def unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            number = lost.exc_value.args[0] if lost.exc_value.args else signal.SIGINT
            signal.signal(signal.SIGALRM, lambda *_: _raise(number, None))
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        else:
            hook(lost)

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGTERM, term)
        # the last to be registered runs first, before the libraries clean up
        for number in (signal.SIGINT, signal.SIGTERM):
            atexit.register(signal.signal, number, signal.SIG_IGN)


def _raise(number: int, frame: object) -> None:
    raise KeyboardInterrupt(*([] if number == signal.SIGINT else [number]))
