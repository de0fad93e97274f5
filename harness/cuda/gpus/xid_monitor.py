"""Looks out for Xid events of the GPUs in use, and has the canary asked where one speaks against the card.

Most events tell of a kernel that did what it may not; its process is lost, and the next one begins with a look of its
own (`harness.cuda.engine`).  Where nvidia-ml-py or its events are not there, nothing is seen.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Protocol

from harness.cuda.gpus.canary import Healthy, Sick, sing
from harness.cuda.gpus.health import LOST, GpuHealthMonitor
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.gpus.xid import Xid, XidFault
from harness.errors import MissingPart

LOOK_EVERY_S = 1.0


class XidSource(Protocol):
    """Who tells of Xid events."""

    def observe(self, uuid: str) -> bool:
        """Tell of this GPU from now on; False where it has nothing to tell."""
        ...

    def xids(self) -> tuple[Xid, ...]:
        """What happened since the last call; returns at once."""
        ...


class XidMonitor:
    """For GPUs in use.  Thread-safe; whoever finds it busy goes on."""

    def __init__(
        self,
        gpus: Sequence[RealGpu],
        watch: Callable[[], XidSource] = GpuHealthMonitor,
        ask: Callable[[RealGpu], Healthy | Sick] = sing,
    ) -> None:
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._ask = ask
        self._lock = Lock()
        self._next_s = 0.0
        self._events: XidSource | None = None
        with suppress(MissingPart):
            events = watch()
            observed = [uuid for uuid in self._gpus if events.observe(uuid)]
            self._events = events if observed else None

    def sick(self) -> tuple[tuple[RealGpu, str], ...]:
        """The GPUs that failed the canary after an event, each with the reason; asked for once a second at most."""
        if self._events is None or monotonic() < self._next_s or not self._lock.acquire(blocking=False):
            return ()
        try:
            self._next_s = monotonic() + LOOK_EVERY_S
            return tuple(self._failing(self._events.xids()))
        finally:
            self._lock.release()

    def _failing(self, xids: Sequence[Xid]) -> list[tuple[RealGpu, str]]:
        doubted = {uuid: xid for xid in xids if xid.fault is not XidFault.KERNEL for uuid in self._meant(xid)}
        failing: list[tuple[RealGpu, str]] = []
        for uuid, xid in doubted.items():
            with suppress(MissingPart):  # nobody can ask
                if isinstance(answer := self._ask(self._gpus[uuid]), Sick):
                    failing.append((self._gpus[uuid], f"{xid}, and {answer.reason}"))
        return failing

    def _meant(self, xid: Xid) -> Collection[str]:
        """The UUIDs of the GPUs in use that an event may be of: one that is lost does not tell which it is."""
        return self._gpus if xid.uuid == LOST else self._gpus.keys() & {xid.uuid}
