"""Workers under compute-sanitizer: each has a run of the tool to itself.

So whatever the tool reports while a worker has a case belongs to that case.  A case with reports costs its worker's
sanitizer process.  Once that has happened, the next one is started in the background.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.errors import HarnessError, WorkerError
from harness.model.compute_sanitizer_report import Sanitized
from harness.model.paired_run import RunRequest
from harness.model.run import Completed
from harness.workers.folder import PoolFolder
from harness.workers.interfaces import Answer, WorkerGone
from harness.workers.sanitized.sanitizer_process import SanitizerProcess
from harness.workers.spec import WorkerSpec
from harness.workers.worker import Worker

MOST_AT_ONCE = 64
"""Sanitizer processes that start at once: of several workers that lost theirs together, none waits for another's."""


class SanitizedWorker:
    """A worker, and the sanitizer process that it alone uses as long as it lives."""

    takes_ahead = False
    """A report could belong to either case."""

    def __init__(
        self, worker: Worker, process: SanitizerProcess, sanitizing: Sanitizing, server: "SanitizedServer"
    ) -> None:
        self.spec = worker.spec
        self._worker = worker
        self._process = process
        self._sanitizing = sanitizing
        self._server = server
        self._is_closed = False

    @property
    def is_sound(self) -> bool:
        return not self._process.is_over and self._worker.is_sound

    def is_fit(self) -> bool:
        return not self._process.is_over and self._worker.is_fit()

    def activity(self) -> str:
        return self._worker.activity()

    def ask(self, request: RunRequest, *, time_limit_s: float, following: RunRequest | None = None) -> Answer:
        """Run one case, and add what the tool reports: see `CaseWorker.ask`."""
        assert following is None
        try:
            run = self._worker.ask(request, time_limit_s=time_limit_s)()
        except WorkerGone:
            self._process.kill()  # the state of the tool is unknown
            raise
        sanitized = Sanitized(
            tool=self._sanitizing.tool,
            version=self._sanitizing.version,
            launches=len(run.launches),
            unproven=self._process.unproven(self._worker.pid) if run.launches else "",
        )
        if self._process.has_reported(patient=not isinstance(run.ending, Completed)):
            # The tool saves its records when its last process has ended, and this worker is one of them.
            self._close_worker()
            self._server.prewarm()
            report = self._process.end()
            sanitized = replace(sanitized, records=report.records, incomplete=report.incomplete)
        run = replace(run, sanitizer=sanitized)
        return lambda: run

    def kill(self) -> None:
        self._worker.kill()

    def close(self) -> None:
        """Close the worker.  Its sanitizer process is free for another if it has reported nothing."""
        self._close_worker()
        self._server.give_back(self._process)

    def _close_worker(self) -> None:
        """Close it once only: its process id may belong to another process afterwards."""
        if not self._is_closed:
            self._is_closed = True
            self._worker.close()


class SanitizedServer:
    """Makes workers of one spec, each on a sanitizer process of its own.  Thread-safe."""

    def __init__(
        self, spec: WorkerSpec, sanitizing: Sanitizing, folder: PoolFolder, next_number: Callable[[], int]
    ) -> None:
        self._spec = spec
        self._sanitizing = sanitizing
        self._folder = folder
        self._next_number = next_number
        self._lock = threading.Lock()
        self._processes: set[SanitizerProcess] = set()
        """All that may be running."""
        self._free: list[SanitizerProcess] = []
        self._prewarmed: Future[SanitizerProcess] | None = None
        self._keeps_prewarmed = False
        self._threads = ThreadPoolExecutor(max_workers=MOST_AT_ONCE, thread_name_prefix="harness-sanitizer")
        self._is_closed = False

    def fork(self, number: int) -> SanitizedWorker:
        """A fresh worker on a sanitizer process that has reported nothing; raises as `SanitizerProcess.fork`."""
        process = self._take()
        try:
            worker = process.fork(number)
        except BaseException:
            self._drop(process)
            self._raise_if_closed()  # which explains why the process was killed
            raise
        if self._keeps_prewarmed:
            self.prewarm()
        return SanitizedWorker(worker, process, self._sanitizing, self)

    def prewarm(self) -> None:
        """Start a sanitizer process, now and whenever one is taken: cases of this spec cost such processes."""
        with self._lock:
            self._keeps_prewarmed = True
            if self._prewarmed is None and not self._free and not self._is_closed:
                self._prewarmed = self._threads.submit(self._loaded)

    def give_back(self, process: SanitizerProcess) -> None:
        """Take back the sanitizer process of a worker that was closed."""
        if process.is_over:
            self._drop(process)
            return
        with self._lock:
            self._free.append(process)

    def close(self) -> None:
        """Kill every sanitizer process, and with it every worker."""
        with self._lock:
            self._is_closed = True
            processes = tuple(self._processes)
        for process in processes:
            process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise WorkerError("the pool is closed")

    def _take(self) -> SanitizerProcess:
        with self._lock:
            if self._free:
                return self._free.pop()
            prewarmed, self._prewarmed = self._prewarmed, None
        if prewarmed is not None:
            # An obstacle in the background is met again in the foreground, which raises it.
            with suppress(HarnessError):
                return prewarmed.result()
        return self._new()

    def _new(self) -> SanitizerProcess:
        with self._lock:
            self._raise_if_closed()
            process = SanitizerProcess(self._spec, self._sanitizing, self._folder, self._next_number())
            self._processes.add(process)
            return process

    def _loaded(self) -> SanitizerProcess:
        """A sanitizer process that has loaded everything and passed its self-test."""
        process = self._new()
        try:
            process.fork(self._next_number()).close()
        except BaseException:
            self._drop(process)
            raise
        return process

    def _drop(self, process: SanitizerProcess) -> None:
        process.kill()
        with self._lock:
            self._processes.discard(process)
