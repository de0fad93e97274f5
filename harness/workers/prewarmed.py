"""Workers that are started before a case needs them, for pools in which every case has a process of its own.

Starting takes longer than most cases: on a hardware GPU, a context.  So while a case runs, the processes of the next
ones start.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from harness.errors import HarnessError
from harness.workers.interfaces import CaseWorker
from harness.workers.spec import WorkerSpec

AHEAD = 2
"""Prewarmed workers of each spec: one starts while the other waits for its case.  On a GPU, each holds a context."""


class PrewarmedWorkers:
    """The prewarmed workers of one pool.  Thread-safe."""

    def __init__(
        self, fork: Callable[[WorkerSpec], CaseWorker], discard: Callable[[CaseWorker], None], most: int
    ) -> None:
        """`most` limits the workers that are kept for all specs together."""
        self._fork = fork
        self._discard = discard
        self._most = max(AHEAD, most)
        self._threads = ThreadPoolExecutor(AHEAD, thread_name_prefix="harness-prewarm")
        self._lock = threading.Lock()
        self._started: list[tuple[WorkerSpec, Future[CaseWorker]]] = []
        """Oldest first."""

    def take(self, spec: WorkerSpec) -> CaseWorker:
        """A worker that was started before, or else a new one.  Starts others for the next cases.

        Raises:
            HarnessError: as `fork`.
        """
        started = self._pop(spec)
        if started is None:
            worker = self._fork(spec)
            self._start_missing(spec)
            return worker
        self._start_missing(spec)
        try:
            worker = started.result()
        except HarnessError:  # perhaps for want of memory that the case before held
            return self._fork(spec)
        if worker.is_fit():
            return worker
        self._discard(worker)
        return self._fork(spec)

    def close(self) -> None:
        """Discard all of them.  From now on `fork` must raise, or return workers that can be discarded."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            started, self._started = self._started, []
        for _, future in started:
            self._discard_result(future)

    def _pop(self, spec: WorkerSpec) -> Future[CaseWorker] | None:
        with self._lock:
            at = next((at for at, (known, _) in enumerate(self._started) if known == spec), None)
            return None if at is None else self._started.pop(at)[1]

    def _start_missing(self, spec: WorkerSpec) -> None:
        with self._lock:
            missing = AHEAD - sum(known == spec for known, _ in self._started)
            try:
                self._started += [(spec, self._threads.submit(self._fork, spec)) for _ in range(missing)]
            except RuntimeError:  # the pool was closed
                return
            surplus = [self._started.pop(0)[1] for _ in range(len(self._started) - self._most)]
        for future in surplus:  # one that still starts is discarded by the thread that starts it
            future.add_done_callback(self._discard_result)

    def _discard_result(self, future: Future[CaseWorker]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._discard(future.result())
