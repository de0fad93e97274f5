"""Streams, events and device contexts of the emulated GPU, where each operation is done before the next one begins.

So the order of streams shows only in the capture of a CUDA graph, of which `capture_order` keeps account.
"""

import itertools
import threading
import time
from typing import Any, Self

import torch

from harness.engines.torch.capture_order import (
    CAPTURED_EVENT,
    DEFAULT_STREAM,
    ISOLATION,
    UNSUPPORTED,
    CaptureOrder,
    CapturePoint,
)
from harness.engines.torch.cpu_tensors import EmulatedGpu

_NUMBERS = itertools.count(1)


class Stream:
    """A stream of the emulated GPU."""

    device_index = 0
    priority = 0

    def __init__(self, *_: Any, stream_ptr: int | None = None, stream_id: int | None = None, **__: Any) -> None:
        named = stream_id if stream_ptr is None else stream_ptr
        self.cuda_stream = self.stream_id = next(_NUMBERS) if named is None else named
        self._outer: list[Stream] = []
        """The streams that were current before each `with` of this one."""

    @property
    def device(self) -> torch.device:
        return EmulatedGpu.device

    @property
    def sycl_queue(self) -> int:
        """The number of the stream, as `torch.xpu.Stream` names it."""
        return self.cuda_stream

    def __enter__(self) -> Self:
        self._outer.append(current_stream())
        set_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        set_stream(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((Stream, self.cuda_stream))

    def query(self) -> bool:
        self._refuse_in_capture()
        return True

    def synchronize(self) -> None:
        self._refuse_in_capture()

    def wait_event(self, event: "EmulatedEvent") -> None:
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: "EmulatedEvent | None" = None) -> "EmulatedEvent":
        event = event or EmulatedEvent()
        event.record(self)
        return event

    def _refuse_in_capture(self) -> None:
        if (order := CaptureOrder.active) is not None and order.has(self.cuda_stream):
            raise order.failure(UNSUPPORTED)


class ExternalStream(Stream):
    """A stream that another library made."""

    def __init__(self, stream_ptr: int, *_: Any, **__: Any) -> None:
        super().__init__(stream_ptr=stream_ptr)


class _CurrentStream(threading.local):
    def __init__(self) -> None:
        self.stream = _DEFAULT


_DEFAULT = Stream(stream_ptr=DEFAULT_STREAM)
_current = _CurrentStream()


def default_stream(device: Any = None) -> Stream:
    check_device(device)
    return _DEFAULT


def current_stream(device: Any = None) -> Stream:
    """Return the stream of this thread."""
    check_device(device)
    return _current.stream


def set_stream(stream: Stream | None) -> None:
    if stream is not None:
        _current.stream = stream


def external_stream(data_ptr: int, device: Any = None) -> ExternalStream:
    check_device(device)
    return ExternalStream(data_ptr)


def raw_stream(device: Any = None) -> int:
    """Return the number of this thread's stream, for Triton."""
    return current_stream(device).cuda_stream


def synchronize(device: Any = None) -> None:
    """Wait for the emulated GPU, which has nothing left to do.

    Raises:
        torch.AcceleratorError: a CUDA graph is captured.
    """
    check_device(device)
    if (order := CaptureOrder.active) is not None:
        raise order.failure(UNSUPPORTED)


class EmulatedEvent:
    """A CUDA event of the emulated GPU; it measures the host's time."""

    def __init__(self, *_: Any, external: bool = False, **__: Any) -> None:
        self._is_external = external
        self._is_recorded = False
        self._recorded_s = time.perf_counter()
        self._point: CapturePoint | None = None
        """What it stands for if it was recorded in a capture."""

    def record(self, stream: Stream | None = None) -> None:
        number = (stream or current_stream()).cuda_stream
        order = CaptureOrder.active
        self._is_recorded, self._recorded_s = True, time.perf_counter()
        self._point = None if order is None or self._is_external else order.point(number)

    def query(self) -> bool:
        self._refuse_if_captured()
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for the event.

        Raises:
            torch.AcceleratorError: a capture forbids it.
        """
        number, order, point = (stream or current_stream()).cuda_stream, CaptureOrder.active, self._point
        if order is None or self._is_external or not self._is_recorded:
            return
        if point is not None and point.order is order:
            order.wait(number, point.steps)
        elif order.has(number):
            raise order.failure(ISOLATION)

    def synchronize(self) -> None:
        self._refuse_if_captured()

    def elapsed_time(self, end_event: "EmulatedEvent") -> float:
        """Return the milliseconds from this event to the other one."""
        for event in (self, end_event):
            event._refuse_if_captured()  # noqa: SLF001 - of the same class
        return (end_event._recorded_s - self._recorded_s) * 1e3  # noqa: SLF001 - as above

    def _refuse_if_captured(self) -> None:
        if self._point is not None:
            raise self._point.order.failure(CAPTURED_EVENT)


class DeviceContext:
    """`with torch.cuda.device(0):`; there is one GPU, so nothing changes."""

    def __init__(self, device: Any = None) -> None:
        check_device(device)
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return False


class DeviceOfContext(DeviceContext):
    """`with torch.cuda.device_of(x):`."""


class DeviceIndexContext(DeviceContext):
    """`with torch.accelerator.device_index(0):`; TorchDynamo tells it from the others by its class."""


class DeviceGuard(DeviceContext):
    """The context that torch itself uses in their place."""


class InStream:
    """`with torch.cuda.stream(s):`."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream
        self._outer: list[Stream] = []

    def __enter__(self) -> None:
        self._outer.append(current_stream())
        set_stream(self.stream)

    def __exit__(self, *_: object) -> bool:
        set_stream(self._outer.pop())
        return False


def check_device(device: Any = None) -> None:
    """Accept every name of the one GPU, and a CPU tensor's own device.

    Raises:
        AssertionError: the name is that of another GPU; torch raises the same class.
    """
    index = torch.device(device).index if isinstance(device, str) else getattr(device, "index", device)
    if isinstance(index, int) and index > 0:
        raise AssertionError(f"Invalid device id: {index}; the emulated machine has one GPU")
