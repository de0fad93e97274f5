"""A fresh Python that becomes a shared zygote.  A command may start one before it knows what it will be asked for.

This module imports next to nothing, so that a command can start the zygote before its own imports.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

from harness.workers.fork_servers.fork_server import StartedServer
from harness.workers.zygote.orders import START_SHARED, SharedOrders

LOG_BYTES = 8192


class StartedZygote:
    """The process, and what it prints while it loads."""

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
        self.server.stop()
        self._log.close()


class _Early:
    zygotes: dict[str, StartedZygote] = {}  # noqa: RUF012 - the state of this process


def start_early(engine: str) -> None:
    """Start the zygote of an engine that this process will probably need.  It must not have threads yet."""
    _Early.zygotes[engine] = zygote = StartedZygote(engine)
    zygote.server.start()


def zygote_for(engine: str) -> StartedZygote:
    """The zygote that was started early, or a new one, which its first request starts."""
    return _Early.zygotes.pop(engine, None) or StartedZygote(engine)


def stop_unused() -> None:
    """Stop the zygotes that were started early and that nobody has asked for."""
    while _Early.zygotes:
        _, zygote = _Early.zygotes.popitem()
        zygote.close()
