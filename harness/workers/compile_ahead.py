"""Kernels compiled ahead of real GPUs: a case first goes to a process that compiles what it launches, then to a GPU.

So the GPUs run the cases whose kernels are there while other cores compile for the next.  Owns that order, and the
account of the time in which a GPU had nothing to do but wait for a compiler.
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
    """Runs cases on `gpus`, each after `compilers` have seen it.  Thread-safe.

    What goes wrong ahead is no verdict: the case runs on a GPU all the same, and compiles for itself.
    """

    def __init__(self, gpus: Pool, compilers: Pool, count: int, say: Callable[[str], None]) -> None:
        """`count` is how many cases `gpus` runs at once; `say` hears, once, why nothing is compiled ahead."""
        self._gpus = gpus
        self._compilers = compilers
        self._say = say
        self._idle = _Idle(count)
        self._lock = threading.Lock()
        self._has_failed = self._closed = False
        self._preparing: threading.Thread | None = None

    @property
    def waiting(self) -> float:
        """The share of the GPUs' time so far in which they waited for a compiler, 0 to 1."""
        return self._idle.share()

    def close(self) -> None:
        """End the compilers' processes; the GPUs' pool is its owner's."""
        self._closed = True
        self._compilers.close()

    def submit(self, wanted: RunRequest) -> Future[Run]:
        """Run a case, or one beside another, once its kernels are compiled."""
        done = Future[Run]()
        if self._preparing is None:
            self._preparing = threading.Thread(target=self._prepare, args=(case_of(wanted).device,), daemon=True)
            self._preparing.start()
        self._idle.compiling(+1)
        ahead = self._compilers.submit(case_of(wanted))
        ahead.add_done_callback(lambda ahead: self._go_on(wanted, ahead, done))
        done.add_done_callback(lambda done: done.cancelled() and ahead.cancel())  # others need the compiler
        return done

    def submit_compiled(self, wanted: RunRequest) -> Future[Run]:
        """Run a case whose kernels are compiled; a GPU's process compiles what is missing after all."""
        done = Future[Run]()
        self._run(wanted, done)
        return done

    def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """Run it now: whoever waits for one case gains nothing by another process."""
        return self._gpus.run(wanted, patience=patience)

    def run_alone(self, wanted: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL) -> Run:
        """Run it in a fresh process on a GPU."""
        return self._gpus.run_alone(wanted, before, patience=patience)

    def _prepare(self, device: DeviceProfile) -> None:
        """Load, on the GPUs' side, while the first kernels are compiled: a GPU's process is there when they are."""
        with suppress(HarnessError, RuntimeError):  # the case that comes there meets it again, or the pool is closed
            self._gpus.prepare(device)

    def _go_on(self, wanted: RunRequest, ahead: Future[Run], done: Future[Run]) -> None:
        self._idle.compiling(-1)
        if self._closed or ahead.cancelled():
            done.cancel()
        elif error := ahead.exception():
            self._tell(error)
        self._run(wanted, done)

    def _run(self, wanted: RunRequest, done: Future[Run]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        self._idle.running(+1)
        try:
            self._gpus.submit(wanted).add_done_callback(lambda run: self._finish(run, done))
        except RuntimeError as error:  # the pool was closed
            self._idle.running(-1)
            done.set_exception(error)

    def _finish(self, run: Future[Run], done: Future[Run]) -> None:
        self._idle.running(-1)
        if run.cancelled():
            done.set_exception(RuntimeError("the pool was closed before the case ran"))
        elif error := run.exception():
            done.set_exception(error)
        else:
            self._idle.compiled_there(run.result().seconds.get("compile", 0.0))
            done.set_result(run.result())

    def _tell(self, error: BaseException) -> None:
        with self._lock:
            told, self._has_failed = self._has_failed, True
        if not told:
            self._say(f"kernels are not compiled ahead: {str(error).splitlines()[0]}")


class _Idle:
    """How long GPUs had nothing to do while something was being compiled for them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._compiling = self._running = 0
        self._last_s: float | None = None
        self._total_s = self._waited_s = 0.0
        """Of all GPUs together."""

    def compiling(self, more: int) -> None:
        """So many more cases are at the compilers."""
        with self._lock:
            self._pass()
            self._compiling += more

    def running(self, more: int) -> None:
        """So many more cases are at the GPUs, or next there."""
        with self._lock:
            self._pass()
            self._running += more

    def compiled_there(self, seconds: float) -> None:
        """A GPU's own process compiled for so long: the GPU waited for that, too."""
        with self._lock:
            self._waited_s += seconds

    def share(self) -> float:
        """Waited over all."""
        with self._lock:
            return self._waited_s / self._total_s if self._total_s else 0.0

    def _pass(self) -> None:
        """Account for the time since the last change.  What passes while nothing is asked for is nobody's."""
        now = monotonic()
        if self._last_s is not None and (self._compiling or self._running):
            passed = now - self._last_s
            self._total_s += self._count * passed
            if self._compiling:
                self._waited_s += max(0, self._count - self._running) * passed
        self._last_s = now
