"""Shared zygotes: fork servers that have loaded torch, Triton and an engine, and emulate no device.

Loading takes seconds and depends on neither device nor suites.  So the server of each device is forked from a shared
zygote, and a session that opens several pools keeps its zygotes.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.errors import WorkerError
from harness.workers.fork_servers.fork_server import ForkedServer
from harness.workers.fork_servers.started_zygote import StartedZygote, zygote_for
from harness.workers.protocol import Frame
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.channel import TAIL_BYTES, Channel, Exited, NoAnswer, Orphaned
from harness.workers.zygote.fork_loop import Main


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A program that Python runs under."""

    python: str
    """An executable file that starts the program on Python, and passes its own arguments on to Python."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class Origin(Protocol):
    """What a device's server is forked from."""

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        """A fork server that is to be forked from this one."""
        ...

    def log_tail(self) -> str:
        """The end of what it printed while it loaded."""
        ...


class SharedZygote:
    """One fork server from which the servers of all devices are forked.  The first request starts it."""

    def __init__(self, engine: str, wrapper: Wrapper | None = None) -> None:
        if wrapper:
            self._zygote = StartedZygote(engine, environment=wrapper.environment, python=wrapper.python)
        else:
            self._zygote = zygote_for(engine)
        self._server = self._zygote.server
        self._lock = threading.Lock()
        self._is_dismissed = False

    @property
    def pid(self) -> int | None:
        """The id of the process that was started: the wrapper's if there is one."""
        return self._server.pid

    def log_tail(self) -> str:
        """The end of what it printed while it loaded."""
        return self._zygote.log_tail()

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        """A fork server that is to be forked from this one."""
        return ForkedServer(self._server, main, orders)

    def run_once(self, main: Main, limit_s: float) -> str:
        """Run a module's function in a child of its own.  Returns what went wrong; empty if nothing did."""
        failure, _ = run_to_end(Channel.to_new_child(lambda fds: self._fork(main, fds)), limit_s, self.log_tail)
        return failure

    def dismiss(self) -> None:
        """Make `run_once` fail from now on: its request would start a server that was killed anew."""
        with self._lock:
            self._is_dismissed = True

    def end(self, limit_s: float) -> bool:
        """Let it and its wrapper end by themselves; False if they had to be killed in the end."""
        return self._server.end(limit_s)

    def close(self) -> None:
        """Kill it.  Servers that were forked from it belong to their pools, which stop them."""
        self._zygote.close()

    def _fork(self, main: Main, fds: Sequence[int]) -> int:
        with self._lock:
            if self._is_dismissed:
                raise WorkerError("the pool is closed")
            return self._server.fork(main, fds)


class SharedZygotes:
    """One shared zygote for each engine that is asked for.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygotes: dict[str, SharedZygote] = {}

    def __len__(self) -> int:
        return len(self._zygotes)

    def of(self, engine: str) -> SharedZygote:
        with self._lock:
            if engine not in self._zygotes:
                self._zygotes[engine] = SharedZygote(engine)
            return self._zygotes[engine]

    def origin(self, spec: WorkerSpec) -> Origin:
        """What the server of a spec is forked from."""
        return self.of(spec.engine)

    def close(self) -> None:
        """Kill them all.  Pools stop the servers that were forked from them."""
        with self._lock:
            for zygote in self._zygotes.values():
                zygote.close()
            self._zygotes.clear()


def run_to_end(channel: Channel, limit_s: float, log_tail: Callable[[], str]) -> tuple[str, str]:
    """Wait for a child that sends no frames.  Returns what went wrong (empty if nothing did) and what it printed."""
    try:
        match channel.wait(limit_s):
            case Exited(code=0):
                return "", channel.log_tail
            case Exited(code=code):
                return f"it exited with status {code}: {channel.log_tail}", channel.log_tail
            case Orphaned() | Frame():
                return f"its fork server is gone: {log_tail()}", ""
            case NoAnswer():
                return f"it did not end within {limit_s:g} s: {channel.log_tail}", channel.log_tail
    finally:
        channel.close()


def tail_of(log: Path) -> str:
    """The end of a log file; empty if there is none."""
    return log.read_text(errors="replace")[-TAIL_BYTES:] if log.exists() else ""
