"""Fork servers as the parent sees them: each loads once, then gives a fresh child in milliseconds.

`SharedZygote` has loaded what all devices share, seconds of imports, and is what the `Server` of each device is forked
from.
"""

import importlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import wire
from harness.cuda.cuda_errors import assertions
from harness.cuda.sanitizers.instrumentation import TESTIMONY, Instrumenting
from harness.errors import WorkerError
from harness.workers import child
from harness.workers.channel import TAIL_BYTES, Channel, Exited, NoAnswer, Orphaned
from harness.workers.folder import PoolFolder
from harness.workers.protocol import ChildError, FaultKind, Frame, FrameKind
from harness.workers.spec import WorkerSpec, ZygoteSpec
from harness.workers.supervision.recorder_reader import Recorder
from harness.workers.worker import Worker, WorkerGone
from harness.workers.zygote import preload
from harness.workers.zygote.preload import ORDERS, DeviceOrders, GroundOrders
from harness.workers.zygote.standard_forkserver import ForkedServer, ForkServer

WITNESS_LIMIT_S = 120.0
"""For a planted mistake, whose kernel, and for GSan whose allocator, may have to be compiled."""
WITNESS_FILES = frozenset({"kernels_instrumented.py", "kernels_gluon.py"})

Main = Callable[[tuple[int, ...]], int]
"""What a forked child runs: it is given open files, for its frames, its output and its flight recorder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """A program that a fork server's process runs under."""

    python: str
    """A file that executes the program, with Python and its arguments in the end."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class SharedZygote:
    """Torch, Triton and the engine, with no device worn: the origin of the servers of all devices."""

    def __init__(self, ground: ZygoteSpec, folder: PoolFolder, number: int, under: Under | None = None) -> None:
        self._log = folder.path / f"ground-{number}.log"
        orders = GroundOrders(
            ground=ground,
            parent=None if under else os.getpid(),
            log=str(self._log),
            temporary=str(folder.temporary),
        )
        added = {ORDERS: wire.to_json(orders), **(under.environment if under else {})}
        self.forks = ForkServer("harness.workers.zygote.preload", added, under.python if under else "")
        self._lock = threading.Lock()
        self._is_wanted = True

    def log_tail(self) -> str:
        """The last of what it printed while it loaded."""
        return _tail(self._log)

    def close(self) -> None:
        """End it; servers forked from it are ended by whoever has them."""
        self.forks.stop()

    def dismiss(self) -> None:
        """Let `run_once` start nothing any more: the first fork would start the server anew."""
        with self._lock:
            self._is_wanted = False

    def run_once(self, main: Main, limit_s: float) -> str:
        """Have a module's function run in a child of its own; what went wrong, or nothing."""
        failure, _ = _run_once(_ask(lambda fds: self._fork(main, fds)), limit_s, self.log_tail)
        return failure

    def _fork(self, main: Main, fds: list[int]) -> int:
        with self._lock:
            if not self._is_wanted:
                raise WorkerError("the pool is closed")
            return self.forks.fork(main, fds)


