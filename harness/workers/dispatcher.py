"""The queue of submitted cases, and the threads that run them and decode their answers.

Each process of the pool has one running thread.  It asks its worker again as soon as an answer is there, while other
threads decode that answer.  It can also take the next case ahead if the same worker can run it.  The worker then has
it before the current one is done.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from harness.errors import WorkerError
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.workers.interfaces import Answer

KEEP_BUSY = 4
"""The number of submitted cases that keeps one process busy.

One runs, the worker has the next, and others wait to be sent ahead while the last is checked.
"""
CLOSED = "the pool was closed before the case ran"


class PendingCase:
    """A submitted case until its run is known."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.future = Future[Run]()
        self.attempts = 0
        """The number of workers that were gone before they took the case."""


class Dispatcher:
    """The queue of one pool.  Thread-safe."""

    def __init__(
        self, count: int, run: Callable[[PendingCase], None], finish: Callable[[PendingCase, Answer], Run]
    ) -> None:
        """`run` runs a case, and others that it takes ahead; `finish` turns an answer into a run."""
        self._run = run
        self._finish = finish
        self._queue: deque[PendingCase] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._runners = ThreadPoolExecutor(max_workers=count, thread_name_prefix="harness-runner")
        self._decoders = ThreadPoolExecutor(max_workers=2 * count, thread_name_prefix="harness-decoder")

    def submit(self, request: RunRequest) -> Future[Run]:
        """Queue a request.

        Raises:
            WorkerError: the dispatcher is closed.
        """
        pending = PendingCase(request)
        with self._lock:
            if self._is_closed:
                raise WorkerError("the pool is closed")
            self._queue.append(pending)
            self._runners.submit(self._run_next)
        return pending.future

    def take_ahead(self, pending: PendingCase) -> PendingCase | None:
        """The first case of the queue, if it is for the same device and environment as this one."""
        with self._lock:
            if self._queue and case_of(self._queue[0].request).process == case_of(pending.request).process:
                return self._started(self._queue.popleft())
        return None

    def put_back(self, pending: PendingCase) -> None:
        """Put a case in front of the queue again: it did not run, through no fault of its own."""
        with self._lock:
            if not self._is_closed:
                self._queue.appendleft(pending)
                self._runners.submit(self._run_next)
                return
        pending.future.set_exception(WorkerError(CLOSED))

    def decode(self, pending: PendingCase, answer: Answer) -> None:
        """Have another thread decode the answer and set the result of the case."""
        self._decoders.submit(self._decode, pending, answer)

    def cancel(self) -> None:
        """Take no more cases, and cancel those in the queue."""
        with self._lock:
            self._is_closed = True
            queued = list(self._queue)
            self._queue.clear()
        for pending in queued:
            if not pending.future.cancel():  # it was put back, so its future counts as running
                pending.future.set_exception(WorkerError(CLOSED))

    def join(self) -> None:
        """Wait until every started case has ended; after `cancel`."""
        self._runners.shutdown(wait=True, cancel_futures=True)
        self._decoders.shutdown(wait=True)

    def _run_next(self) -> None:
        """Run the first case of the queue; it is empty where another thread took the case ahead."""
        with self._lock:
            pending = self._queue.popleft() if self._queue else None
        if pending is None or self._started(pending) is None:
            return
        try:
            self._run(pending)
        except BaseException as error:
            if pending.future.done():
                raise
            pending.future.set_exception(error)

    def _decode(self, pending: PendingCase, answer: Answer) -> None:
        try:
            pending.future.set_result(self._finish(pending, answer))
        except BaseException as error:  # noqa: BLE001 - the thread that waits for the case raises it
            pending.future.set_exception(error)

    @staticmethod
    def _started(pending: PendingCase) -> PendingCase | None:
        """The case, its future marked as running; None if the case was cancelled."""
        # One that was put back is marked already, and marking it twice would raise.
        return pending if pending.future.running() or pending.future.set_running_or_notify_cancel() else None
