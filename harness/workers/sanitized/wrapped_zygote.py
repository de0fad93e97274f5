"""A zygote that runs under another program, such as compute-sanitizer."""

import threading
from collections.abc import Mapping, Sequence

from harness.errors import WorkerError
from harness.workers.fork_servers.fork_server import ForkedServer
from harness.workers.fork_servers.shared_zygotes import run_to_end
from harness.workers.fork_servers.started_zygote import StartedZygote
from harness.workers.supervision.channel import Channel
from harness.workers.zygote.fork_loop import Main


class WrappedZygote:
    """One fork server from which the servers of all devices are forked.  The first request starts it."""

    def __init__(self, engine: str, python: str, environment: Mapping[str, str]) -> None:
        """Run under a program.

        Args:
            engine: the factory of the engine.
            python: an executable file that starts the program on Python, and passes its own arguments on to Python.
            environment: more variables.
        """
        self._zygote = StartedZygote(engine, environment=environment, python=python)
        self._lock = threading.Lock()
        self._is_dismissed = False

    @property
    def pid(self) -> int | None:
        """The id of the process that was started: the program's."""
        return self._zygote.server.pid

    def log_tail(self) -> str:
        """The end of what it printed while it loaded."""
        return self._zygote.log_tail()

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        """A fork server that is to be forked from this one."""
        return ForkedServer(self._zygote.server, main, orders)

    @property
    def has_stalled(self) -> bool:
        """False: there is no resident."""
        return False

    def leave_residents(self) -> None:
        """Do nothing: it is none."""

    def run_once(self, main: Main, limit_s: float) -> str:
        """Run a module's function in a child of its own.  Returns what went wrong; empty if nothing did."""
        failure, _ = run_to_end(Channel.to_new_child(lambda fds: self._fork(main, fds)), limit_s, self.log_tail)
        return failure

    def dismiss(self) -> None:
        """Make `run_once` fail from now on: its request would start a server that was killed anew."""
        with self._lock:
            self._is_dismissed = True

    def end(self, limit_s: float) -> bool:
        """Let it and its program end by themselves; False if they had to be killed in the end."""
        return self._zygote.server.end(limit_s)

    def close(self) -> None:
        """Kill it.  Servers that were forked from it belong to their pools, which stop them."""
        self._zygote.close()

    def _fork(self, main: Main, fds: Sequence[int]) -> int:
        with self._lock:
            if self._is_dismissed:
                raise WorkerError("the pool is closed")
            return self._zygote.server.fork(main, fds)
