"""Where the work of a sweep is done: here, in processes of this machine, or on a cluster.

No process is forked: JAX has threads, and a fork of a process with threads may hang.
"""

import os
import warnings
from collections.abc import Generator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from kvtheory.errors import InputError, bad
from kvtheory.sweep.processes import share_programs, shared_programs, start_worker
from kvtheory.sweep.work import Done, Failed, Work, attempt

AT_ONCE = 256  # pieces of work sent to an executor that does not tell its number of workers
REACH = 10  # seconds to wait for a scheduler

Outcome = Done | Failed


class Pool(Protocol):
    """Takes work and answers with futures."""

    workers: int

    def submit(self, work: Work) -> "Future[Outcome]":
        """Begin a piece of work."""
        ...

    def renew(self) -> bool:
        """Replace processes that have died; False if that is not ours to do."""
        ...


class Inline:
    """This process."""

    workers = 0  # a piece is done when it is submitted, so that none waits

    def submit(self, work: Work) -> "Future[Outcome]":
        """Do a piece of work."""
        future: Future[Outcome] = Future()
        future.set_result(attempt(work))
        return future

    def renew(self) -> bool:
        """Nothing to replace."""
        return False


class Given:
    """An executor of somebody else's."""

    def __init__(self, executor: Executor, workers: int | None) -> None:
        self._executor = executor
        self.workers = workers or getattr(executor, "_max_workers", None) or AT_ONCE

    def submit(self, work: Work) -> "Future[Outcome]":
        """Begin a piece of work."""
        return self._executor.submit(attempt, work)

    def renew(self) -> bool:
        """Not ours."""
        return False


class Loky:
    """Processes of this machine, through loky."""

    def __init__(self, workers: int, compiled: Path) -> None:
        self.workers = workers
        self._compiled = compiled
        self._executor = self._start()

    def _start(self) -> Any:
        try:
            from loky import ProcessPoolExecutor
        except ImportError:
            raise InputError("several processes need loky: pip install 'kvtheory[sweep]'") from None
        return ProcessPoolExecutor(
            self.workers, initializer=start_worker, initargs=(self._compiled, os.getpid())
        )

    def submit(self, work: Work) -> "Future[Outcome]":
        """Begin a piece of work."""
        return self._executor.submit(attempt, work)

    def renew(self) -> bool:
        """Start new processes."""
        self.stop()
        self._executor = self._start()
        return True

    def stop(self) -> None:
        """End the processes, whatever they do."""
        self._executor.shutdown(wait=True, kill_workers=True)


def pool(
    executor: str | Executor, jobs: int | None, compiled: Path
) -> AbstractContextManager[Pool]:
    """The pool that an executor stands for, ended with the block.

    Parameters
    ----------
    executor
        ``"inline"``, ``"loky"``, ``"dask"`` for processes of this machine under dask, the address
        of a dask scheduler (``"tcp://…"``), or any `concurrent.futures.Executor`. An executor
        must not fork: `ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))`;
        `kvtheory.sweep.share_programs` as its initialiser saves compilations.
    jobs
        Processes; of a given executor, how many pieces it works on at once.
    compiled
        Folder of compiled programs.

    Raises
    ------
    InputError
        For an unknown executor, a package that is missing, or a scheduler out of reach.
    """
    if jobs is not None and jobs < 1:
        raise bad("jobs", jobs, "must be at least 1")
    if isinstance(executor, Executor):
        return _given(executor, jobs)
    if executor == "inline":
        return _inline(compiled)
    if executor == "loky":
        return _loky(jobs or os.cpu_count() or 1, compiled)
    if executor == "dask" or "://" in executor:
        return _dask(executor, jobs, compiled)
    rule = "must be 'inline', 'loky', 'dask', tcp://HOST:PORT, or an executor"
    raise bad("executor", executor, rule)


@contextmanager
def _inline(compiled: Path) -> Generator[Pool]:
    with shared_programs(compiled):
        yield Inline()


@contextmanager
def _given(executor: Executor, jobs: int | None) -> Generator[Pool]:
    yield Given(executor, jobs)


@contextmanager
def _loky(jobs: int, compiled: Path) -> Generator[Pool]:
    with warnings.catch_warnings():
        # loky replaces processes whose memory grows; JAX's grows with each program
        warnings.filterwarnings("ignore", message="A worker stopped")
        pool = Loky(jobs, compiled)
        try:
            yield pool
        finally:
            pool.stop()


@contextmanager
def _dask(address: str, jobs: int | None, compiled: Path) -> Generator[Pool]:
    try:
        from distributed import Client, LocalCluster, WorkerPlugin
    except ImportError:
        raise InputError("dask clusters need dask: pip install 'kvtheory[cluster]'") from None

    class Programs(WorkerPlugin):
        """Sees to the compiled programs of each worker, also of one that comes later."""

        name = "kvtheory-programs"

        def setup(self, worker: object) -> None:
            share_programs(compiled)

    where: Any = address
    if address == "dask":
        where = LocalCluster(
            n_workers=jobs or os.cpu_count() or 1, threads_per_worker=1, dashboard_address=None
        )
    try:
        try:
            client = Client(where, timeout=REACH)
        except (OSError, ValueError) as error:
            told = " ".join(str(error).split())
            raise InputError(f"scheduler {address}: cannot be reached: {told}") from None
        with client:
            client.register_plugin(Programs())
            try:
                client.wait_for_workers(1, timeout=REACH)
            except TimeoutError:
                raise InputError(f"scheduler {address}: has no workers") from None
            threads = sum(client.nthreads().values())
            yield Given(client.get_executor(pure=False), jobs or threads)
    finally:
        if address == "dask":
            where.close()
