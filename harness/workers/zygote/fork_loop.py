"""The loop of a fork server: it forks a child for each request and reports the child's process id and exit code.

A request is one message on the control socket.  Its text names the function that the child runs, as `module:function`.
Attached are the write end of the status pipe and the open files for the child.
`harness.workers.fork_servers.fork_server` holds the other end of the socket.  The server ends when that end is closed,
which Linux does however the parent ends.

The process must have one thread while it forks.  A child has a copy of the forking thread alone, but of all locks.
"""

import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from harness.workers.supervision import child_status

Main = Callable[[tuple[int, ...]], int]
"""What a child runs.  It takes the open files that came with the request and returns the exit status."""

LONGEST_NAME = 4096
MOST_FILES = 16


def name_of(main: Main) -> str:
    """The text by which a request names a function of a module."""
    return f"{main.__module__}:{main.__qualname__}"


def imported(name: str) -> Main:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def has_owner(control: socket.socket) -> bool:
    """True while the other end of the control socket is open; requests that wait unread do not matter."""
    poll = select.poll()
    poll.register(control, select.POLLHUP)
    return not poll.poll(0)


def serve_forks(control: socket.socket) -> None:
    """Fork whenever the owner asks, until the owner closes its end or is gone."""
    ForkLoop(control).run()


class ForkLoop:
    """The requests, signals and children of one fork server."""

    def __init__(self, *controls: socket.socket) -> None:
        self._poll = select.poll()
        self._controls: dict[int, socket.socket] = {}
        for control in controls:
            self.add(control)
        self._status_fds: dict[int, int] = {}
        """Write ends of status pipes by the child's process id."""
        self._wakeup_r, self._wakeup_w = os.pipe()
        os.set_blocking(self._wakeup_r, False)
        os.set_blocking(self._wakeup_w, False)
        # Python writes a byte to the wakeup pipe for each signal that has a handler.  So `poll` returns also for a
        # child that ended just before the call.  A pidfd for each child would do as well, but needs Linux 5.3.
        self._handlers: dict[signal.Signals, Any] = {
            signal.SIGCHLD: signal.signal(signal.SIGCHLD, lambda *_: None),
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),  # Ctrl-C is the parent's to handle
        }
        signal.set_wakeup_fd(self._wakeup_w, warn_on_full_buffer=False)
        self._poll.register(self._wakeup_r, select.POLLIN)

    def run(self) -> None:
        """Serve until the last owner is gone."""
        while self._controls:
            self._serve(dict(self._poll.poll()))

    def add(self, control: socket.socket) -> None:
        """Serve one more owner."""
        self._controls[control.fileno()] = control
        self._poll.register(control, select.POLLIN)

    def _serve(self, events: Mapping[int, int]) -> None:
        if self._wakeup_r in events:
            self._reap()
        for fd in self._controls.keys() & events.keys():
            if events[fd] & select.POLLHUP:  # the parent no longer waits for queued requests
                self._poll.unregister(fd)
                self._controls.pop(fd).close()
            else:
                self._fork(self._controls[fd])

    def _not_for_children(self) -> Iterator[socket.socket]:
        """Yield the sockets that a child closes: a copy would hide the end of this server, a sibling or the parent."""
        yield from self._controls.values()

    def _reap(self) -> None:
        """Report every child that has ended: several SIGCHLD may have arrived as one."""
        os.read(self._wakeup_r, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # none is left
                return
            if pid == 0:  # the others still run
                return
            # A library may have started a process of its own on import; that is only reaped.
            status_fd = self._status_fds.pop(pid, None)
            if status_fd is not None:
                child_status.report(status_fd, os.waitstatus_to_exitcode(status))
                os.close(status_fd)

    def _fork(self, control: socket.socket) -> None:
        name, fds, _, _ = socket.recv_fds(control, LONGEST_NAME, MOST_FILES)
        if not fds:  # the owner closed its end after `poll` had returned
            return
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003 - takes no keyword
        status_fd, *files = fds
        pid = os.fork()
        if pid == 0:
            self._become_child(name.decode(), status_fd, files)
        child_status.report(status_fd, pid)
        self._status_fds[pid] = status_fd
        for fd in files:
            os.close(fd)

    def _become_child(self, name: str, status_fd: int, files: Sequence[int]) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)  # first, for the pipe is shared: a signal of this child would wake the server
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            for inherited in self._not_for_children():
                inherited.close()
            for fd in (self._wakeup_r, self._wakeup_w, status_fd, *self._status_fds.values()):
                os.close(fd)
            code = imported(name)(tuple(files))
        except Exception as error:  # noqa: BLE001 - the process's own boundary
            sys.excepthook(type(error), error, error.__traceback__)
            sys.stderr.flush()
        finally:
            os._exit(code)  # past the cleanup that belongs to the server: exit handlers, buffers, frames above
