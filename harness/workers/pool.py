"""The pool: cases in, runs out, each in a process that wears the case's device.

Owns which fork servers and workers live, and how many.  What a case does in its worker is `worker`'s business.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

from harness.errors import GpuUnavailable, HarnessError, WorkerError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.workers.dispatcher import Dispatcher, PendingCase
from harness.workers.fair_semaphore import FairSemaphore
from harness.workers.folder import PoolFolder
from harness.workers.sanitized.worker import SanitizedServer, SanitizedWorker
from harness.workers.spec import Isolation, WorkerSpec
from harness.workers.supervision import hangs
from harness.workers.supervision.time_limits import Patience, TimeLimits
from harness.workers.worker import Answer, Worker, WorkerGone
from harness.workers.zygote.prewarmed import Spares
from harness.workers.zygote.server import Server
from harness.workers.zygote.shared_zygotes import SharedZygotes

CHILDREN_PER_PROCESS = 4
"""Workers kept alive for each one that may run, so that going back and forth between devices costs no fork."""

LEAST_SERVERS = 4
"""Fork servers kept alive at least; each holds the libraries as its device's, some tens of megabytes of its own."""

ATTEMPTS = 2
"""A case whose worker was gone through no fault of the case's gets another."""


AnyWorker = Worker | SanitizedWorker
AnyServer = Server | SanitizedServer


class GpuSource(Protocol):
    """The GPUs on which the pool's processes run cases, each process on one at a time."""

    def take(self, spec: WorkerSpec) -> WorkerSpec:
        """The spec with a GPU of its own.

        Raises:
            GpuUnavailable: none is left that is well.
        """
        ...

    def give_back(self, spec: WorkerSpec) -> None:
        """What was taken is not in use any more."""
        ...

    def give_up(self, spec: WorkerSpec, reason: str) -> None:
        """The GPU of what was taken is sick: nobody shall have it any more."""
        ...


