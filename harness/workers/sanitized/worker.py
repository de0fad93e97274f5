"""Workers under compute-sanitizer: like other workers and their server, but each has a run of the tool to itself.

So whatever the tool reports while a worker has a case is that case's.  A case with reports costs its worker's station;
once that has happened, the next one is made ready beside the work.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from harness.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.errors import HarnessError, WorkerError
from harness.model.compute_sanitizer_report import Sanitized
from harness.model.paired_run import RunRequest
from harness.model.run import Completed
from harness.workers.folder import PoolFolder
from harness.workers.sanitized.tool_process import SanitizerProcess
from harness.workers.spec import WorkerSpec
from harness.workers.worker import Answer, Worker, WorkerGone

MOST_BEGIN = 64
"""So many spares are made ready at once: of several workers that lost theirs together, none waits for another's."""


class SanitizedWorker:
    """A worker, and the station that it alone uses as long as it lives."""

    def __init__(
        self, worker: Worker, station: SanitizerProcess, sanitizing: Sanitizing, server: "SanitizedServer"
    ) -> None:
        self.spec = worker.spec
        self._worker = worker
        self._station = station
        self._sanitizing = sanitizing
        self._server = server
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._worker.pid

    @property
    def is_sound(self) -> bool:
        """Whether neither answers nor the tool told of anything odd."""
        return not self._station.is_over and self._worker.is_sound

    def fit(self) -> bool:
        """Whether it may take another case."""
        return not self._station.is_over and self._worker.fit()

    def ask(self, wanted: RunRequest, *, time_limit_s: float, following: RunRequest | None = None) -> Answer:
        """Run one case, and add what the tool says of it; raises as `Worker.ask` does.  Takes no case ahead."""
        assert following is None
        try:
            run = self._worker.ask(wanted, time_limit_s=time_limit_s)()
        except WorkerGone:
            self._station.kill()  # who knows what became of the tool
            raise
        unproven = self._station.unproven(self.pid) if run.launches else ""
        seen = Sanitized(
            tool=self._sanitizing.tool,
            version=self._sanitizing.version,
            launches=len(run.launches),
            unproven=unproven,
        )
        if self._station.has_reported(patient=not isinstance(run.ending, Completed)):
            self._close()
            self._server.make_spare()
            outcome = self._station.end()
            seen = replace(seen, records=outcome.records, incomplete=outcome.incomplete)
        watched = replace(run, sanitizer=seen)
        return lambda: watched

    def kill(self) -> None:
        """Kill the child; whoever waits on it sees it end."""
        self._worker.kill()

    def close(self) -> None:
        """Kill the child and wait until it is gone; its station, if it has reported nothing, is free for another."""
        self._close()
        self._server.give_back(self._station)

    def _close(self) -> None:
        """Once: it is closed before its station is ended, and what it gave back may be another's by then."""
        if not self._is_closed:
            self._is_closed = True
            self._worker.close()


class SanitizedServer:
    """Gives workers of one spec, each on a station of its own."""

    def __init__(
        self, spec: WorkerSpec, sanitizing: Sanitizing, folder: PoolFolder, next_number: Callable[[], int]
    ) -> None:
        self.spec = spec
        self._sanitizing = sanitizing
        self._folder = folder
        self._next_number = next_number
        self._lock = threading.Lock()
        self._stations: set[SanitizerProcess] = set()
        """All that may have processes."""
        self._free: list[SanitizerProcess] = []
        self._spare: Future[SanitizerProcess] | None = None
        self._needs_spares = False
        self._threads = ThreadPoolExecutor(max_workers=MOST_BEGIN, thread_name_prefix="harness-station")
        self._closed = False

    def fork(self, number: int) -> SanitizedWorker:
        """A fresh worker on a station that has reported nothing; raises as `Server.fork` does."""
        station = self._take()
        try:
            worker = station.fork(number)
        except BaseException:
            self._drop(station)
            self._raise_if_closed()
            raise
        if self._needs_spares:
            self.make_spare()
        return SanitizedWorker(worker, station, self._sanitizing, self)

    def make_spare(self) -> None:
        """Begin to make a station ready, from now on whenever one is taken: cases of this spec cost stations."""
        with self._lock:
            self._needs_spares = True
            if self._spare is None and not self._free and not self._closed:
                self._spare = self._threads.submit(self._ready)

    def give_back(self, station: SanitizerProcess) -> None:
        """A worker is done with it."""
        if station.is_over:
            self._drop(station)
            return
        with self._lock:
            self._free.append(station)

    def close(self) -> None:
        """End every station, and with it every worker."""
        with self._lock:
            self._closed = True
            stations = tuple(self._stations)
        for station in stations:
            station.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise WorkerError("the pool is closed")

    def _take(self) -> SanitizerProcess:
        with self._lock:
            if self._free:
                return self._free.pop()
            spare, self._spare = self._spare, None
        if spare is not None:
            with suppress(
                HarnessError
            ):  # what stopped it in the background is met again, and raised, in the foreground
                return spare.result()
        return self._new()

    def _new(self) -> SanitizerProcess:
        with self._lock:
            self._raise_if_closed()
            station = SanitizerProcess(self.spec, self._sanitizing, self._folder, self._next_number())
            self._stations.add(station)
            return station

    def _ready(self) -> SanitizerProcess:
        """A station that has loaded everything."""
        station = self._new()
        try:
            station.fork(self._next_number()).close()
        except BaseException:
            self._drop(station)
            raise
        return station

    def _drop(self, station: SanitizerProcess) -> None:
        station.kill()
        with self._lock:
            self._stations.discard(station)
