"""Zygotes that emulate a device already, with the modules of the harness that suites of one kind need.

For a caller with many short-lived suites, as one candidate after another: their servers are forked from a process that
has done all that none of them decides.  It holds no suite, no library under test and no code of a candidate.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from harness import wire
from harness.model.engine_traits import VIRTUAL
from harness.workers.folder import PoolFolder
from harness.workers.fork_servers.fork_server import ForkedServer
from harness.workers.fork_servers.residents import Residents
from harness.workers.fork_servers.shared_zygotes import Origin, SharedZygotes, tail_of
from harness.workers.spec import WorkerSpec
from harness.workers.zygote.fork_loop import Main
from harness.workers.zygote.process_context import ProcessContext
from harness.workers.zygote.startup import DeviceOrders, start_emulator


class EmulatingZygote:
    """One fork server that emulates a device."""

    def __init__(
        self, origin: Origin, spec: WorkerSpec, folder: PoolFolder, number: int, modules: Sequence[str]
    ) -> None:
        self._log = folder.path / f"emulating-zygote-{number}.log"
        self._origin = origin
        orders = DeviceOrders(
            spec=spec,
            log=str(self._log),
            temporary=str(folder.temporary),
            context=ProcessContext.of_this_process(),
            modules=tuple(modules),
        )
        self._server = origin.forked_server(start_emulator, wire.to_json(orders).encode())

    @property
    def pid(self) -> int | None:
        return self._server.pid

    def forked_server(self, main: Main, orders: bytes) -> ForkedServer:
        return ForkedServer(self._server, main, orders)

    def log_tail(self) -> str:
        return tail_of(self._log) or self._origin.log_tail()

    @property
    def has_stalled(self) -> bool:
        return self._origin.has_stalled

    def leave_residents(self) -> None:
        """Use no resident from now on: one ended or stopped while it was used."""
        self._origin.leave_residents()
        if self._server.pid is None:  # asked for, and not forked
            self._server.stop()

    def close(self) -> None:
        """Kill it.  Servers that were forked from it belong to their pools, which stop them."""
        self._server.stop()


class EmulatingZygotes(SharedZygotes):
    """One emulating zygote for each device, and for engines that cannot have one a shared zygote.  Thread-safe."""

    def __init__(
        self, modules: Sequence[str], engine: str = VIRTUAL.factory, residents: Residents | None = None
    ) -> None:
        """`engine` is one that can move, as `harness.execution.engine.MovableEngine` says."""
        super().__init__(residents)
        self._numbers = count()
        self._folders: dict[str, PoolFolder] = {}
        self._engine = engine
        self._modules = modules
        self._emulating: dict[WorkerSpec, EmulatingZygote] = {}

    def origin(self, spec: WorkerSpec) -> Origin:
        if spec.engine != self._engine or spec.sanitizing or spec.instrumenting:
            return super().origin(spec)
        return self.emulating(spec)

    def emulating(self, spec: WorkerSpec) -> EmulatingZygote:
        """The emulating zygote for a spec, whatever suites and folders that has."""
        plain = replace(spec, suites=(), confined_to=(), shows_output=False)
        origin = self.of(plain.engine)
        with self._lock:
            if plain not in self._emulating:
                folder, number = self._folder(spec.scratch), next(self._numbers)
                self._emulating[plain] = EmulatingZygote(origin, plain, folder, number, self._modules)
            return self._emulating[plain]

    def close(self) -> None:
        with self._lock:
            for zygote in self._emulating.values():
                zygote.close()
            self._emulating.clear()
            for folder in self._folders.values():
                folder.remove()
            self._folders.clear()
        super().close()

    def _folder(self, scratch: str) -> PoolFolder:
        """Return the folder for files below this one; the caller holds the lock."""
        if scratch not in self._folders:
            self._folders[scratch] = PoolFolder(scratch)
        return self._folders[scratch]
