"""The order of work in a run: what is ready, what waits for an optimum, what is under way."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future
from concurrent.futures import wait as wait_for
from dataclasses import replace

from kvtheory.sweep.cell import Cell
from kvtheory.sweep.folder import Folder
from kvtheory.sweep.identity import versions
from kvtheory.sweep.outcome import CellFailure, PoolLost, Report
from kvtheory.sweep.plan import Plan, Planned, describe
from kvtheory.sweep.pools import Outcome, Pool
from kvtheory.sweep.work import Done, Failed, Known, OptimumTask, Work

Anything = Planned[Cell] | Planned[OptimumTask]
DEATHS = 2  # of its process, with nothing else running, before a cell is given up


class Schedule:
    """Cells that are ready, cells that wait for an optimum, and work under way.

    When a process dies, everything that was under way is under suspicion and is tried again alone,
    one after the other: so it is known which cell it was, and no other is blamed.
    """

    def __init__(
        self,
        planned: Plan,
        left: Sequence[Planned[Cell]],
        store: Folder,
        workers: Pool,
        told: Report,
        progress: Callable[[str, float], object] | None,
    ) -> None:
        self._store, self._pool, self._told = store, workers, told
        self._tell = progress or (lambda what, done: None)
        self._share = len(left) / max(1, sum(p.weight for p in left))
        self._ready: list[tuple[int, Anything]] = []
        self._waiting: dict[str, list[tuple[int, Planned[Cell]]]] = {}
        self._known: dict[str, Known] = {}
        self._suspects: deque[Anything] = deque()
        self._deaths: dict[str, int] = {}
        self._flight: dict[Future[Outcome], Anything] = {}
        for i, p in enumerate(left):
            if p.needs is None or self._recall(p.needs):
                self._ready.append((2 * i, p))
                continue
            if p.needs not in self._waiting:
                self._ready.append((2 * i - 1, planned.optima[p.needs]))
            self._waiting.setdefault(p.needs, []).append((2 * i, p))
        heapq.heapify(self._ready)

    def _recall(self, needs: str) -> bool:
        if needs not in self._known and (known := self._store.known(needs)) is not None:
            self._known[needs] = known
        return needs in self._known

    def work(self) -> None:
        """Until everything is finished or has failed."""
        try:
            while self._send():
                done, _ = wait_for(self._flight, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=_died):  # results before deaths
                    self._receive(future)
        finally:
            for future in self._flight:
                future.cancel()

    def _send(self) -> bool:
        """Begin what there is room for; False if nothing is left."""
        while len(self._flight) < self._room() and (p := self._next()) is not None:
            self._tell(describe(p.task), 0.0)
            known = None if p.needs is None else self._known[p.needs]
            try:
                future = self._pool.submit(
                    Work(p.name, p.task, p.source, p.digest, versions(), known)
                )
            except BrokenExecutor:
                future = Future()
                future.set_exception(BrokenExecutor())
            self._flight[future] = p
        return bool(self._flight)

    def _room(self) -> int:
        # twice the workers: none of them waits for this process to write a result
        return 1 if self._suspects or self._alone() else max(1, 2 * self._pool.workers)

    def _alone(self) -> bool:
        return any(p.name in self._deaths for p in self._flight.values())

    def _next(self) -> Anything | None:
        if self._suspects:
            return self._suspects.popleft()
        while self._ready:
            _, p = heapq.heappop(self._ready)
            if isinstance(p.task, OptimumTask) or not self._store.cell(p.name).is_file():
                return p
            self._finished(p)  # by another run
        return None

    def _receive(self, future: "Future[Outcome]") -> None:
        if future not in self._flight:
            return  # a process died, and it is under suspicion
        p = self._flight[future]
        try:
            outcome = future.result()
        except BrokenExecutor:
            self._try_alone()
            return
        except CancelledError:
            raise PoolLost("the executor or its scheduler has ended before the work") from None
        except Exception as error:
            # such as dask's, when a cell has killed several workers
            outcome = Failed(f"{type(error).__name__}: {error}", "")
        del self._flight[future]
        if isinstance(outcome, Failed):
            self._failed(p, outcome)
        elif isinstance(outcome.result, Known):
            self._store.write_known(p.name, outcome.result)
            self._known[p.name] = outcome.result
            for entry in self._waiting.pop(p.name, ()):
                heapq.heappush(self._ready, entry)
        else:
            self._keep(p, outcome)

    def _keep(self, p: Anything, outcome: Done) -> None:
        times = {"seconds": outcome.seconds, "compile_seconds": outcome.compile_seconds}
        self._store.write_cell(p.name, p.task, outcome.result, times)  # type: ignore[arg-type]
        self._told.compile_seconds += outcome.compile_seconds
        self._finished(p)

    def _finished(self, p: Anything) -> None:
        self._told.done += 1
        self._tell(describe(p.task), p.weight * self._share)

    def _failed(self, p: Anything, failed: Failed) -> None:
        if isinstance(p.task, OptimumTask):
            reason = replace(failed, error=f"{describe(p.task)}: {failed.error}")
            for _, cell in self._waiting.pop(p.name, ()):
                self._failed(cell, reason)
            return
        self._store.write_failure(p.name, p.task, failed)
        self._told.failures.append(CellFailure(p.name, p.task, failed.error))
        self._tell(describe(p.task), p.weight * self._share)

    def _try_alone(self) -> None:
        suspects = list(self._flight.values())
        self._flight.clear()
        if not self._pool.renew():
            raise PoolLost("the executor's processes have died; it cannot be used again")
        for p in suspects:
            # alone, and known to be: then it was this one
            self._deaths[p.name] = self._deaths.get(p.name, 0) + (len(suspects) == 1)
            if self._deaths[p.name] >= DEATHS:
                told = "its process died each time, perhaps for want of memory"
                self._failed(p, Failed(told, ""))
            else:
                self._suspects.append(p)


def _died(future: "Future[Outcome]") -> bool:
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)
