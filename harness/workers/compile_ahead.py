"""Compilation ahead of hardware GPUs: a case first goes to a process that compiles its kernels, then to a GPU.

So GPUs run cases whose kernels are compiled, while other cores compile for the next.  Owns this order, and the account
of the time in which GPUs were idle because they waited for a compiler.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.workers.pool import Pool
from harness.workers.supervision.time_limits import Patience


class CompileAhead:
    """Runs cases in the pool `gpus`, each after the pool `compilers` has compiled its kernels.  Thread-safe.

    An error in compiling ahead is no verdict: the case runs on a GPU all the same, whose process compiles.
    """

    def __init__(self, gpus: Pool, compilers: Pool, count: int, notify: Callable[[str], None]) -> None:
        """`count` is how many cases `gpus` runs at once; `notify` gets the first error in compiling ahead."""
        self._gpus = gpus
        self._compilers = compilers
        self._notify = notify
        self._idle_time = _IdleTime(count)
        self._lock = threading.Lock()
        self._has_failed = self._is_closed = False
        self._preparing: threading.Thread | None = None

    @property
    def waiting_share(self) -> float:
        """The share of the GPUs' time so far in which they waited for a compiler, 0 to 1."""
        return self._idle_time.share()

    def close(self) -> None:
        """Close the compilers' pool; the owner of the GPUs' pool closes that."""
        self._is_closed = True
        self._compilers.close()

    def submit(self, request: RunRequest) -> Future[Run]:
        """Run a case or a paired run once its kernels are compiled."""
        done = Future[Run]()
        if self._preparing is None:
            self._preparing = threading.Thread(target=self._prepare, args=(case_of(request).device,), daemon=True)
            self._preparing.start()
        self._idle_time.change_compiling(+1)
        compiled = self._compilers.submit(case_of(request))
        compiled.add_done_callback(lambda compiled: self._run_compiled(request, compiled, done))
        # A cancelled case leaves the compiler to others.
        done.add_done_callback(lambda done: done.cancelled() and compiled.cancel())
        return done

    def submit_compiled(self, request: RunRequest) -> Future[Run]:
        """Run a case whose kernels are compiled; the GPU's process compiles what is missing."""
        done = Future[Run]()
        self._run(request, done)
        return done

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """Run it now, on a GPU: to compile one case in another process first would save no time."""
        return self._gpus.run(request, patience=patience)

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        """Run it in a fresh process on a GPU."""
        return self._gpus.run_alone(request, before, patience=patience)

    def _prepare(self, device: DeviceProfile) -> None:
        """Load the GPUs' side while the first kernels are compiled, so that both are ready at once."""
        with suppress(HarnessError, RuntimeError):  # the first case there meets the error again, or the pool is closed
            self._gpus.prepare(device)

    def _run_compiled(self, request: RunRequest, compiled: Future[Run], done: Future[Run]) -> None:
        self._idle_time.change_compiling(-1)
        if self._is_closed or compiled.cancelled():
            done.cancel()
        elif error := compiled.exception():
            self._report(error)
        self._run(request, done)

    def _run(self, request: RunRequest, done: Future[Run]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        self._idle_time.change_running(+1)
        try:
            self._gpus.submit(request).add_done_callback(lambda run: self._finish(run, done))
        except RuntimeError as error:  # the pool was closed
            self._idle_time.change_running(-1)
            done.set_exception(error)

    def _finish(self, run: Future[Run], done: Future[Run]) -> None:
        self._idle_time.change_running(-1)
        if run.cancelled():
            done.set_exception(RuntimeError("the pool was closed before the case ran"))
        elif error := run.exception():
            done.set_exception(error)
        else:
            self._idle_time.add_compilation_on_gpu(run.result().seconds.get("compile", 0.0))
            done.set_result(run.result())

    def _report(self, error: BaseException) -> None:
        with self._lock:
            is_first, self._has_failed = not self._has_failed, True
        if is_first:
            self._notify(f"kernels are not compiled ahead: {str(error).splitlines()[0]}")


class _IdleTime:
    """The time in which GPUs were idle while kernels were being compiled for them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._compiling = self._running = 0
        """Cases that are with the compilers, and with the GPUs or queued there."""
        self._last_s: float | None = None
        self._total_s = self._waited_s = 0.0
        """Summed over all GPUs."""

    def change_compiling(self, by: int) -> None:
        with self._lock:
            self._account()
            self._compiling += by

    def change_running(self, by: int) -> None:
        with self._lock:
            self._account()
            self._running += by

    def add_compilation_on_gpu(self, seconds: float) -> None:
        """Add the time in which a GPU's own process compiled: the GPU waited for that, too."""
        with self._lock:
            self._waited_s += seconds

    def share(self) -> float:
        with self._lock:
            return self._waited_s / self._total_s if self._total_s else 0.0

    def _account(self) -> None:
        """Account for the time since the last change, unless there was no case at all."""
        now = monotonic()
        if self._last_s is not None and (self._compiling or self._running):
            passed = now - self._last_s
            self._total_s += self._count * passed
            if self._compiling:
                self._waited_s += max(0, self._count - self._running) * passed
        self._last_s = now