class Server:
    """Gives workers of one spec.  What stops it from loading is raised at every attempt, but tried once."""

    def __init__(self, spec: WorkerSpec, ground: SharedZygote, folder: PoolFolder, number: int) -> None:
        self.spec = spec
        self._folder = folder
        self._ground = ground
        self._log = folder.path / f"server-{number}.log"
        orders = DeviceOrders(spec=spec, log=str(self._log))
        self._forks = ForkedServer(ground.forks, preload.serve_device, wire.to_json(orders).encode())
        self._lock = threading.Lock()
        self._loaded = False
        self._fault: ChildError | None = None
        self._closed = False
        self._proving = threading.Lock()
        self._unproven: str | None = None
        """Why a sanitizer of Triton's may not watch; empty where it has reported a mistake, None where nobody asked."""

    def fork(self, number: int) -> Worker:
        """A fresh worker; the first one waits until engine, suites and libraries are loaded.

        Raises:
            SuiteError: a suite cannot be loaded.
            LibraryError: a library under test is not there or cannot be imported.
            WorkerError: the engine cannot be loaded, or loading killed the process or took too long.
            GpuUnavailable: the GPU on which the worker is to run cases does not do what every GPU does.
        """
        channel = _ask(lambda fds: self._fork(child.main, fds))
        try:
            engine = self._await_hello(channel)
            unproven = self._prove(asked) if (asked := self.spec.instrumenting) else ""
        except BaseException:
            channel.close()
            raise
        return Worker(channel, self.spec, self._folder, engine=engine, number=number, unproven=unproven)

    def close(self) -> None:
        """End the server, and with it every child."""
        with self._lock:
            self._closed = True
            self._forks.stop()

    def _prove(self, asked: Instrumenting) -> str:
        """Have a child make a mistake on purpose, once."""
        with self._proving:
            if self._unproven is None:
                channel = _ask(lambda fds: self._fork(named(asked.witness), fds))
                failure, printed = _run_once(channel, WITNESS_LIMIT_S, lambda: _tail(self._log))
                reported = TESTIMONY in printed.splitlines() or any(
                    Path(one.source.file).name in WITNESS_FILES for one in assertions(printed)
                )
                said = failure or printed.strip() or "nothing was printed"
                self._unproven = "" if reported else f"a mistake that was made on purpose was not reported: {said}"
            return self._unproven

    def _fork(self, main: Main, fds: list[int]) -> int:
        with self._lock:
            if self._fault:
                raise self._fault.error()
            if self._closed:
                raise WorkerError("the pool is closed")
            return self._forks.fork(main, fds)

    def _await_hello(self, channel: Channel) -> str:
        server = self._forks.incarnation
        match channel.wait(self.spec.load_limit_s):
            case Frame(kind=FrameKind.HELLO, payload=engine):
                self._loaded = True
                return engine.decode()
            case Frame(kind=FrameKind.FAULT, payload=payload):
                fault = wire.from_json(payload, ChildError)
                if fault.kind is FaultKind.GPU:
                    raise fault.error()  # the server is well, and another GPU has another server
            case Frame(kind=kind):
                fault = self._fault_of(FaultKind.WORKER, f"a worker's first message was {kind.name}")
            case Exited() | Orphaned() if self._loaded or self._forks.pid is None:  # or what it is forked from is gone
                raise WorkerGone("a worker ended before it was ready")
            case Exited(code=code):
                what = f"a worker ended before it was ready (exit code {code}): {channel.log_tail}"
                fault = self._fault_of(FaultKind.WORKER, what)
            case Orphaned():
                fault = self._fault_of(FaultKind.LIBRARY, f"a process died while it loaded {self._what()}")
            case NoAnswer():
                what = f"no worker within {self.spec.load_limit_s:g} s: loading {self._what()} hangs"
                fault = self._fault_of(FaultKind.LIBRARY, what)
        self._give_up(fault, server)
        raise fault.error()

    def _what(self) -> str:
        return f"{self.spec.engine}, {', '.join(self.spec.suites)} and its libraries"

    def _fault_of(self, kind: FaultKind, what: str) -> ChildError:
        return ChildError(kind=kind, message=f"{what}\n{_tail(self._log) or self._ground.log_tail()}".rstrip())

    def _give_up(self, fault: ChildError, server: object) -> None:
        """What failed to load would fail again; a server that died later, perhaps for memory, is started anew."""
        with self._lock:
            if not self._loaded:
                self._fault = self._fault or fault
            if self._forks.incarnation == server:
                self._forks.stop()


def named(function: str) -> Main:
    """What `module:function` names, for a child to run."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


def _run_once(channel: Channel, limit_s: float, log_tail: Callable[[], str]) -> tuple[str, str]:
    """Wait for a child that answers nothing: what went wrong, or nothing, and what it printed."""
    try:
        match channel.wait(limit_s):
            case Exited(code=0):
                return "", channel.log_tail
            case Exited(code=code):
                return f"it left with status {code}: {channel.log_tail}", channel.log_tail
            case Orphaned() | Frame():
                return f"its fork server is gone: {log_tail()}", ""
            case NoAnswer():
                return f"it did not end within {limit_s:g} s: {channel.log_tail}", channel.log_tail
    finally:
        channel.close()


def _ask(fork: Callable[[list[int]], int]) -> Channel:
    """A new child, forked by what takes its open files and gives its status pipe."""
    ours, theirs = socket.socketpair()
    log_r, log_w = os.pipe()
    recorder = Recorder()
    try:
        status_fd = fork([theirs.fileno(), log_w, recorder.fd])
    except BaseException:
        ours.close()
        os.close(log_r)
        recorder.close()
        raise
    finally:
        theirs.close()
        os.close(log_w)
        recorder.hand_over()
    return Channel(ours, log_r, status_fd, recorder)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-TAIL_BYTES:] if log.exists() else ""
