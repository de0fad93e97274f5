"""The seam to the standard library's fork server: the only place that touches private names of `multiprocessing`.

`multiprocessing` has one fork server a process; workers need one for each device profile, hence instances of its
class.  It starts one as a fresh Python; ours may also be forked from another, whose modules they inherit.  Read with
Python 3.11.7, 3.12.1 and 3.13.0; `test_standard_forkserver.py` says when one differs.  The pickles here
hold constants of this file; cases and runs never travel this way.
"""

# ruff: noqa: SLF001 — private names are what this file is for

import io
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import connection, forkserver, resource_tracker, spawn, util
from pathlib import Path
from typing import Any, cast

from harness.workers.supervision import linux

SIGNED: struct.Struct = forkserver.SIGNED_STRUCT
"""How the child's process id, then its exit code, are written on the status pipe."""

PATH_BEFORE = "KERNEL_HARNESS_PYTHONPATH"

_environment = threading.Lock()


class ForkServer(forkserver.ForkServer):
    """A process that imports one module and then forks on request; the first fork starts it, also if it died."""

    def __init__(self, module: str, environment: Mapping[str, str], python: str = "") -> None:
        """`environment` is added to this process's own, for the server; the module is found as it would be here.

        `python` is executed in this Python's place: a file that hands its arguments on to one.
        """
        super().__init__()
        self._python = python
        self._forking = threading.Lock()
        self.set_forkserver_preload([module])
        self._added = {
            **environment,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            PATH_BEFORE: os.environ.get("PYTHONPATH", ""),
        }

    def ensure_running(self) -> None:
        """Start the server unless it runs; every fork comes through here."""
        with _added_to_environment(self._added), _executing(self._python):
            super().ensure_running()

    def fork(self, main: Callable[[tuple[int, ...]], int], fds: list[int]) -> int:
        """Have `main`, a module's function, run in a new child, given copies of the open files.

        What it returns is the child's exit status.
        Returns the read end of the status pipe.  Nothing here waits for the server.
        """
        with self._forking:
            try:
                status_r, data_w = self.connect_to_new_process(fds)
            except ConnectionError:  # it is just dying, and cannot be waited for yet
                self.stop()
                status_r, data_w = self.connect_to_new_process(fds)
        preparation, entry = io.BytesIO(), io.BytesIO()
        pickle.dump({}, preparation)
        pickle.dump(_Entry(main), entry)
        try:
            with os.fdopen(data_w, "wb") as data:
                data.write(preparation.getvalue() + entry.getvalue())
        except BrokenPipeError:
            pass  # the server is gone: the status pipe says so too
        return status_r

    @property
    def pid(self) -> int | None:
        """The server's process id, once it was started."""
        return cast("int | None", vars(self)["_forkserver_pid"])

    @property
    def incarnation(self) -> object:
        """Equal as long as it is the same process that serves; None while there is none."""
        return self.pid

    def stop(self) -> None:
        """Kill the server and reap it."""
        with cast("threading.Lock", vars(self)["_lock"]):
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)
            cast("Any", self)._stop_unlocked()

    def end(self, limit_s: float) -> bool:
        """Have it end by itself, and what it was executed by with it; false if it had to be killed at last."""
        with cast("threading.Lock", vars(self)["_lock"]):
            if self.pid is None:
                return True
            closed_r, closed_w = os.pipe()
            # Closes the pipe whose end tells the server to end, and leaves a file to be closed below.
            os.dup2(closed_w, vars(self)["_forkserver_alive_fd"], inheritable=False)
            os.close(closed_r)
            os.close(closed_w)
            has_ended = linux.ends(self.pid, limit_s)
            if not has_ended:
                os.kill(self.pid, signal.SIGKILL)
            cast("Any", self)._stop_unlocked()
            return has_ended