class Pool:
    """Runs cases in child processes, at most `processes` at once.  Thread-safe.

    A context manager: what has not come back when it is left is cancelled, or fails with `WorkerError` if its turn was
    near; no process and no file remains.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and how
        self,
        spec_of: Callable[[DeviceProfile], WorkerSpec],
        processes: int,
        time_limit_s: float,
        isolation: Isolation = Isolation.WORKER,
        places: GpuSource | None = None,
        *,
        grounds: SharedZygotes | None = None,
        follows: bool = True,
        listening: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`places` are real GPUs, for an engine that needs them; `grounds` outlive the pool, or are its own.

        The time limit `follows` what cases take, or is the same for all.  `listening` is what the environment of a
        process needs besides, for CUDA to say in it where a kernel spins.
        """
        self._spec_of = spec_of
        self._processes = processes
        self._limits = TimeLimits(time_limit_s, follows=follows)
        self._isolation = isolation
        self._listening = listening
        self._places = places
        self._slots = FairSemaphore(processes)
        self._lanes = Dispatcher(processes, self._serve, self._finish)
        self._spares = Spares(self._begin, self._discard, most=2 * processes)
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = count()
        self._folders: dict[str, PoolFolder] = {}
        self._grounds = SharedZygotes() if grounds is None else grounds
        self._has_own_grounds = grounds is None
        self._servers: OrderedDict[WorkerSpec, AnyServer] = OrderedDict()
        """Least recently used first, and so are the workers below."""
        self._idle: list[AnyWorker] = []
        self._busy: set[AnyWorker] = set()
        self._in_use: dict[WorkerSpec, int] = {}
        """How many threads need a spec's server now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def submit(self, wanted: RunRequest) -> Future[Run]:
        """Run a case, or one beside another, when its turn comes.

        Raises:
            WorkerError: the pool is closed.
        """
        return self._lanes.submit(wanted)

    def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """Run it now, or as soon as one of the processes is free.

        Raises:
            SuiteError, LibraryError, WorkerError: as `harness.workers.zygote.server` and `harness.workers.worker` say.
        """
        return self._run_surely((wanted,), patience, reuse=self._isolation is Isolation.WORKER)

    def run_alone(self, wanted: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL) -> Run:
        """Run it in a fresh process, after `before` in the same; if those end the process, in the next."""
        return self._run_surely((*before, wanted), patience, reuse=False)

    def prepare(self, device: DeviceProfile) -> None:
        """Start the fork server of a device, and raise what stops it from loading."""
        with self._slots, self._placed(self._spec_of(device)) as spec:
            self._put_back(self._take(spec, reuse=True), reuse=True)

    def close(self) -> None:
        """Kill what runs, cancel what waits, and remove every process and temporary file."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy, servers = tuple(self._busy), tuple(self._servers.values())
        self._lanes.cancel()
        for worker in (*busy, *idle):
            worker.kill()
        for server in servers:
            server.close()
        if self._has_own_grounds:
            self._grounds.close()
        for worker in idle:
            worker.close()
        self._lanes.join()
        self._spares.close()
        with ExitStack() as all_turns:
            for _ in range(self._processes):  # every thread that was running a case has cleared up
                all_turns.enter_context(self._slots)
            for folder in self._folders.values():
                folder.remove()
            self._folders.clear()

    def _run_surely(self, cases: Sequence[RunRequest], patience: Patience, *, reuse: bool) -> Run:
        return self._sure(self._ask(cases, patience, reuse=reuse)(), cases, patience)

    def _sure(self, run: Run, cases: Sequence[RunRequest], patience: Patience) -> Run:
        """A run that gave no answer is repeated with more time, unless it need not be sure or others hung likewise.

        Where CUDA can be told to listen, a hang is looked at once more.
        """
        if patience is Patience.USUAL and not self._limits.believes(run):
            run = self._ask(cases, Patience.LONG, reuse=False)()
            self._limits.believes(run)
        if not self._listening:
            return run

        def again() -> Run:
            return self._ask(cases, Patience.HURRIED, reuse=False, listening=True)()

        return hangs.looked_at_again(run, patience, again)

    def _serve(self, waiting: PendingCase) -> None:
        """Run a submitted case, and after it others that need the same worker."""
        if self._isolation is not Isolation.WORKER:
            self._lanes.answered(waiting, self._ask((waiting.wanted,), Patience.USUAL, reuse=False))
            return
        with self._slots, self._placed(self._spec_of(case_of(waiting.wanted).device)) as spec:
            try:
                worker = self._take(spec, reuse=True)
            except HarnessError as error:
                self._excuse_or_tell(waiting, error, spec)
                return
            try:
                self._serve_in_a_row(worker, waiting)
            finally:
                self._put_back(worker, reuse=True)

    def _serve_in_a_row(self, worker: AnyWorker, first: PendingCase) -> None:
        """Each case is with the worker before it is done with the last, until somebody else waits for a process."""
        waiting = first
        while True:
            goes_on = isinstance(worker, Worker) and not self._slots.is_wanted
            following = self._lanes.take_after(waiting) if goes_on else None
            try:
                answer = self._timed(worker, waiting.wanted, Patience.USUAL, following and following.wanted)
                self._raise_if_closed()
            except Exception as error:  # noqa: BLE001 - whoever waits for the case is told, and nobody waits for ever
                if following is not None:
                    self._lanes.put_back(following)
                self._excuse_or_tell(waiting, error, worker.spec)
                return
            self._lanes.answered(waiting, answer)
            if following is None:
                return
            if not worker.is_sound:  # what the next case does in it is of no use
                self._lanes.put_back(following)
                return
            waiting = following

    def _excuse_or_tell(self, waiting: PendingCase, error: Exception, spec: WorkerSpec) -> None:
        """A case whose worker or GPU is gone gets another; of everything else whoever waits for it is told."""
        if self._closed:
            waiting.future.set_exception(WorkerError("the pool was closed while the case ran"))
            return
        match error:
            case GpuUnavailable() if self._places is not None:
                self._places.give_up(spec, str(error))
                self._lanes.put_back(waiting)
            case WorkerGone() if waiting.attempts + 1 < ATTEMPTS:
                waiting.attempts += 1
                self._lanes.put_back(waiting)
            case _:
                waiting.future.set_exception(error)

    def _finish(self, waiting: PendingCase, answer: Answer) -> Run:
        """The run, once it is sure."""
        return self._sure(answer(), (waiting.wanted,), Patience.USUAL)

    def _ask(self, cases: Sequence[RunRequest], patience: Patience, *, reuse: bool, listening: bool = False) -> Answer:
        plain = self._spec_of(case_of(cases[-1]).device)
        asked = replace(plain, environment=(*plain.environment, *self._listening)) if listening else plain
        while True:
            with self._slots, self._placed(asked) as spec:
                try:
                    return self._run_placed(spec, cases, patience, reuse=reuse)
                except GpuUnavailable as sick:
                    if self._places is None:
                        raise
                    self._places.give_up(spec, str(sick))

    def _run_placed(self, spec: WorkerSpec, cases: Sequence[RunRequest], patience: Patience, *, reuse: bool) -> Answer:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._attempt(spec, cases, patience, reuse=reuse)
            except WorkerGone:
                self._raise_if_closed()
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _placed(self, spec: WorkerSpec) -> Generator[WorkerSpec]:
        """The spec on a GPU that nobody else has more than needs be, as long as the block runs."""
        if self._places is None:
            yield spec
            return
        placed = self._places.take(spec)
        try:
            yield placed
        finally:
            self._places.give_back(placed)

    def _attempt(self, spec: WorkerSpec, cases: Sequence[RunRequest], patience: Patience, *, reuse: bool) -> Answer:
        """The answer to the last case, all of them in one process as long as it lives."""
        worker = self._take(spec, reuse=reuse)
        *before, last = cases
        try:
            for case in before:
                if worker.fit():
                    self._timed(worker, case, patience)()
            answer = self._timed(worker, last, patience) if not before or worker.fit() else None
        finally:
            self._put_back(worker, reuse=reuse)
        self._raise_if_closed()
        return answer or self._attempt(spec, (last,), patience, reuse=False)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise WorkerError("the pool was closed while the case ran")

    def _timed(
        self, worker: AnyWorker, wanted: RunRequest, patience: Patience, following: RunRequest | None = None
    ) -> Answer:
        """One run within the time that it may take, from which the limits learn."""
        begun = monotonic()
        answer = worker.ask(wanted, time_limit_s=self._limits.of(case_of(wanted), patience), following=following)
        took_s = monotonic() - begun
        return lambda: self._limits.note(answer(), took_s)

    # --- which workers and servers live ------------------------------------------------------------------------------

    def _take(self, spec: WorkerSpec, *, reuse: bool) -> AnyWorker:
        """A worker for this thread alone: an idle one if it may be, or a new one."""
        while reuse and (worker := self._take_idle(spec)):
            if worker.fit():
                return worker
            self._put_back(worker, reuse=False)  # it died while it had nothing to do
        if self._isolation is Isolation.CASE and spec.sanitizing is None:
            return self._spares.take(spec)
        return self._begin(spec)

    def _begin(self, spec: WorkerSpec) -> AnyWorker:
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

    def _take_idle(self, spec: WorkerSpec) -> AnyWorker | None:
        with self._lock:
            for worker in reversed(self._idle):
                if worker.spec == spec:
                    self._idle.remove(worker)
                    self._busy.add(worker)
                    self._use(spec)
                    return worker
        return None

    def _discard(self, worker: AnyWorker) -> None:
        self._put_back(worker, reuse=False)

    def _put_back(self, worker: AnyWorker, *, reuse: bool) -> None:
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

    def _server(self, spec: WorkerSpec) -> tuple[AnyServer, list[AnyWorker | AnyServer]]:
        """The server of a spec, and what has to go because there are too many."""
        with self._lock:
            if self._closed:
                raise WorkerError("the pool is closed")
            self._use(spec)
            if spec not in self._servers:
                if spec.scratch not in self._folders:
                    self._folders[spec.scratch] = PoolFolder(spec.scratch)
                self._servers[spec] = self._new_server(spec, self._folders[spec.scratch])
            return self._servers[spec], self._retire_servers()

    def _new_server(self, spec: WorkerSpec, folder: PoolFolder) -> AnyServer:
        if spec.sanitizing is not None:
            return SanitizedServer(spec, spec.sanitizing, folder, lambda: next(self._numbers))
        return Server(spec, self._grounds.of(spec.ground), folder, next(self._numbers))

    def _retire_servers(self) -> list[AnyWorker | AnyServer]:
        surplus = len(self._servers) - max(LEAST_SERVERS, self._processes)
        unused = [spec for spec in self._servers if not self._in_use.get(spec)][: max(0, surplus)]
        gone: list[AnyWorker | AnyServer] = [worker for worker in self._idle if worker.spec in unused]
        self._idle = [worker for worker in self._idle if worker.spec not in unused]
        return [*gone, *(self._servers.pop(spec) for spec in unused)]

    def _use(self, spec: WorkerSpec) -> None:
        self._in_use[spec] = self._in_use.get(spec, 0) + 1
        if spec in self._servers:
            self._servers.move_to_end(spec)

    def _release(self, spec: WorkerSpec) -> None:
        with self._lock:
            self._in_use[spec] -= 1
