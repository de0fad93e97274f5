"""Fork servers as the parent sees them: each loads once, then gives a fresh child in milliseconds.

`GroundServer` has loaded what all devices share, seconds of imports, and is what the `Server` of each device is forked
from.
"""

import os
import socket
import threading
from pathlib import Path

from harness import wire
from harness.errors import WorkerError
from harness.workers import child, preload
from harness.workers.channel import TAIL_BYTES, Channel, Exited, Orphaned, Silent
from harness.workers.folder import Folder
from harness.workers.frames import Fault, FaultKind, Frame, Kind
from harness.workers.preload import ORDERS, DeviceOrders, GroundOrders
from harness.workers.spec import Ground, WorkerSpec
from harness.workers.standard_forkserver import ForkedServer, ForkServer
from harness.workers.worker import Worker, WorkerGone


class GroundServer:
    """Torch, Triton and the engine, with no device worn: the origin of the servers of all devices."""

    def __init__(self, ground: Ground, folder: Folder, number: int) -> None:
        self._log = folder.path / f"ground-{number}.log"
        orders = GroundOrders(ground=ground, parent=os.getpid(), log=str(self._log), temporary=str(folder.temporary))
        self.forks = ForkServer("harness.workers.preload", {ORDERS: wire.to_json(orders)})

    def log_tail(self) -> str:
        """The last of what it printed while it loaded."""
        return _tail(self._log)

    def close(self) -> None:
        """End it; servers forked from it are ended by whoever has them."""
        self.forks.stop()


class Server:
    """Gives workers of one spec.  What stops it from loading is raised at every attempt, but tried once."""

    def __init__(self, spec: WorkerSpec, ground: GroundServer, folder: Folder, number: int) -> None:
        self.spec = spec
        self._folder = folder
        self._ground = ground
        self._log = folder.path / f"server-{number}.log"
        orders = DeviceOrders(spec=spec, log=str(self._log))
        self._forks = ForkedServer(ground.forks, preload.serve_device, wire.to_json(orders).encode())
        self._lock = threading.Lock()
        self._loaded = False
        self._fault: Fault | None = None
        self._closed = False

    def fork(self, number: int) -> Worker:
        """A fresh worker; the first one waits until engine, suites and libraries are loaded.

        Raises:
            SuiteError: a suite cannot be loaded.
            LibraryError: a library under test is not there or cannot be imported.
            WorkerError: the engine cannot be loaded, or loading killed the process or took too long.
        """
        channel = self._ask()
        try:
            engine = self._await_hello(channel)
        except BaseException:
            channel.close()
            raise
        return Worker(channel, self.spec, self._folder, engine=engine, number=number)

    def close(self) -> None:
        """End the server, and with it every child."""
        with self._lock:
            self._closed = True
            self._forks.stop()

    def _ask(self) -> Channel:
        ours, theirs = socket.socketpair()
        log_r, log_w = os.pipe()
        try:
            status_fd = self._fork([theirs.fileno(), log_w])
        except BaseException:
            ours.close()
            os.close(log_r)
            raise
        finally:
            theirs.close()
            os.close(log_w)
        return Channel(ours, log_r, status_fd)

    def _fork(self, fds: list[int]) -> int:
        with self._lock:
            if self._fault:
                raise self._fault.error()
            if self._closed:
                raise WorkerError("the pool is closed")
            return self._forks.fork(child.main, fds)

    def _await_hello(self, channel: Channel) -> str:
        server = self._forks.incarnation
        match channel.wait(self.spec.load_limit_s):
            case Frame(kind=Kind.HELLO, payload=engine):
                self._loaded = True
                return engine.decode()
            case Frame(kind=Kind.FAULT, payload=payload):
                fault = wire.from_json(payload, Fault)
            case Frame(kind=kind):
                fault = self._fault_of(FaultKind.WORKER, f"a worker's first message was {kind.name}")
            case Exited() | Orphaned() if self._loaded or self._forks.pid is None:  # or what it is forked from is gone
                raise WorkerGone("a worker ended before it was ready")
            case Exited(code=code):
                what = f"a worker ended before it was ready (exit code {code}): {channel.log_tail}"
                fault = self._fault_of(FaultKind.WORKER, what)
            case Orphaned():
                fault = self._fault_of(FaultKind.LIBRARY, f"a process died while it loaded {self._what()}")
            case Silent():
                what = f"no worker within {self.spec.load_limit_s:g} s: loading {self._what()} hangs"
                fault = self._fault_of(FaultKind.LIBRARY, what)
        self._give_up(fault, server)
        raise fault.error()

    def _what(self) -> str:
        return f"{self.spec.engine}, {', '.join(self.spec.suites)} and its libraries"

    def _fault_of(self, kind: FaultKind, what: str) -> Fault:
        return Fault(kind=kind, message=f"{what}\n{_tail(self._log) or self._ground.log_tail()}".rstrip())

    def _give_up(self, fault: Fault, server: object) -> None:
        """What failed to load would fail again; a server that died later, perhaps for memory, is started anew."""
        with self._lock:
            if not self._loaded:
                self._fault = self._fault or fault
            if self._forks.incarnation == server:
                self._forks.stop()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-TAIL_BYTES:] if log.exists() else ""
