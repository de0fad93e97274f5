"""Shared zygotes: fork servers that have loaded torch, Triton and an engine, and emulate no device.

Loading takes seconds and depends on neither device nor suites.  So the server of each device is forked from a shared
zygote, and a session that opens several pools keeps its zygotes.
"""

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from harness import wire
from harness.model.engine_traits import find_engine
from harness.workers.fork_servers.fork_server import ForkedServer, file_of
from harness.workers.fork_servers.residents import NoResident, Residents, ResidentServer
from harness.workers.fork_servers.started_zygote import EngineZygote, zygote_for
from harness.workers.protocol import Frame
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.channel import TAIL_BYTES, Channel, Exited, NoAnswer, Orphaned
from harness.workers.zygote.fork_loop import Main
from harness.workers.zygote.orders import Residence
from harness.workers.zygote.process_context import ProcessContext
from harness.workers.zygote.startup import LibraryOrders, start_library


class Origin(Protocol):
    """What a device's server is forked from."""

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        """A fork server that is to be forked from this one."""
        ...

    def log_tail(self) -> str:
        """The end of what it printed while it loaded."""
        ...

    @property
    def has_stalled(self) -> bool:
        """True if a resident of which this consists is stopped, or does not come to an end of loading."""
        ...

    def leave_residents(self) -> None:
        """Use no resident from now on: one ended or stopped while it was used."""
        ...


class SharedZygote:
    """The zygote of an engine, from which the servers of all devices are forked."""

    def __init__(self, zygote: EngineZygote) -> None:
        self.zygote = zygote

    @property
    def pid(self) -> int | None:
        """The id of the process that was started; None if it is a resident."""
        return self.zygote.pid

    def log_tail(self) -> str:
        """The end of what it printed while it loaded."""
        return self.zygote.log_tail()

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        """A fork server that is to be forked from this one."""
        return ForkedServer(self.zygote.server, main, orders)

    @property
    def has_stalled(self) -> bool:
        return self.zygote.has_stalled

    def leave_residents(self) -> None:
        """Use no resident from now on: one ended or stopped while it was used."""
        self.zygote.leave_resident()

    def close(self) -> None:
        """End it, unless it is a resident.  Servers that were forked from it belong to their pools, which stop them."""
        self.zygote.close()


class LibraryResident:
    """A resident that has loaded suites and libraries for a device, or the shared zygote where there is none."""

    def __init__(self, spec: WorkerSpec, residents: Residents, shared: SharedZygote) -> None:
        self._spec = spec
        self._residents = residents
        self._shared = shared
        self._server = ResidentServer(self._connected, lambda: shared.zygote.server)

    def log_tail(self) -> str:
        """The end of what the shared zygote printed."""
        return self._shared.log_tail()

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        """A fork server that is to be forked from this one."""
        return ForkedServer(self._server, main, orders)

    @property
    def has_stalled(self) -> bool:
        """True also if that of the engine has, or was given up: it may have been asked for this one."""
        engine = self._shared.zygote
        is_left = self._server.is_connected and not engine.is_resident
        return is_left or self._server.has_stalled or engine.has_stalled

    def leave_residents(self) -> None:
        """Use no resident from now on: one ended or stopped while it was used."""
        self._server.close()
        self._shared.leave_residents()

    def close(self) -> None:
        """Give up the resident, which stays."""
        self._server.close()

    def _connected(self) -> socket.socket:
        engine = self._shared.zygote
        engine.start()
        if not engine.is_resident:
            raise NoResident("that of the engine is not there, of which it would be a child")
        context = ProcessContext.of_this_process()
        key = (wire.to_json(self._spec), context.lasting_environment, context.directory)
        return self._residents.of_library(key, lambda listener, residence: self._start(listener, residence, context))

    def _start(self, listener: int, residence: Residence, context: ProcessContext) -> None:
        orders = LibraryOrders(spec=self._spec, context=context, residence=residence)
        orders_fd = file_of(wire.to_json(orders).encode())
        try:
            os.close(self._shared.zygote.server.fork(start_library, [listener, orders_fd]))
        finally:
            os.close(orders_fd)


class SharedZygotes:
    """One shared zygote for each engine that is asked for.  Thread-safe."""

    def __init__(self, residents: Residents | None = None) -> None:
        """Without `residents` all processes end when this is closed."""
        self._lock = threading.RLock()
        self._residents = residents
        self._zygotes: dict[str, SharedZygote] = {}
        self._libraries: dict[WorkerSpec, LibraryResident] = {}

    def __len__(self) -> int:
        return len(self._zygotes)

    def of(self, engine: str) -> SharedZygote:
        with self._lock:
            if engine not in self._zygotes:
                self._zygotes[engine] = SharedZygote(zygote_for(engine, self._residents if _stays(engine) else None))
            return self._zygotes[engine]

    def origin(self, spec: WorkerSpec) -> Origin:
        """What the server of a spec is forked from."""
        shared = self.of(spec.engine)
        if self._residents is None or not _stays(spec.engine) or spec.confined_to or spec.environment:
            return shared
        plain = replace(spec, shows_output=False)
        with self._lock:
            if plain not in self._libraries:
                self._libraries[plain] = LibraryResident(plain, self._residents, shared)
            return self._libraries[plain]

    def close(self) -> None:
        """End them all, but for residents.  Pools stop the servers that were forked from them."""
        with self._lock:
            for zygote in (*self._libraries.values(), *self._zygotes.values()):
                zygote.close()
            self._libraries.clear()
            self._zygotes.clear()


def _stays(engine: str) -> bool:
    """True if the engine, named by its factory, may have a resident: it is the harness's own, and uses no GPU."""
    known = find_engine(engine)
    return known is not None and not known.needs_gpu


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
