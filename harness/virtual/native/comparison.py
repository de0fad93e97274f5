"""Runs every launch in native code and then in the machine, and tells where the two part.

Stands where `NativeCode` stands.  What a launch leaves behind is the machine's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.virtual.memory.arguments import Argument
from harness.virtual.memory.events import EventCollector
from harness.virtual.native.policy import NativeCode, Work
from harness.virtual.numbers.elements import Array, decode, is_float, storage


@dataclass(slots=True)
class ExecutorAgreement:
    """What the launches of one kernel showed."""

    launches: int = 0
    native: int = 0
    """Executed by both."""
    doubts: int = 0
    """Left to the machine by code that was there."""
    declined: str = ""
    """Why there was no code."""
    elements: int = 0
    """Elements of memory that the kernel may store to, compared."""
    unlike: int = 0
    """Elements whose bits differ, where not both are NaN."""
    furthest: float = 0.0
    """The largest difference, in units of the largest element of its memory."""
    events_unlike: int = 0
    """Launches of which the two told different events."""


@dataclass(slots=True)
class _Pending:
    after: Mapping[int, Array]
    """By address of a storage, its bytes after the native launch."""
    events: EventCollector
    expected: EventCollector
    """The machine's, filled while that runs."""


@dataclass(slots=True)
class Comparison:
    """Both executors, one after the other."""

    native: NativeCode
    kernels: dict[str, ExecutorAgreement] = field(default_factory=dict[str, ExecutorAgreement])
    _pending: _Pending | None = None

    def execute(self, work: Work, events: EventCollector) -> bool:
        """Execute natively, keep what came of it, and put memory back for the machine."""
        agreement = self.kernels.setdefault(work.module.kernel.name, ExecutorAgreement())
        agreement.launches += 1
        buffers = {argument.buffer.address: argument.buffer for argument in work.binding.arguments if argument.buffer}
        before = {address: buffer.bytes.copy() for address, buffer in buffers.items()}
        own = EventCollector()
        self._pending = None
        if self.native.execute(work, own):
            agreement.native += 1
            after = {address: buffer.bytes.copy() for address, buffer in buffers.items()}
            for address, buffer in buffers.items():
                buffer.bytes[...] = before[address]
            self._pending = _Pending(after, own, events)
        elif declined := self.native.declined(work):
            agreement.declined = declined
        else:
            agreement.doubts += 1
            assert all((buffer.bytes == before[address]).all() for address, buffer in buffers.items())
        return False

    def took(self, work: Work, seconds: float) -> None:
        """The machine is through: compare."""
        del seconds
        pending, self._pending = self._pending, None
        if pending is None:
            return
        agreement = self.kernels[work.module.kernel.name]
        agreement.events_unlike += _told(pending.events, work) != _told(pending.expected, work)
        kinds = [parameter.type.pointee for parameter in work.module.kernel.parameters if parameter.type.is_pointer]
        for argument, kind in zip(work.binding.arguments, kinds, strict=True):
            if argument.buffer is not None and argument.buffer.track_readers and kind is not None:
                _compare(agreement, argument, pending.after[argument.buffer.address], kind.element)


def _told(events: EventCollector, work: Work) -> list[Any]:
    return list(events.finish("", 0, work.binding.arguments, work.module.source))


def _compare(agreement: ExecutorAgreement, argument: Argument, after: Array, element: str) -> None:
    assert argument.buffer is not None
    dtype = np.dtype(storage(element))
    whole = len(after) // dtype.itemsize * dtype.itemsize
    raw = [np.frombuffer(content[:whole].tobytes(), dtype) for content in (after, argument.buffer.bytes)]
    agreement.elements += len(raw[0])
    differing = np.flatnonzero(raw[0] != raw[1]) if raw[0].dtype.kind != "f" else _unlike_bits(*raw)
    if not len(differing):
        return
    with np.errstate(all="ignore"):  # infinities may differ, and NaNs may be of the kind that signals
        ours, theirs = (decode(part[differing], element).astype(np.float64) for part in raw)
        real = ~(np.isnan(ours) & np.isnan(theirs))
        apart: Array = np.nan_to_num(np.abs(ours - theirs)[real], nan=np.inf)
        values = np.abs(decode(raw[1], element).astype(np.float64))
    if len(apart):
        largest = float(np.max(values, where=np.isfinite(values), initial=0.0)) if is_float(element) else 1.0
        agreement.unlike += len(apart)
        agreement.furthest = max(
            agreement.furthest, float(apart.max()) / max(largest, float(np.finfo(np.float32).tiny))
        )


def _unlike_bits(left: Array, right: Array) -> Array:
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[left.dtype.itemsize]
    return np.flatnonzero(left.view(bits) != right.view(bits))
