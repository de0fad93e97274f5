"""Lists what native code leaves to the machine: for each reason the launches, and their share of the executors' time.

`Fallbacks` takes the place of `NativeCode`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.native.native_code import NativeCode
from harness.engines.virtual.prepared_launch import PreparedLaunch

NATIVE = ""
"""The reason of launches that native code executed."""
BAILED_OUT = "a check that native code leaves to the machine"


@dataclass(slots=True)
class Fallback:
    """The launches that are left to the machine for one reason."""

    reason: str
    """What native code does not support, such as an operation."""
    launches: int = 0
    seconds: float = 0.0
    """In the machine; the time of native code where the reason is `NATIVE`."""
    kernels: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Fallbacks:
    """A native backend that keeps the reason and the time of each launch."""

    native: NativeCode
    _by_reason: dict[str, Fallback] = field(default_factory=dict[str, Fallback])

    def execute(self, launch: PreparedLaunch, events: EventCollector) -> bool:
        self.native.code_for(launch)  # compiling is no part of a launch
        began = time.perf_counter()
        is_native = self.native.execute(launch, events)
        if is_native:
            self._add(launch, NATIVE, time.perf_counter() - began)
        return is_native

    def record_machine_time(self, launch: PreparedLaunch, seconds: float) -> None:
        self._add(launch, self.native.declined(launch) or BAILED_OUT, seconds)
        self.native.record_machine_time(launch, seconds)

    def table(self) -> Sequence[tuple[Fallback, float]]:
        """Return all reasons with their share of the time of all launches, the largest first."""
        total = sum(each.seconds for each in self._by_reason.values())
        rows = [(each, each.seconds / total) for each in self._by_reason.values()]
        return sorted(rows, key=lambda row: -row[1])

    def _add(self, launch: PreparedLaunch, reason: str, seconds: float) -> None:
        fallback = self._by_reason.setdefault(reason, Fallback(reason))
        fallback.launches += 1
        fallback.seconds += seconds
        fallback.kernels.add(launch.kernel)
