"""Runs every launch in native code and then in the machine, and measures how far the two differ.

`Comparison` takes the place of `NativeCode`.  The launch's results and events are the machine's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.engines.ttir.block_lines import BlockLines
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.native.native_code import NativeCode
from harness.engines.virtual.numbers.elements import Array, decode, is_float, storage
from harness.engines.virtual.prepared_launch import PreparedLaunch


@dataclass(slots=True)
class ExecutorAgreement:
    """Statistics of one kernel's launches."""

    launches: int = 0
    native: int = 0
    """Launches that both executed."""
    bailouts: int = 0
    """Launches that native code left to the machine."""
    declined: str = ""
    """The reason if there was no native code."""
    elements: int = 0
    """Compared elements, of memory that the kernel may store to."""
    differing_elements: int = 0
    """Elements whose bits differ, unless both are NaN."""
    largest_difference: float = 0.0
    """The largest difference of two elements, relative to the largest element of their tensor."""
    launches_with_other_events: int = 0
    """Launches for which the two reported different events."""
    launches_with_other_lines: int = 0
    """Launches of which the two executed different lines."""


@dataclass(slots=True)
class _NativeResult:
    after: Mapping[int, Array]
    """Bytes of each storage after the native launch, by address."""
    entered: bytes
    """The flags of the blocks that native code entered."""
    native_events: EventCollector
    machine_events: EventCollector
    """Filled while the machine runs."""


@dataclass(slots=True)
class Comparison:
    """A native backend that runs both executors, one after the other."""

    native: NativeCode
    kernels: dict[str, ExecutorAgreement] = field(default_factory=dict[str, ExecutorAgreement])
    _native_result: _NativeResult | None = None

    def execute(self, launch: PreparedLaunch, events: EventCollector) -> bool:
        """Execute natively, keep the result, and restore memory for the machine; always returns False."""
        agreement = self.kernels.setdefault(launch.module.kernel.name, ExecutorAgreement())
        agreement.launches += 1
        buffers = {argument.buffer.address: argument.buffer for argument in launch.binding.arguments if argument.buffer}
        before = {address: buffer.bytes.copy() for address, buffer in buffers.items()}
        native_events = EventCollector()
        self._native_result = None
        if self.native.execute(launch, native_events):
            agreement.native += 1
            after = {address: buffer.bytes.copy() for address, buffer in buffers.items()}
            for address, buffer in buffers.items():
                buffer.bytes[...] = before[address]
            entered = launch.context.entered
            self._native_result = _NativeResult(after, bytes(entered), native_events, events)
            entered[:] = bytes(len(entered))
        elif declined := self.native.declined(launch):
            agreement.declined = declined
        else:
            agreement.bailouts += 1
            assert all((buffer.bytes == before[address]).all() for address, buffer in buffers.items())
        return False

    def record_machine_time(self, launch: PreparedLaunch, seconds: float) -> None:
        """Compare the results; called after the machine has executed the launch."""
        del seconds
        pending, self._native_result = self._native_result, None
        if pending is None:
            return
        agreement = self.kernels[launch.module.kernel.name]
        reported = [_reported_events(events, launch) for events in (pending.native_events, pending.machine_events)]
        agreement.launches_with_other_events += reported[0] != reported[1]
        lines = BlockLines(launch.module)
        agreement.launches_with_other_lines += lines.executed(pending.entered) != lines.executed(launch.context.entered)
        kinds = [parameter.type.pointee for parameter in launch.module.kernel.parameters if parameter.type.is_pointer]
        for argument, kind in zip(launch.binding.arguments, kinds, strict=True):
            if argument.buffer is not None and argument.buffer.track_readers and kind is not None:
                _compare(agreement, argument, pending.after[argument.buffer.address], kind.element)


def _reported_events(events: EventCollector, launch: PreparedLaunch) -> list[Any]:
    return list(events.finish("", 0, launch.binding.arguments, launch.module.source))


def _compare(agreement: ExecutorAgreement, argument: Argument, after: Array, element: str) -> None:
    assert argument.buffer is not None
    dtype = np.dtype(storage(element))
    used_bytes = len(after) // dtype.itemsize * dtype.itemsize
    raw = [np.frombuffer(content[:used_bytes].tobytes(), dtype) for content in (after, argument.buffer.bytes)]
    agreement.elements += len(raw[0])
    differing = np.flatnonzero(raw[0] != raw[1]) if raw[0].dtype.kind != "f" else _differing_bits(*raw)
    if not len(differing):
        return
    with np.errstate(all="ignore"):  # infinities, signalling NaNs
        native, machine = (decode(part[differing], element).astype(np.float64) for part in raw)
        is_comparable = ~(np.isnan(native) & np.isnan(machine))
        differences: Array = np.nan_to_num(np.abs(native - machine)[is_comparable], nan=np.inf)
        values = np.abs(decode(raw[1], element).astype(np.float64))
    if len(differences):
        largest = float(np.max(values, where=np.isfinite(values), initial=0.0)) if is_float(element) else 1.0
        agreement.differing_elements += len(differences)
        agreement.largest_difference = max(
            agreement.largest_difference, float(differences.max()) / max(largest, float(np.finfo(np.float32).tiny))
        )


def _differing_bits(left: Array, right: Array) -> Array:
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[left.dtype.itemsize]
    return np.flatnonzero(left.view(bits) != right.view(bits))
