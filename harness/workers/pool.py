"""The pool: cases in, runs out, each in a process that emulates the case's device.

Owns queue, time limits, retries and the choice of a GPU.  `live_workers` owns the processes, `worker` what a case does
in one of them.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from types import TracebackType
from typing import Self

from harness.errors import GpuUnavailable, HarnessError, WorkerError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.workers.dispatcher import Dispatcher, PendingCase
from harness.workers.fair_semaphore import FairSemaphore
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.interfaces import Answer, CaseWorker, GpuSource, WorkerGone
from harness.workers.live_workers import LiveWorkers
from harness.workers.spec import Isolation, WorkerSpec
from harness.workers.supervision import hang_inspection
from harness.workers.supervision.time_limits import Patience, TimeLimits

ATTEMPTS = 2
"""A case gets a second worker if the first was gone through no fault of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Optional properties of a pool."""

    isolation: Isolation = Isolation.WORKER
    gpus: GpuSource | None = None
    """Hardware GPUs, for an engine that needs them."""
    shared_zygotes: SharedZygotes | None = None
    """These outlive the pool; without them the pool has its own."""
    is_limit_adaptive: bool = True
    """False: every case has the whole time limit, however long others took."""
    sends_ahead: bool = True
    """A busy process gets its next case early.  False if cases take so long that another process would begin sooner."""
    core_dump_environment: tuple[tuple[str, str], ...] = ()
    """With these variables CUDA writes core dumps, from which the line of a spinning kernel is read; empty: never."""


DEFAULT = PoolOptions()


class Pool:
    """Runs cases in child processes, at most `processes` at once.  Thread-safe.

    A context manager.  When it is left, queued cases are cancelled, and those about to run fail with `WorkerError`.  No
    process and no file remains.
    """

    def __init__(
        self,
        spec_of: Callable[[DeviceProfile], WorkerSpec],
        processes: int,
        time_limit_s: float,
        options: PoolOptions = DEFAULT,
    ) -> None:
        self._spec_of = spec_of
        self._processes = processes
        self._options = options
        self._limits = TimeLimits(time_limit_s, adapts=options.is_limit_adaptive)
        self._slots = FairSemaphore(processes)
        self._workers = LiveWorkers(processes, options.isolation, options.shared_zygotes)
        self._dispatcher = Dispatcher(processes, self._run_pending, self._finish)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def submit(self, request: RunRequest) -> Future[Run]:
        """Queue a case or a paired run.

        Raises:
            WorkerError: the pool is closed.
        """
        return self._dispatcher.submit(request)

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """Run it as soon as a process is free, before what is queued.

        Raises:
            SuiteError, LibraryError, WorkerError: as `DeviceServer.fork` and `CaseWorker.ask`.
        """
        return self._run_and_confirm((request,), patience, reuse=self._options.isolation is Isolation.WORKER)

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        """Run it in a fresh process, after the cases `before`; if those end the process, in another one."""
        return self._run_and_confirm((*before, request), patience, reuse=False)

    def prepare(self, device: DeviceProfile) -> None:
        """Start the fork server of a device, and raise what stops it from loading."""
        with self._slots, self._on_gpu(self._spec_of(device)) as spec:
            self._workers.put_back(self._workers.take(spec, reuse=True), reuse=True)

    def activity(self) -> str:
        """What cases wait for now: `compiling rms_norm_kernel for 4 s`; empty if that is not known."""
        return self._workers.activity()

    def stop_running(self) -> None:
        """Kill the processes that run cases now; each case ends as if its process had died."""
        self._workers.kill_busy()

    def close(self) -> None:
        """Kill what runs, cancel what is queued, and remove every process and temporary file."""
        self._workers.mark_closed()
        self._dispatcher.cancel()
        self._workers.kill_all()
        self._dispatcher.join()
        self._workers.close_prewarmed()
        with ExitStack() as all_slots:
            for _ in range(self._processes):  # wait until every thread that ran a case has put its worker back
                all_slots.enter_context(self._slots)
            self._workers.remove_files()

    def _run_and_confirm(self, requests: Sequence[RunRequest], patience: Patience, *, reuse: bool) -> Run:
        return self._confirmed(self._ask(requests, patience, reuse=reuse)(), requests, patience)

    def _confirmed(self, run: Run, requests: Sequence[RunRequest], patience: Patience) -> Run:
        """The run.  A hang is repeated with more time, unless others hung likewise or `patience` is not usual."""
        if patience is Patience.USUAL and not self._limits.believes(run):
            run = self._ask(requests, Patience.LONG, reuse=False)()
            self._limits.believes(run)
        if not self._options.core_dump_environment:
            return run

        def repeat() -> Run:
            return self._ask(requests, Patience.HURRIED, reuse=False, dumps_core=True)()

        return hang_inspection.with_kernel_line(run, patience, repeat)

    def _run_pending(self, pending: PendingCase) -> None:
        """Run a submitted case, and after it others that need the same worker."""
        if self._options.isolation is not Isolation.WORKER:
            self._dispatcher.decode(pending, self._ask((pending.request,), Patience.USUAL, reuse=False))
            return
        with self._slots, self._on_gpu(self._spec_for(pending.request)) as spec:
            try:
                worker = self._workers.take(spec, reuse=True)
            except HarnessError as error:
                self._retry_or_fail(pending, error, spec)
                return
            try:
                self._run_in_a_row(worker, pending)
            finally:
                self._workers.put_back(worker, reuse=True)

    def _run_in_a_row(self, worker: CaseWorker, first: PendingCase) -> None:
        """Run queued cases in one worker, until another thread waits for a process.

        Where the worker can, it gets each case before it is done with the last.
        """
        pending = first
        while True:
            goes_on = self._options.sends_ahead and worker.takes_ahead and not self._slots.has_waiting
            following = self._dispatcher.take_ahead(pending) if goes_on else None
            try:
                answer = self._timed(worker, pending.request, Patience.USUAL, following and following.request)
                self._raise_if_closed()
            except Exception as error:  # noqa: BLE001 - every future gets a result, or a thread would wait for ever
                if following is not None:
                    self._dispatcher.put_back(following)
                self._retry_or_fail(pending, error, worker.spec)
                return
            self._dispatcher.decode(pending, answer)
            if following is None:
                return
            if not worker.is_sound:  # the process is lost, and with it what it did of the next case
                self._dispatcher.put_back(following)
                return
            pending = following

    def _retry_or_fail(self, pending: PendingCase, error: Exception, spec: WorkerSpec) -> None:
        """Put back a case whose worker or GPU is gone; pass every other error to its future."""
        if self._workers.is_closed:
            pending.future.set_exception(WorkerError("the pool was closed while the case ran"))
            return
        match error:
            case GpuUnavailable() if self._options.gpus is not None:
                self._options.gpus.give_up(spec, str(error))
                self._dispatcher.put_back(pending)
            case WorkerGone() if pending.attempts + 1 < ATTEMPTS:
                pending.attempts += 1
                self._dispatcher.put_back(pending)
            case _:
                pending.future.set_exception(error)

    def _finish(self, pending: PendingCase, answer: Answer) -> Run:
        return self._confirmed(answer(), (pending.request,), Patience.USUAL)

    def _ask(
        self, requests: Sequence[RunRequest], patience: Patience, *, reuse: bool, dumps_core: bool = False
    ) -> Answer:
        """The answer to the last request, on the next GPU where one turns out to be sick."""
        spec = self._spec_for(requests[-1])
        if dumps_core:
            spec = replace(spec, environment=(*spec.environment, *self._options.core_dump_environment))
        while True:
            with self._slots, self._on_gpu(spec) as on_gpu:
                try:
                    return self._ask_with_retries(on_gpu, requests, patience, reuse=reuse)
                except GpuUnavailable as sick:
                    if self._options.gpus is None:
                        raise
                    self._options.gpus.give_up(on_gpu, str(sick))

    def _spec_for(self, request: RunRequest) -> WorkerSpec:
        case = case_of(request)
        return self._spec_of(case.device).in_environment(case.environment)

    def _ask_with_retries(
        self, spec: WorkerSpec, requests: Sequence[RunRequest], patience: Patience, *, reuse: bool
    ) -> Answer:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._ask_once(spec, requests, patience, reuse=reuse)
            except WorkerGone:
                self._raise_if_closed()
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _on_gpu(self, spec: WorkerSpec) -> Generator[WorkerSpec]:
        """The spec with a GPU for as long as the block runs, shared with other threads as little as possible."""
        gpus = self._options.gpus
        if gpus is None:
            yield spec
            return
        placed = gpus.take(spec)
        try:
            yield placed
        finally:
            gpus.give_back(placed)

    def _ask_once(self, spec: WorkerSpec, requests: Sequence[RunRequest], patience: Patience, *, reuse: bool) -> Answer:
        """The answer to the last request, all of them in one process as long as that lives."""
        worker = self._workers.take(spec, reuse=reuse)
        *before, last = requests
        try:
            for request in before:
                if worker.is_fit():
                    self._timed(worker, request, patience)()
            answer = self._timed(worker, last, patience) if not before or worker.is_fit() else None
        finally:
            self._workers.put_back(worker, reuse=reuse)
        self._raise_if_closed()
        return answer or self._ask_once(spec, (last,), patience, reuse=False)

    def _raise_if_closed(self) -> None:
        if self._workers.is_closed:
            raise WorkerError("the pool was closed while the case ran")

    def _timed(
        self, worker: CaseWorker, request: RunRequest, patience: Patience, following: RunRequest | None = None
    ) -> Answer:
        """Run one request within its time limit, and let the limits learn from how long it took."""
        started = monotonic()
        answer = worker.ask(request, time_limit_s=self._limits.of(case_of(request), patience), following=following)
        took_s = monotonic() - started
        return lambda: self._limits.record(answer(), took_s)
