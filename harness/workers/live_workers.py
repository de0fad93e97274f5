"""The workers and fork servers of one pool: which live, which are idle, and which must go.

Workers are kept so that going back and forth between devices costs no fork, and servers so that it costs no loading.
The least recently used go first.
"""

import threading
from collections import OrderedDict
from itertools import count
from typing import Protocol

from harness.errors import WorkerError
from harness.workers.folder import PoolFolder
from harness.workers.fork_servers.device_server import DeviceServer
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.interfaces import CaseWorker, WorkerServer
from harness.workers.prewarmed import PrewarmedWorkers
from harness.workers.sanitized.worker import SanitizedServer
from harness.workers.spec import Isolation, WorkerSpec

CHILDREN_PER_PROCESS = 4
"""Workers kept alive for each one that may run."""
LEAST_SERVERS = 4
"""Fork servers kept alive at least; each holds its libraries, some tens of megabytes of its own."""
LOADING = "importing torch, Triton and the library under test"


class Closable(Protocol):
    def close(self) -> None: ...


class LiveWorkers:
    """Thread-safe."""

    def __init__(self, processes: int, isolation: Isolation, shared_zygotes: SharedZygotes | None) -> None:
        """`shared_zygotes` outlive the pool; without them the pool has its own."""
        self._processes = processes
        self._isolation = isolation
        self._zygotes = SharedZygotes() if shared_zygotes is None else shared_zygotes
        self._owns_zygotes = shared_zygotes is None
        self._prewarmed = PrewarmedWorkers(self._fork, self._discard, most=2 * processes)
        self._lock = threading.Lock()
        self._is_closed = False
        self._numbers = count()
        self._folders: dict[str, PoolFolder] = {}
        """By `WorkerSpec.scratch`."""
        self._servers: OrderedDict[WorkerSpec, WorkerServer] = OrderedDict()
        """Least recently used first, and so are the idle workers."""
        self._idle: list[CaseWorker] = []
        self._busy: set[CaseWorker] = set()
        self._users: dict[WorkerSpec, int] = {}
        """The number of threads that need the server of a spec now."""

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def activity(self) -> str:
        """What cases wait for now; empty if that is not known."""
        with self._lock:
            busy, has_forked = tuple(self._busy), bool(self._busy or self._idle)
        if not has_forked and self._servers:
            return LOADING
        return next(filter(None, (worker.activity() for worker in busy)), "")

    def take(self, spec: WorkerSpec, *, reuse: bool) -> CaseWorker:
        """A worker for this thread alone: an idle one if that may be reused, or a new one.

        Raises:
            SuiteError, LibraryError, WorkerError, GpuUnavailable: as `DeviceServer.fork`.
        """
        while reuse and (worker := self._take_idle(spec)):
            if worker.is_fit():
                return worker
            self.put_back(worker, reuse=False)  # it died while it was idle
        if self._isolation is Isolation.CASE and spec.sanitizing is None:
            return self._prewarmed.take(spec)
        return self._fork(spec)

    def put_back(self, worker: CaseWorker, *, reuse: bool) -> None:
        """Keep a worker that `take` returned for a later case, or close it."""
        keep = reuse and worker.is_fit()
        with self._lock:
            self._busy.discard(worker)
            keep = keep and not self._is_closed
            if keep:
                self._idle.append(worker)
            surplus = len(self._idle) + len(self._busy) - CHILDREN_PER_PROCESS * self._processes
            retired = [self._idle.pop(0) for _ in range(min(surplus, len(self._idle)))]
        # Closing waits for a process to end, so it happens outside of the lock.
        for surplus_worker in retired if keep else (*retired, worker):
            surplus_worker.close()
        self._release(worker.spec)

    def kill_busy(self) -> None:
        """End the processes that run cases now."""
        with self._lock:
            busy = tuple(self._busy)
        for worker in busy:
            worker.kill()

    def mark_closed(self) -> None:
        """Start no more processes: from here on `take` raises."""
        with self._lock:
            self._is_closed = True

    def kill_all(self) -> None:
        """End every process, after `mark_closed`; threads that wait for an answer see their worker end."""
        with self._lock:
            idle, self._idle = self._idle, []
            busy, servers = tuple(self._busy), tuple(self._servers.values())
        # Workers first: their process groups are killed with them, and those of an ended server would be unknown.
        for worker in (*busy, *idle):
            worker.kill()
        for server in servers:
            server.close()
        if self._owns_zygotes:
            self._zygotes.close()
        for worker in idle:
            worker.close()

    def close_prewarmed(self) -> None:
        """Close the workers that no thread has taken; after `kill_all`."""
        self._prewarmed.close()

    def remove_files(self) -> None:
        """Remove all temporary files, when no thread has a worker any more."""
        for folder in self._folders.values():
            folder.remove()
        self._folders.clear()

    def _take_idle(self, spec: WorkerSpec) -> CaseWorker | None:
        with self._lock:
            for worker in reversed(self._idle):
                if worker.spec == spec:
                    self._idle.remove(worker)
                    self._busy.add(worker)
                    self._use(spec)
                    return worker
        return None

    def _fork(self, spec: WorkerSpec) -> CaseWorker:
        server, retired = self._server(spec)
        try:
            for retired_worker in retired:
                retired_worker.close()
            worker = server.fork(next(self._numbers))
        except BaseException:
            self._release(spec)
            raise
        with self._lock:
            self._busy.add(worker)
            is_closed = self._is_closed
        if is_closed:  # `kill_all` may have read the busy workers just before
            worker.kill()
        return worker

    def _discard(self, worker: CaseWorker) -> None:
        self.put_back(worker, reuse=False)

    def _server(self, spec: WorkerSpec) -> tuple[WorkerServer, list[Closable]]:
        """The server of a spec, and what has to be closed because there are too many servers."""
        with self._lock:
            if self._is_closed:
                raise WorkerError("the pool is closed")
            self._use(spec)
            if spec not in self._servers:
                if spec.scratch not in self._folders:
                    self._folders[spec.scratch] = PoolFolder(spec.scratch)
                self._servers[spec] = self._new_server(spec, self._folders[spec.scratch])
            return self._servers[spec], self._retire_servers()

    def _new_server(self, spec: WorkerSpec, folder: PoolFolder) -> WorkerServer:
        if spec.sanitizing is not None:
            return SanitizedServer(spec, spec.sanitizing, folder, lambda: next(self._numbers))
        return DeviceServer(spec, self._zygotes.origin(spec), folder, next(self._numbers))

    def _retire_servers(self) -> list[Closable]:
        surplus = len(self._servers) - max(LEAST_SERVERS, self._processes)
        unused = [spec for spec in self._servers if not self._users.get(spec)][: max(0, surplus)]
        workers = [worker for worker in self._idle if worker.spec in unused]
        self._idle = [worker for worker in self._idle if worker.spec not in unused]
        return [*workers, *(self._servers.pop(spec) for spec in unused)]

    def _use(self, spec: WorkerSpec) -> None:
        self._users[spec] = self._users.get(spec, 0) + 1
        if spec in self._servers:
            self._servers.move_to_end(spec)

    def _release(self, spec: WorkerSpec) -> None:
        with self._lock:
            self._users[spec] -= 1
