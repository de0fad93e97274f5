"""The pool: cases in, runs out, each in a process that wears the case's device.

Owns which fork servers and workers live, and how many.  What a case does in its worker is `worker`'s business.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from types import TracebackType
from typing import Self

from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.companion import Wanted, case_of
from harness.model.device import DeviceProfile
from harness.model.run import Run
from harness.workers.folder import Folder
from harness.workers.server import GroundServer, Server
from harness.workers.spec import Ground, Isolation, WorkerSpec
from harness.workers.worker import Worker, WorkerGone

CHILDREN_PER_PROCESS = 4
"""Workers kept alive for each one that may run, so that going back and forth between devices costs no fork."""

LEAST_SERVERS = 4
"""Fork servers kept alive at least; each holds the libraries as its device's, some tens of megabytes of its own."""

ATTEMPTS = 2
"""A case whose worker was gone through no fault of the case's gets another."""


class Pool:
    """Runs cases in child processes, at most `processes` at once.  Thread-safe.

    A context manager: what has not come back when it is left is cancelled, and no process and no file remains.
    """

    def __init__(
        self,
        spec_of: Callable[[DeviceProfile], WorkerSpec],
        processes: int,
        time_limit_s: float,
        isolation: Isolation = Isolation.WORKER,
    ) -> None:
        self._spec_of = spec_of
        self._processes = processes
        self._time_limit_s = time_limit_s
        self._isolation = isolation
        self._slots = threading.BoundedSemaphore(processes)
        self._threads = ThreadPoolExecutor(max_workers=processes, thread_name_prefix="harness-worker")
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = count()
        self._folders: dict[str, Folder] = {}
        self._grounds: dict[Ground, GroundServer] = {}
        self._servers: OrderedDict[WorkerSpec, Server] = OrderedDict()
        """Least recently used first, and so are the workers below."""
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._in_use: dict[WorkerSpec, int] = {}
        """How many threads need a spec's server now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def submit(self, wanted: Wanted) -> Future[Run]:
        """Run a case, or one beside another, when its turn comes."""
        return self._threads.submit(self.run, wanted)

    def run(self, wanted: Wanted) -> Run:
        """Run it now, or as soon as one of the processes is free.

        Raises:
            SuiteError, LibraryError, WorkerError: as `harness.workers.server` and `harness.workers.worker` say.
        """
        return self._run(wanted, (), reuse=self._isolation is Isolation.WORKER)

    def run_alone(self, wanted: Wanted, before: Sequence[Case] = ()) -> Run:
        """Run it in a fresh process, after `before` in the same; if those end the process, in the next."""
        return self._run(wanted, before, reuse=False)

    def prepare(self, device: DeviceProfile) -> None:
        """Start the fork server of a device, and raise what stops it from loading."""
        with self._slots:
            spec = self._spec_of(device)
            self._put_back(self._take(spec, reuse=True), reuse=True)

    def close(self) -> None:
        """Kill what runs, cancel what waits, and remove every process and temporary file."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy, servers, grounds = tuple(self._busy), tuple(self._servers.values()), tuple(self._grounds.values())
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in (*busy, *idle):
            worker.kill()
        for server in (*servers, *grounds):
            server.close()
        for worker in idle:
            worker.close()
        self._threads.shutdown(wait=True)
        for _ in range(self._processes):  # every thread that was running a case has cleared up
            self._slots.acquire()
        for folder in self._folders.values():
            folder.remove()
        self._folders.clear()
        self._slots.release(self._processes)

    def _run(self, wanted: Wanted, before: Sequence[Case], *, reuse: bool) -> Run:
        with self._slots:
            spec = self._spec_of(case_of(wanted).device)
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return self._attempt(spec, (*before, wanted), reuse=reuse)
                except WorkerGone:
                    if self._closed:
                        raise WorkerError("the pool was closed while the case ran") from None
                    if attempt == ATTEMPTS:
                        raise
            raise AssertionError("the last attempt returns or raises")

    def _attempt(self, spec: WorkerSpec, cases: Sequence[Wanted], *, reuse: bool) -> Run:
        """The run of the last case, all of them in one process as long as it lives."""
        worker = self._take(spec, reuse=reuse)
        try:
            run = worker.run(cases[0], time_limit_s=self._time_limit_s)
            for case in cases[1:]:
                if not worker.fit():
                    break
                run = worker.run(case, time_limit_s=self._time_limit_s)
        finally:
            self._put_back(worker, reuse=reuse)
        if self._closed:
            raise WorkerError("the pool was closed while the case ran")
        return run if run.case == case_of(cases[-1]) else self._attempt(spec, cases[-1:], reuse=False)

    # --- which workers and servers live ------------------------------------------------------------------------------

    def _take(self, spec: WorkerSpec, *, reuse: bool) -> Worker:
        """A worker for this thread alone: an idle one if it may be, or a new one."""
        while reuse and (worker := self._take_idle(spec)):
            if worker.fit():
                return worker
            self._put_back(worker, reuse=False)  # it died while it had nothing to do
        server, superfluous = self._server(spec)
        try:
            for one in superfluous:
                one.close()
            worker = server.fork(next(self._numbers))
        except BaseException:
            self._release(spec)
            raise
        with self._lock:
            self._busy.add(worker)
            closed = self._closed
        if closed:
            worker.kill()
        return worker

    def _take_idle(self, spec: WorkerSpec) -> Worker | None:
        with self._lock:
            for worker in reversed(self._idle):
                if worker.spec == spec:
                    self._idle.remove(worker)
                    self._busy.add(worker)
                    self._use(spec)
                    return worker
        return None

    def _put_back(self, worker: Worker, *, reuse: bool) -> None:
        keep = reuse and worker.fit()
        with self._lock:
            self._busy.discard(worker)
            keep = keep and not self._closed
            if keep:
                self._idle.append(worker)
            surplus = len(self._idle) + len(self._busy) - CHILDREN_PER_PROCESS * self._processes
            retired = [self._idle.pop(0) for _ in range(min(surplus, len(self._idle)))]
        for one in retired if keep else (*retired, worker):
            one.close()
        self._release(worker.spec)

    def _server(self, spec: WorkerSpec) -> tuple[Server, list[Worker | Server]]:
        """The server of a spec, and what has to go because there are too many."""
        with self._lock:
            if self._closed:
                raise WorkerError("the pool is closed")
            self._use(spec)
            if spec not in self._servers:
                if spec.scratch not in self._folders:
                    self._folders[spec.scratch] = Folder(spec.scratch)
                folder = self._folders[spec.scratch]
                if spec.ground not in self._grounds:
                    self._grounds[spec.ground] = GroundServer(spec.ground, folder, next(self._numbers))
                self._servers[spec] = Server(spec, self._grounds[spec.ground], folder, next(self._numbers))
            return self._servers[spec], self._retire_servers()

    def _retire_servers(self) -> list[Worker | Server]:
        surplus = len(self._servers) - max(LEAST_SERVERS, self._processes)
        unused = [spec for spec in self._servers if not self._in_use.get(spec)][: max(0, surplus)]
        gone: list[Worker | Server] = [worker for worker in self._idle if worker.spec in unused]
        self._idle = [worker for worker in self._idle if worker.spec not in unused]
        return [*gone, *(self._servers.pop(spec) for spec in unused)]

    def _use(self, spec: WorkerSpec) -> None:
        self._in_use[spec] = self._in_use.get(spec, 0) + 1
        if spec in self._servers:
            self._servers.move_to_end(spec)

    def _release(self, spec: WorkerSpec) -> None:
        with self._lock:
            self._in_use[spec] -= 1
