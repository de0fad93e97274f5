"""The zygote of an engine: a resident, or a fresh Python that ends with this process.

A command may start one before it knows what it will be asked for.  So this module imports next to nothing.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

from harness.workers.fork_servers.fork_server import Forking, StartedServer
from harness.workers.fork_servers.residents import Residents, ResidentServer
from harness.workers.zygote.orders import START_SHARED, SharedOrders

LOG_BYTES = 8192


class StartedZygote:
    """A fresh Python, and what it prints while it loads."""

    def __init__(self, engine: str, *, environment: Mapping[str, str] | None = None, python: str = "") -> None:
        """`environment` and `python` are those of a program that Python runs under."""
        self._log = os.fdopen(os.memfd_create("zygote"), "rb")
        orders = SharedOrders(engine=engine, parent=None if python else os.getpid())
        self.server = StartedServer(
            START_SHARED, json.dumps(asdict(orders)).encode(), environment or {}, python, self._log.fileno()
        )

    def log_tail(self) -> str:
        """The end of what it printed; empty once it was closed."""
        with suppress(ValueError):
            file = self._log.fileno()
            return os.pread(file, LOG_BYTES, max(0, os.fstat(file).st_size - LOG_BYTES)).decode(errors="replace")
        return ""

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self.server.stop()
        self._log.close()


class EngineZygote:
    """The zygote of one engine, in the form that is to be had."""

    def __init__(self, engine: str, residents: Residents | None) -> None:
        """Without `residents` it is a fresh Python."""
        self._engine = engine
        self._started: StartedZygote | None = None
        self._resident = residents and ResidentServer(lambda: residents.of_engine(engine), lambda: self._own().server)
        self.server: Forking = self._resident or self._own().server

    def start(self) -> None:
        """Start it before the first request."""
        if self._resident is not None:
            self._resident.start()
        if not self.is_resident:
            self._own().server.start()

    @property
    def is_resident(self) -> bool:
        return self._resident is not None and self._resident.is_connected

    @property
    def has_stalled(self) -> bool:
        """True if it is a resident that will not answer soon."""
        return self._resident is not None and self._resident.has_stalled

    @property
    def pid(self) -> int | None:
        """The id of the fresh Python; None if there is none."""
        return self._started.server.pid if self._started is not None else None

    def log_tail(self) -> str:
        """The end of what the fresh Python printed while it loaded."""
        return self._started.log_tail() if self._started is not None else ""

    def leave_resident(self) -> None:
        """Use a fresh Python from now on."""
        if self._resident is not None:
            self._resident.close()

    def close(self) -> None:
        """End it, unless it is a resident."""
        self.leave_resident()
        if self._started is not None:
            self._started.close()

    def _own(self) -> StartedZygote:
        if self._started is None:
            self._started = StartedZygote(self._engine)
        return self._started


class _Early:
    zygotes: dict[str, EngineZygote] = {}  # noqa: RUF012 - the state of this process


def start_early(engine: str, residents: Residents | None) -> None:
    """Start the zygote of an engine that this process will probably need.  It must not have threads yet."""
    _Early.zygotes[engine] = zygote = EngineZygote(engine, residents)
    zygote.start()


def zygote_for(engine: str, residents: Residents | None) -> EngineZygote:
    """The zygote that was started early, or a new one, which its first request starts."""
    return _Early.zygotes.pop(engine, None) or EngineZygote(engine, residents)


def stop_unused() -> None:
    """End the zygotes that were started early and that nobody has asked for, unless they are residents."""
    while _Early.zygotes:
        _, zygote = _Early.zygotes.popitem()
        zygote.close()
