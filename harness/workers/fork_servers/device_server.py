"""The fork server of one device: it has loaded suites and libraries, and forks a worker in milliseconds."""

import threading
from collections.abc import Sequence
from pathlib import Path

from harness import wire
from harness.engines.cuda.cuda_errors import parse_assertions
from harness.engines.cuda.sanitizers.instrumentation import SELF_TEST_OUTPUT, Instrumenting
from harness.errors import WorkerError
from harness.workers.folder import PoolFolder
from harness.workers.fork_servers.shared_zygotes import Origin, run_to_end, tail_of
from harness.workers.interfaces import WorkerGone
from harness.workers.protocol import ChildError, FaultKind, Frame, FrameKind
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.channel import Channel, Exited, NoAnswer, Orphaned
from harness.workers.worker import Worker
from harness.workers.zygote import child
from harness.workers.zygote.fork_loop import Main, imported
from harness.workers.zygote.process_context import ProcessContext
from harness.workers.zygote.startup import DeviceOrders, start_device

LOOK_S = 2.0
"""So often is looked, during a wait for a worker, at what is to fork its server."""
SELF_TEST_LIMIT_S = 120.0
"""The child may have to compile the kernel with the planted mistake, and for GSan the allocator too."""
SELF_TEST_FILES = frozenset({"kernels_instrumented.py", "kernels_gluon.py"})


class DeviceServer:
    """Forks workers of one spec.  An obstacle to loading is met once, and raised at every later attempt."""

    def __init__(self, spec: WorkerSpec, zygote: Origin, folder: PoolFolder, number: int) -> None:
        self.spec = spec
        self._folder = folder
        self._zygote = zygote
        self._log = folder.path / f"server-{number}.log"
        context = ProcessContext.of_this_process()
        orders = DeviceOrders(spec=spec, log=str(self._log), temporary=str(folder.temporary), context=context)
        self._server = zygote.forked_server(start_device, wire.to_json(orders).encode())
        self._lock = threading.Lock()
        self._has_loaded = False
        self._fault: ChildError | None = None
        self._is_closed = False
        self._self_testing = threading.Lock()
        self._unproven: str | None = None
        """Why silence of Triton's sanitizer proves nothing; empty after a passed self-test, None before the test."""

    def fork(self, number: int) -> Worker:
        """A fresh worker; the first one waits until engine, suites and libraries are loaded.

        Raises:
            SuiteError: a suite cannot be loaded.
            LibraryError: a library under test is missing or cannot be imported.
            WorkerError: the engine cannot be loaded, or loading killed the process or took too long.
            GpuUnavailable: the GPU of the worker fails what every healthy GPU does.
        """
        channel = Channel.to_new_child(lambda fds: self._fork(child.main, fds), shows_output=self.spec.shows_output)
        try:
            engine = self._await_hello(channel)
            unproven = self._self_test(asked) if (asked := self.spec.instrumenting) else ""
            return Worker(channel, self.spec, self._folder.case_file(number), engine=engine, unproven=unproven)
        except BaseException:
            channel.close()
            raise

    def close(self) -> None:
        """Stop the server, and with it every child."""
        with self._lock:
            self._is_closed = True
            self._server.stop()

    def _self_test(self, asked: Instrumenting) -> str:
        """Once, have a child make a mistake on purpose.  Returns why the sanitizer is not trusted; empty if it is."""
        with self._self_testing:
            if self._unproven is None:
                channel = Channel.to_new_child(lambda fds: self._fork(imported(asked.self_test), fds))
                failure, printed = run_to_end(channel, SELF_TEST_LIMIT_S, lambda: tail_of(self._log))
                is_reported = SELF_TEST_OUTPUT in printed.splitlines() or any(
                    Path(assertion.source.file).name in SELF_TEST_FILES for assertion in parse_assertions(printed)
                )
                output = failure or printed.strip() or "nothing was printed"
                self._unproven = "" if is_reported else f"a mistake that was made on purpose was not reported: {output}"
            return self._unproven

    def _fork(self, main: Main, fds: Sequence[int]) -> int:
        with self._lock:
            if self._fault:
                raise self._fault.error()
            if self._is_closed:
                raise WorkerError("the pool is closed")
            return self._server.fork(main, fds)

    def _await_hello(self, channel: Channel) -> str:
        """The name of the engine in the new child."""
        server = self._server.incarnation
        answer = self._first_answer(channel)
        if isinstance(answer, Exited | Orphaned):
            self._raise_unless_at_fault(answer, server)
        match answer:
            case Frame(kind=FrameKind.HELLO, payload=engine):
                self._has_loaded = True
                return engine.decode()
            case Frame(kind=FrameKind.FAULT, payload=payload):
                fault = wire.from_json(payload, ChildError)
                if fault.kind is FaultKind.GPU:
                    raise fault.error()  # this server is healthy, and workers on another GPU have another server
            case Frame(kind=kind):
                fault = self._fault_of(FaultKind.WORKER, f"a worker's first message was {kind.name}")
            case Exited(code=code):
                what = f"a worker ended before it was ready (exit code {code}): {channel.log_tail}"
                fault = self._fault_of(FaultKind.WORKER, what)
            case Orphaned() if not self._folder.path.is_dir():
                fault = ChildError(kind=FaultKind.DISK, message=f"{self._folder.path} was removed")
            case Orphaned():
                fault = self._fault_of(FaultKind.LIBRARY, f"a process died while it loaded {self._loading()}")
            case NoAnswer():
                what = f"no worker within {self.spec.load_limit_s:g} s: loading {self._loading()} hangs"
                fault = self._fault_of(FaultKind.LIBRARY, what)
        self._give_up(fault, server)
        raise fault.error()

    def _first_answer(self, channel: Channel) -> Frame | Exited | Orphaned | NoAnswer:
        """Wait for a new child, unless the process that is to fork this server does not get to it."""
        left_s = self.spec.load_limit_s
        while left_s > LOOK_S:
            answer = channel.wait(LOOK_S)
            if not isinstance(answer, NoAnswer):
                return answer
            left_s -= LOOK_S
            if self._server.pid is None and self._zygote.has_stalled:
                self._zygote.leave_residents()
                self._server.stop()
                raise WorkerGone("a worker's zygote was stopped before it forked")
        return channel.wait(left_s)

    def _raise_unless_at_fault(self, end: Exited | Orphaned, server: object) -> None:
        """Raise `WorkerGone` if a worker ended early through no fault of loading: that had succeeded, or was killed."""
        if self._has_loaded:
            raise WorkerGone("a worker ended before it was ready")
        if self._fault:  # another thread has been told why
            raise self._fault.error()
        if isinstance(end, Orphaned) and self._server.incarnation != server:
            raise WorkerGone("another thread has given up the server of a worker")
        if isinstance(end, Orphaned) and self._server.has_lost_origin:
            self._zygote.leave_residents()
            raise WorkerGone("a worker's zygote ended before the worker was ready")

    def _loading(self) -> str:
        return f"{self.spec.engine}, {', '.join(self.spec.suites)} and its libraries"

    def _fault_of(self, kind: FaultKind, what: str) -> ChildError:
        return ChildError(kind=kind, message=f"{what}\n{tail_of(self._log) or self._zygote.log_tail()}".rstrip())

    def _give_up(self, fault: ChildError, server: object) -> None:
        """Stop the server.  What failed to load would fail again; a server that died later is started anew."""
        with self._lock:
            if not self._has_loaded:
                self._fault = self._fault or fault
            # Another thread may have met the same fault first, and started the server anew since.
            if self._server.incarnation == server:
                self._server.stop()
