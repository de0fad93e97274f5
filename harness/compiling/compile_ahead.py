"""Compilation ahead of hardware GPUs: a case first goes to a process that compiles its kernels, then to a GPU.

So GPUs run cases whose kernels are compiled, while other cores compile for the next.  Owns this order, and the account
of the time in which GPUs were idle because they waited for a compiler.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from queue import SimpleQueue

from harness.compiling.gpu_waits import HEAD_START_S, HeadStart, IdleTime
from harness.errors import HarnessError
from harness.model.case import Case, ValueDistribution
from harness.model.device import DeviceProfile
from harness.model.paired_run import RunRequest, assembly_of, case_of, rebuilt
from harness.model.run import Crashed, HungParty, OutOfMemory, Run, TimedOut, Unsupported
from harness.workers.pool import Pool
from harness.workers.supervision.time_limits import Patience

_Target = tuple[str, DeviceProfile]
_KernelConfig = tuple[_Target, str, int]
"""A kernel of an op on a device, and the index of its config; 0 if it has none."""
AHEAD = 8
"""Cases that `as_compiled` has compiled at once: as many as a few compilers take, and few to lose when one suffices."""
ENDLESS = 2
"""Cases whose kernels take longer to compile than the limit, before the kernel's config, or the op, is set aside."""


