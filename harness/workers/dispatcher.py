"""Submitted cases, in the order in which they came, and the threads that run them and read their answers.

One lane for each process of the pool: it asks a worker again as soon as an answer is there, while other threads read
that answer.  What waits next for the same device is known to the lane, so that a worker can have it before it is done.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from harness.errors import WorkerError
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.workers.worker import Answer

KEEP_BUSY = 4
"""So many submitted cases for each process: one runs, the worker has the next, and others wait to be sent ahead while
the last is judged."""

CLOSED = "the pool was closed before the case ran"


class PendingCase:
    """A submitted case until its run is known."""

    def __init__(self, wanted: RunRequest) -> None:
        self.wanted = wanted
        self.future = Future[Run]()
        self.attempts = 0
        """How often a worker was gone before it took the case."""


class Dispatcher:
    """The queue of one pool.  Thread-safe."""

    def __init__(
        self, count: int, serve: Callable[[PendingCase], None], finish: Callable[[PendingCase, Answer], Run]
    ) -> None:
        """`serve` runs a case, and may run more that it takes from here; `finish` makes a run of an answer."""
        self._serve = serve
        self._finish = finish
        self._waiting: deque[PendingCase] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._lanes = ThreadPoolExecutor(max_workers=count, thread_name_prefix="harness-lane")
        self._readers = ThreadPoolExecutor(max_workers=2 * count, thread_name_prefix="harness-reader")

    def submit(self, wanted: RunRequest) -> Future[Run]:
        """Run it when its turn comes.

        Raises:
            WorkerError: the lanes are closed.
        """
        waiting = PendingCase(wanted)
        with self._lock:
            if self._closed:
                raise WorkerError("the pool is closed")
            self._waiting.append(waiting)
            self._lanes.submit(self._next)
        return waiting.future

    def take_after(self, waiting: PendingCase) -> PendingCase | None:
        """The case whose turn comes now, if it is for the same device."""
        with self._lock:
            device = case_of(waiting.wanted).device
            if self._waiting and case_of(self._waiting[0].wanted).device == device:
                return self._begun(self._waiting.popleft())
        return None

    def put_back(self, waiting: PendingCase) -> None:
        """Its turn comes again at once: nothing came of it, through no fault of its own."""
        with self._lock:
            if not self._closed:
                self._waiting.appendleft(waiting)
                self._lanes.submit(self._next)
                return
        waiting.future.set_exception(WorkerError(CLOSED))

    def answered(self, waiting: PendingCase, answer: Answer) -> None:
        """Have the answer read, and whoever waits for it told."""
        self._readers.submit(self._read, waiting, answer)

    def cancel(self) -> None:
        """Take nothing more, and cancel what nobody has begun."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
        for one in waiting:
            if not one.future.cancel():  # it was put back
                one.future.set_exception(WorkerError(CLOSED))

    def join(self) -> None:
        """Wait until what was begun has ended."""
        self._lanes.shutdown(wait=True, cancel_futures=True)
        self._readers.shutdown(wait=True)

    def _next(self) -> None:
        """Serve the first in the queue; none is left where another lane took it ahead."""
        with self._lock:
            waiting = self._waiting.popleft() if self._waiting else None
        if waiting is None or self._begun(waiting) is None:
            return
        try:
            self._serve(waiting)
        except BaseException as error:
            if waiting.future.done():
                raise
            waiting.future.set_exception(error)

    def _read(self, waiting: PendingCase, answer: Answer) -> None:
        try:
            waiting.future.set_result(self._finish(waiting, answer))
        except BaseException as error:  # noqa: BLE001 - as above
            waiting.future.set_exception(error)

    @staticmethod
    def _begun(waiting: PendingCase) -> PendingCase | None:
        """The case, unless it was cancelled."""
        return waiting if waiting.future.running() or waiting.future.set_running_or_notify_cancel() else None
