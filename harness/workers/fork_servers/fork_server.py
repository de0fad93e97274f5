"""A fork server's process as the parent holds it: start, requests for children, stop.

`StartedServer` is a fresh Python.  `ForkedServer` is forked from another fork server, whose modules it inherits.  A
parent with threads cannot fork safely itself, so both kinds fork in `harness.workers.zygote.fork_loop`, which has the
protocol.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from harness.workers.supervision import linux
from harness.workers.supervision.child_status import ChildStatus
from harness.workers.zygote.fork_loop import Main, name_of

FLAGS = {
    "optimize": "-O",
    "dont_write_bytecode": "-B",
    "no_user_site": "-s",
    "no_site": "-S",
    "ignore_environment": "-E",
    "isolated": "-I",
    "safe_path": "-P",
}
"""The options of Python that a fresh one inherits, by their names in `sys.flags`."""


REPORTS = 3
"""What can be read of a status pipe: process id, exit code and end."""
REPORT_LIMIT_S = 0.5


class Forking(ABC):
    """Something that has children forked.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def fork(self, main: Main | str, fds: Sequence[int]) -> int:
        """Have a module's function run in a new child, on copies of the open files; it returns the exit status.

        Does not wait for the server.

        Returns:
            The read end of the child's status pipe: see `harness.workers.supervision.child_status`.

        Raises:
            ConnectionError: the server died at once, twice.
        """
        status_r, status_w = os.pipe()
        try:
            self.request(main if isinstance(main, str) else name_of(main), [status_w, *fds])
        except BaseException:
            os.close(status_r)
            raise
        finally:
            os.close(status_w)  # the server has a copy, so that the pipe ends with it
        return status_r

    def request(self, main: str, fds: Sequence[int]) -> None:
        """As `fork`, for a caller that has made the status pipe: its write end is the first of the open files."""
        with self._lock:
            self._request(main, fds)

    @abstractmethod
    def _request(self, main: str, fds: Sequence[int]) -> None:
        """Send the request; the caller holds the lock."""


class ForkServer(Forking):
    """A process that forks children on request.  The first request starts it, also after its death.  Thread-safe."""

    def __init__(self, main: Main | str, orders: bytes) -> None:
        """`main` runs in the server, perhaps named as `name_of` does.

        It gets two open files: the control socket, and a file that holds `orders`.
        """
        super().__init__()
        self._main = main if isinstance(main, str) else name_of(main)
        self._orders = orders
        self._control: socket.socket | None = None

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The server's process id, as far as it is known."""

    @property
    def incarnation(self) -> object:
        """Equal as long as the same process serves; None while there is none."""
        return self._control

    def start(self) -> None:
        """Start the server before the first request."""
        with self._lock:
            self._running()

    def stop(self) -> None:
        """Kill the server and wait until it is gone."""
        with self._lock:
            self._stop()

    def _request(self, main: str, fds: Sequence[int]) -> None:
        message = [main.encode()]
        try:
            socket.send_fds(self._running(), message, fds)
        except ConnectionError:  # it has just died, and its exit status is not known yet
            self._stop()
            socket.send_fds(self._running(), message, fds)

    def _running(self) -> socket.socket:
        if self._control is not None:
            if not self._has_ended():
                return self._control
            self._release()
        # Message boundaries are kept (SEQPACKET), so open files stay with the request that they came with.
        ours, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        orders_fd = file_of(self._orders)
        try:
            self._begin([child_end.fileno(), orders_fd])
        except BaseException:
            ours.close()
            raise
        finally:
            child_end.close()  # or the parent would not see the server's end
            os.close(orders_fd)
        self._control = ours
        return ours

    def _stop(self) -> None:
        if self._control is not None:
            self._kill()
            self._release()

    def _release(self) -> None:
        """Close the control socket: a server that still lives, or is not forked yet, ends by that."""
        if self._control is not None:
            self._control.close()
            self._control = None

    @abstractmethod
    def _begin(self, fds: Sequence[int]) -> None:
        """Start the process, which runs the server's main function on copies of the open files."""

    @abstractmethod
    def _has_ended(self) -> bool:
        """True if the process is known to have ended."""

    @abstractmethod
    def _kill(self) -> None:
        """Kill the process and wait until it is gone."""