class CompileAhead:
    """Runs cases in the pool `gpus`, each after the pool `compilers` has compiled its kernels.  Thread-safe.

    An error in compiling ahead is no verdict: the case runs on a GPU all the same, whose process compiles.  Only a case
    whose compiler does not end never reaches a GPU, which it would hold up as well.  It is not judged.  A config of a
    kernel with two such cases is set aside, and so is an op of which most cases end so: further cases have the same
    ending at once, and leave the compilers to others.
    """

    def __init__(self, gpus: Pool, compilers: Pool, count: int, notify: Callable[[str], None]) -> None:
        """`count` is how many cases `gpus` runs at once.

        `notify` gets the first error in compiling ahead, and each config of a kernel that compiles too long.
        """
        self._gpus = gpus
        self._compilers = compilers
        self._notify = notify
        self._idle_time = IdleTime(count)
        self._lock = threading.Lock()
        self._has_failed = self._is_closed = False
        self._head_start = HeadStart()
        self._preparing: tuple[threading.Thread, ...] = ()
        self._compiled: set[str] = set()
        """The builds that are known to be in the cache, as `_builds_of` names them."""
        self._endless: dict[_Target, list[Run]] = {}
        self._slow: dict[_KernelConfig, list[Run]] = {}
        """The cases whose compiler did not end, by what it worked on."""
        self._compiled_of: Counter[_Target] = Counter()
        """How many builds of the op are in the cache."""
        self._at_compiler: dict[Future[Run], Case] = {}

    @property
    def waiting_share(self) -> float:
        """The share of the GPUs' time so far in which they waited for a compiler, 0 to 1."""
        return self._idle_time.share()

    def close(self) -> None:
        """Close the compilers' pool; the owner of the GPUs' pool closes that."""
        self._is_closed = True
        self._compilers.close()
        self._head_start.end()

    def stop_compiling(self) -> None:
        """End the compilations that run now; nobody needs their cases any more."""
        self._compilers.stop_running()

    def submit(self, request: RunRequest) -> Future[Run]:
        """Run a case or a paired run once its kernels are compiled."""
        done = _AheadFuture()
        if isinstance(request, Case) and (run := self._set_aside(request)) is not None:
            done.set_result(run)
            return done
        if not self._preparing:
            device = case_of(request).device
            preparing = (self._prepare_gpus, self._prepare_compilers)
            self._preparing = tuple(threading.Thread(target=each, args=(device,), daemon=True) for each in preparing)
            for thread in self._preparing:
                thread.start()
        self._idle_time.change_compiling(+1)
        self._head_start.admit(lambda: self._compile(request, done))
        return done

    def _compile(self, request: RunRequest, done: "_AheadFuture") -> None:
        """Queue a case for the compilers."""
        try:
            compiled = self._compilers.submit(case_of(request))
        except HarnessError:  # the pool was closed
            self._idle_time.change_compiling(-1)
            done.cancel()
            return
        if isinstance(request, Case):
            with self._lock:
                self._at_compiler[compiled] = request
        compiled.add_done_callback(lambda compiled: self._run_compiled(request, compiled, done))
        # A cancelled case leaves the compiler to others.
        done.add_done_callback(lambda done: done.cancelled() and compiled.cancel())

    def is_set_aside(self, case: Case) -> bool:
        """Return True if the case is not run, because the compiler did not end on others of its op."""
        return self._set_aside(case) is not None

    def submit_compiled(self, request: RunRequest) -> Future[Run]:
        """Run a case whose kernels are compiled; the GPU's process compiles what is missing."""
        done = _AheadFuture()
        self._run(request, done)
        return done

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """Compile it, and run it on a GPU, which works for others meanwhile."""
        endless = self._compile_now(request, patience)
        return endless or self._gpus.run(request, patience=patience)

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        """Compile it, and run it in a fresh process on a GPU."""
        endless = self._compile_now(request, patience)
        return endless or self._gpus.run_alone(request, before, patience=patience)

    def as_compiled(self, cases: Iterable[Case]) -> Generator[Case]:
        """Yield the cases as they are ready to run: those that are compiled already first, others once they are.

        The compilers work on some of them at once.  Whoever closes the generator leaves the compilers to others.
        """
        source = iter(cases)
        ready: deque[Case] = deque()
        compiling: dict[Future[Run], Case] = {}
        finished = SimpleQueue[Future[Run]]()  # `wait` would wait for ever for those that a closed pool cancels
        try:
            while True:
                for case in islice(source, AHEAD - len(ready) - len(compiling)):
                    if self._is_compiled(case) or self.is_set_aside(case):
                        ready.append(case)
                    else:
                        future = self._compilers.submit(case)
                        compiling[future] = case
                        future.add_done_callback(finished.put)
                while compiling and not (ready and finished.empty()):
                    future = finished.get()
                    ready.append(compiling.pop(future))
                    self._record_compiled(ready[-1], future)
                if not ready:
                    return
                yield ready.popleft()
        finally:
            for future in compiling:
                future.cancel()

    def _compile_now(self, request: RunRequest, patience: Patience) -> Run | None:
        """Compile a request and wait for it; return its run if the compiler does not end."""
        assembly = assembly_of(request)
        if assembly is not None and assembly.kernels:
            return None  # it mixes builds that runs of all kernels have left in the cache
        if self._is_closed or self._is_compiled(request):
            return None
        case = case_of(request)
        if (known := self._set_aside(case)) is not None:
            return known
        try:
            if assembly is None:
                run = self._compilers.run(case, patience=patience)
            else:
                run = self._compilers.run_alone(rebuilt(case, assembly), patience=patience)
        except (HarnessError, RuntimeError) as error:
            self._report(error)
            return None
        self._remember(request, run)
        return _not_compiled(run) if _is_endless(run) else None

    def _set_aside(self, case: Case) -> Run | None:
        """Return the ending of a case whose op is set aside, as a run of this case; None if it is to be compiled."""
        with self._lock:
            if _builds_of(case) in self._compiled:
                return None
            slow = next((runs for key, runs in self._slow.items() if len(runs) >= ENDLESS and _has(case, key)), None)
            endless = self._endless.get(_target(case), [])
            if slow is None and len(endless) < max(ENDLESS, 1 + self._compiled_of[_target(case)]):
                return None
        return replace((slow or endless)[0], case=case)

    def _is_compiled(self, request: RunRequest) -> bool:
        with self._lock:
            return _builds_of(request) in self._compiled

    def _remember(self, request: RunRequest, run: Run) -> None:
        case = case_of(request)
        is_news = False
        with self._lock:
            if _is_endless(run):
                key, ended = _kernel_config(run), _not_compiled(run)
                slow = self._slow.setdefault(key, [])
                slow.append(ended)
                is_news = len(slow) == 1
                if is_news or not key[1]:  # an op whose other configs compile goes on
                    self._endless.setdefault(_target(case), []).append(ended)
            elif (
                not isinstance(run.ending, Crashed | TimedOut | OutOfMemory)
                and _builds_of(request) not in self._compiled
            ):
                self._compiled.add(_builds_of(request))
                self._compiled_of[_target(case)] += 1
            waiting = [each for each in self._at_compiler.items() if _target(each[1]) == _target(case)]
        if is_news:
            self._notify(f"{_in_words(run)}: its cases are not judged")
        if _is_endless(run) and self.is_set_aside(case):
            for future, other in waiting:
                if self.is_set_aside(other):
                    future.cancel()  # unless it runs already

    def _record_compiled(self, case: Case, compiled: Future[Run]) -> None:
        if compiled.cancelled():
            return
        if error := compiled.exception():
            self._report(error)
        else:
            self._remember(case, compiled.result())

    def _prepare_gpus(self, device: DeviceProfile) -> None:
        """Load the GPUs' side while the first kernels are compiled, so that both are ready at once."""
        with suppress(HarnessError, RuntimeError):  # the first case there meets the error again, or the pool is closed
            self._gpus.prepare(device)
        self._idle_time.begin()

    def _prepare_compilers(self, device: DeviceProfile) -> None:
        """End the head start some time after the compilers have loaded, if none is done by then."""
        with suppress(HarnessError, RuntimeError):  # as above
            self._compilers.prepare(device)
            self._head_start.wait(HEAD_START_S)
        self._head_start.end()

    def _run_compiled(self, request: RunRequest, compiled: Future[Run], done: "_AheadFuture") -> None:
        self._idle_time.change_compiling(-1)
        self._head_start.end()
        with self._lock:
            self._at_compiler.pop(compiled, None)
        if self._is_closed:
            done.cancel()
        elif compiled.cancelled():
            run = self._set_aside(request) if isinstance(request, Case) else None
            if run is None or done.cancelled():
                done.cancel()
            elif done.set_running_or_notify_cancel():
                done.set_result(run)
            return
        elif error := compiled.exception():
            self._report(error)
        else:
            self._remember(case_of(request), run := compiled.result())
            if _is_endless(run) and isinstance(request, Case):
                if done.set_running_or_notify_cancel():
                    done.set_result(_not_compiled(run))
                return
        self._run(request, done)

    def _run(self, request: RunRequest, done: "_AheadFuture") -> None:
        if done.cancelled():
            return
        self._idle_time.change_running(+1)
        try:
            on_gpu = self._gpus.submit(request)
        except RuntimeError as error:  # the pool was closed
            self._idle_time.change_running(-1)
            if done.set_running_or_notify_cancel():
                done.set_exception(error)
            return
        done.follow(on_gpu)
        on_gpu.add_done_callback(lambda run: self._finish(run, done))

    def _finish(self, run: Future[Run], done: "_AheadFuture") -> None:
        self._idle_time.begin()
        self._idle_time.change_running(-1)
        if (run.cancelled() and done.is_dropped) or not done.set_running_or_notify_cancel():
            return
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


