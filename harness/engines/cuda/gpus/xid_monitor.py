"""Monitors the Xid events of the GPUs in use, and runs the canary on a GPU whose card may have failed.

Most events report a faulty kernel.  Its process is lost, and the next worker checks the GPU when it starts
(`harness.engines.cuda.engine`).  Without nvidia-ml-py or its events, nothing is monitored.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Protocol

from harness.engines.cuda.gpus.canary import Healthy, Sick, run_canary
from harness.engines.cuda.gpus.health import LOST, GpuHealthMonitor
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.gpus.symptoms import Xid, XidFault
from harness.errors import MissingPart

CHECK_EVERY_S = 1.0


class XidSource(Protocol):
    """A source of Xid events."""

    def observe(self, uuid: str) -> bool:
        """Report this GPU's events from now on; return False if it has none."""
        ...

    def xids(self) -> tuple[Xid, ...]:
        """Return the events since the last call, without waiting."""
        ...


class XidMonitor:
    """Checks GPUs in use.  Thread-safe: a thread that finds it busy skips the check."""

    def __init__(
        self,
        gpus: Sequence[RealGpu],
        open_source: Callable[[], XidSource] = GpuHealthMonitor,
        canary: Callable[[RealGpu], Healthy | Sick] = run_canary,
    ) -> None:
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._canary = canary
        self._lock = Lock()
        self._next_s = 0.0
        self._source: XidSource | None = None
        with suppress(MissingPart):
            source = open_source()
            observed = [uuid for uuid in self._gpus if source.observe(uuid)]
            self._source = source if observed else None

    def sick(self) -> tuple[tuple[RealGpu, str], ...]:
        """Return the GPUs that failed the canary after an event, with reasons; checks once a second at most."""
        if self._source is None or monotonic() < self._next_s or not self._lock.acquire(blocking=False):
            return ()
        try:
            self._next_s = monotonic() + CHECK_EVERY_S
            return tuple(self._run_canaries(self._source.xids()))
        finally:
            self._lock.release()

    def _run_canaries(self, xids: Sequence[Xid]) -> list[tuple[RealGpu, str]]:
        suspects = {uuid: xid for xid in xids if xid.fault is not XidFault.KERNEL for uuid in self._affected(xid)}
        sick: list[tuple[RealGpu, str]] = []
        for uuid, xid in suspects.items():
            with suppress(MissingPart):  # no torch for the canary
                if isinstance(answer := self._canary(self._gpus[uuid]), Sick):
                    sick.append((self._gpus[uuid], f"{xid}, and {answer.reason}"))
        return sick

    def _affected(self, xid: Xid) -> Collection[str]:
        """Return the UUIDs of the GPUs in use that an event may concern: all, if a lost GPU reports no UUID."""
        return self._gpus if xid.uuid == LOST else self._gpus.keys() & {xid.uuid}