class ForkedServer(ForkServer):
    """A fork server that is forked from another one, and serves once `main` there has called `serve_forks`."""

    def __init__(self, origin: ForkServer, main: Callable[[tuple[int, ...]], int], orders: bytes) -> None:
        """`main` is given open files: the two that `serve_forks` takes, and one to read `orders` from."""
        super().__init__("", {})
        self._origin = origin
        self._server_main = main
        self._orders = orders
        self._status: _Status | None = None

    def ensure_running(self) -> None:
        """Have the server forked unless it runs; it may still be loading when this returns."""
        with cast("threading.Lock", vars(self)["_lock"]):
            cast("Any", resource_tracker).ensure_running()
            if self._status is not None:
                if not self._status.ended():
                    return
                self._let_go(self._status)
            with socket.socket(socket.AF_UNIX) as listener:
                address = cast("Any", connection).arbitrary_address("AF_UNIX")
                listener.bind(address)
                listener.listen()
                alive_r, alive_w = os.pipe()
                orders_fd = _file_of(self._orders)
                try:
                    status_fd = self._origin.fork(self._server_main, [listener.fileno(), alive_r, orders_fd])
                except BaseException:
                    os.close(alive_w)
                    raise
                finally:
                    os.close(alive_r)
                    os.close(orders_fd)
            self._status = _Status(status_fd)
            vars(self).update(_forkserver_address=address, _forkserver_alive_fd=alive_w)

    @property
    def pid(self) -> int | None:
        """The server's process id, once the origin has told it."""
        return self._status.pid if self._status is not None else None

    @property
    def incarnation(self) -> object:
        """As above; known before the process id is."""
        return self._status

    def stop(self) -> None:
        """Kill the server; the origin reaps it.  One that is not forked yet ends as soon as it is."""
        with cast("threading.Lock", vars(self)["_lock"]):
            if self._status is None:
                return
            if self._status.pid is not None and not self._status.ended():
                with suppress(ProcessLookupError):  # the origin has just reaped it, and not said so yet
                    os.kill(self._status.pid, signal.SIGKILL)
                self._status.wait()
            self._let_go(self._status)

    def _let_go(self, status: "_Status") -> None:
        os.close(cast("int", vars(self)["_forkserver_alive_fd"]))
        address = cast("str", vars(self)["_forkserver_address"])
        if not cast("Any", util).is_abstract_socket_namespace(address):
            Path(address).unlink()
        status.close()
        self._status = None
        vars(self).update(_forkserver_address=None, _forkserver_alive_fd=None)


class _Status:
    """What a fork server tells of one child: its process id, later its exit code, and nothing if it dies before."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._told = b""
        self._is_over = False

    @property
    def pid(self) -> int | None:
        self._read(0)
        return SIGNED.unpack_from(self._told)[0] if len(self._told) >= SIGNED.size else None

    def ended(self) -> bool:
        """Whether the child has ended, or its fork server has, in which case nobody knows."""
        self._read(0)
        return self._is_over

    def wait(self) -> None:
        """Until it has ended."""
        while not self._is_over:
            self._read(None)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self, limit_s: float | None) -> None:
        while not self._is_over and select.select([self._fd], [], [], limit_s)[0]:
            piece = os.read(self._fd, 2 * SIGNED.size)
            self._told += piece
            self._is_over = not piece or len(self._told) == 2 * SIGNED.size


def serve_forks(listener_fd: int, alive_fd: int) -> None:
    """In a process that a `ForkedServer` asked for: fork whenever it asks, until its owner is gone."""
    for fd in (listener_fd, alive_fd):
        os.set_inheritable(fd, False)  # noqa: FBT003 — takes no keyword
    try:
        cast("Any", forkserver).main(listener_fd, alive_fd, [])
    except SystemExit:  # how it ends
        return


def has_owner(alive_fd: int) -> bool:
    """Whether whoever asked for this fork server is still there, and still wants it."""
    return not select.select([alive_fd], [], [], 0)[0]


def _file_of(content: bytes) -> int:
    """An open file that holds the content, to be read from its start."""
    fd = os.memfd_create("orders")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def put_python_path_back() -> None:
    """In the server: what it starts shall not inherit the path by which it found its own modules."""
    before = os.environ.pop(PATH_BEFORE, "")
    if before:
        os.environ["PYTHONPATH"] = before
    else:
        os.environ.pop("PYTHONPATH", None)


class _Entry:
    """What the fork server's child unpickles and starts, in place of a `multiprocessing.Process`."""

    def __init__(self, main: Callable[[tuple[int, ...]], int]) -> None:
        self._main = main

    def _bootstrap(self, parent_sentinel: int) -> int:
        os.close(parent_sentinel)
        server = cast("Any", forkserver)._forkserver
        os.close(server._forkserver_alive_fd)  # or this child would keep the server alive when the parent is gone
        server._forkserver_alive_fd = None
        tracker = cast("Any", resource_tracker)._resource_tracker
        os.close(tracker._fd)
        tracker._fd = None
        return self._main(tuple(server._inherited_fds))


@contextmanager
def _executing(python: str) -> Generator[None]:
    """The fork server is started by the executable that `spawn` knows: change it, and change it back."""
    usual = spawn.get_executable()
    if python:
        spawn.set_executable(python)
    try:
        yield
    finally:
        spawn.set_executable(usual)


@contextmanager
def _added_to_environment(added: Mapping[str, str]) -> Generator[None]:
    """The fork server is started with this process's environment and no other: change it, and change it back."""
    with _environment:
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