class _AheadFuture(Future[Run]):
    """The future of a case that is compiled, then queued for a GPU, then run there.  Only a run cannot be cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._on_gpu: Future[Run] | None = None
        self.is_dropped = False
        """True while it is cancelled in the GPU's queue, whose callback runs meanwhile."""

    def follow(self, on_gpu: Future[Run]) -> None:
        """The case is queued for a GPU."""
        self._on_gpu = on_gpu
        if self.cancelled():
            on_gpu.cancel()

    def cancel(self) -> bool:
        on_gpu = self._on_gpu
        if on_gpu is None or self.cancelled():
            return super().cancel()
        self.is_dropped = True
        if on_gpu.cancel():
            return super().cancel()
        self.is_dropped = False
        return False


def _target(case: Case) -> _Target:
    return case.op, case.device


def _builds_of(request: RunRequest) -> str:
    """Return a name that is equal for requests with equal builds: values and seed never reach the compiler."""
    case, assembly = case_of(request), assembly_of(request)
    builds = replace(case, values=ValueDistribution.NORMAL, seed=0).digest
    return builds if assembly is None else f"{builds} {assembly.ptxas} {assembly.optimises}"


def _is_endless(run: Run) -> bool:
    """Return True if the compiler did not end within the time limit."""
    return isinstance(run.ending, TimedOut) and run.ending.waiting is HungParty.COMPILER


def _kernel_config(run: Run) -> _KernelConfig:
    """Return what the compiler worked on when the time was up."""
    assert isinstance(run.ending, TimedOut)
    kernel = run.ending.launch or ""
    return _target(run.case), kernel, run.case.configs.get(kernel, 0)


def _has(case: Case, key: _KernelConfig) -> bool:
    """Return True if the case has this config of this kernel, which is known by name."""
    target, kernel, config = key
    return bool(kernel) and target == _target(case) and case.configs.get(kernel, 0) == config


def _in_words(run: Run) -> str:
    assert isinstance(run.ending, TimedOut)
    (op, _), kernel, config = _kernel_config(run)
    return f"config {config} of {kernel or 'a kernel'} in {op} was not compiled after {run.ending.limit_s:g} s"


def _not_compiled(run: Run) -> Run:
    """Return a run whose compiler did not end as one that says nothing."""
    assert isinstance(run.ending, TimedOut)
    what = f"a kernel whose config {_kernel_config(run)[2]} was not compiled after {run.ending.limit_s:g} s"
    return replace(run, ending=Unsupported(what=what, kernel=run.ending.launch or "", source=None, triton_version=""))