class StartedServer(ForkServer):
    """A fork server that is a fresh Python."""

    def __init__(
        self, main: Main | str, orders: bytes, environment: Mapping[str, str], python: str = "", log: int | None = None
    ) -> None:
        """`environment` is added to this process's own.

        `python` is executed in the place of this Python: a program that passes its arguments on to one.  `main` gets
        the open file `log` too, if there is one.
        """
        super().__init__(main, orders)
        self._environment = environment
        self._python = python or sys.executable
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process that was started, which may be a tool that runs Python.  Never waits for a request."""
        process = self._process
        return process.pid if process is not None else None

    def end(self, limit_s: float) -> bool:
        """Let the server end by itself, and the tool that it runs under; False if that had to be killed in the end."""
        with self._lock:
            if self._process is None or self._control is None:
                return True
            # A shutdown ends the connection though a copy of the socket may be open elsewhere, as after a fork.
            with suppress(OSError):  # the server is gone
                self._control.shutdown(socket.SHUT_RDWR)
            has_ended = linux.ends(self._process.pid, limit_s)
            self._stop()
            return has_ended

    def _begin(self, fds: Sequence[int]) -> None:
        fds = fds if self._log is None else [*fds, self._log]
        self._process = subprocess.Popen(
            [self._python, *python_arguments(self._main, fds)],
            stdin=subprocess.DEVNULL,
            pass_fds=fds,
            env={**os.environ, **self._environment},
            restore_signals=False,
        )

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _release(self) -> None:
        super()._release()
        self._process = None


class ForkedServer(ForkServer):
    """A fork server that is forked from another one, the origin."""

    def __init__(self, origin: Forking, main: Main, orders: bytes) -> None:
        super().__init__(main, orders)
        self._origin = origin
        self._status: ChildStatus | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id, once the origin has reported it."""
        with self._lock:
            return self._reported_pid()

    @property
    def has_lost_origin(self) -> bool:
        """True if the origin ended before it forked this server, or before it could say how that ended.

        For a server of which a child has just been lost.
        """
        with self._lock:
            if self._status is None:
                return True
            for _ in range(REPORTS):
                self._status.read(REPORT_LIMIT_S)
            return self._status.pid is None or self._status.is_orphaned

    def _begin(self, fds: Sequence[int]) -> None:
        self._status = ChildStatus(self._origin.fork(self._main, fds))

    def _has_ended(self) -> bool:
        """True also if the origin is gone: how this server ends would never be known."""
        if self._status is not None:
            self._status.read()
        return self._status is None or self._status.is_final

    def _kill(self) -> None:
        pid = self._reported_pid()
        if self._status is None or pid is None:  # not forked yet: it ends when it finds its control socket closed
            return
        if not self._has_ended():
            with suppress(ProcessLookupError):  # the origin has just reaped it, and is about to report that
                os.kill(pid, signal.SIGKILL)
        while not self._status.is_final and not linux.has_ended(pid):  # an origin that is stopped reports no end
            self._status.read(REPORT_LIMIT_S)

    def _reported_pid(self) -> int | None:
        if self._status is None:
            return None
        self._status.read()
        return self._status.pid

    def _release(self) -> None:
        super()._release()
        if self._status is not None:
            self._status.close()
            self._status = None


def file_of(content: bytes) -> int:
    """An open file in memory that holds the content, to be read from its start."""
    fd = os.memfd_create("orders")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def search_path() -> list[str]:
    """The folders in which a fresh Python finds modules as this one does, but for its working directory."""
    # An entry may be the name of a path hook (editable installations have one), so only folders are made absolute.
    return [str(Path(path).absolute()) if Path(path).exists() else path for path in sys.path if path]


def python_arguments(main: str, fds: Sequence[int]) -> list[str]:
    """The arguments of a fresh Python that runs a module's function on open files."""
    module, _, function = main.partition(":")
    # `-c` puts the working directory first, our folders come next.
    program = (
        f"import sys; sys.path[1:] = dict.fromkeys([*{search_path()!r}, *sys.path[1:]]); "
        f"from {module} import {function} as main; sys.exit(main({tuple(fds)!r}))"
    )
    return [*_interpreter_options(), "-c", program]


def _interpreter_options() -> list[str]:
    flags = [option for name, option in FLAGS.items() if getattr(sys.flags, name)]
    return [*flags, *(f"-W{option}" for option in sys.warnoptions), *(["-Xdev"] if sys.flags.dev_mode else [])]
