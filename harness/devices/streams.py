"""Streams, events and device contexts of a GPU that is not there: one stream, on which all has already happened."""

import time
from typing import Any, Self

import torch

from harness.devices.cpu_tensors import GPU


class Stream:
    """The one stream of a pretended GPU: everything is finished before the next thing begins."""

    device = GPU
    device_index = 0
    stream_id = 0
    cuda_stream = 0
    priority = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash(Stream)

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def synchronize(self) -> None:
        """Nothing is pending."""

    def wait_event(self, event: object) -> None:
        """Nothing is pending."""

    def wait_stream(self, stream: object) -> None:
        """Nothing is pending."""

    def record_event(self, event: "EmulatedEvent | None" = None) -> "EmulatedEvent":
        """An event that has happened."""
        event = event or EmulatedEvent()
        event.record()
        return event


class ExternalStream(Stream):
    """A stream that somebody else made; still the one."""


class EmulatedEvent:
    """A CUDA event on a pretended GPU; it measures the host's time."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._recorded_s = time.perf_counter()

    def record(self, stream: object = None) -> None:  # noqa: ARG002 - there is one stream
        """Note the time."""
        self._recorded_s = time.perf_counter()

    def query(self) -> bool:
        """Whether it has happened: always."""
        return True

    def wait(self, stream: object = None) -> None:
        """It has happened."""

    def synchronize(self) -> None:
        """It has happened."""

    def elapsed_time(self, end_event: "EmulatedEvent") -> float:
        """Milliseconds from this event to that one."""
        return (end_event._recorded_s - self._recorded_s) * 1e3  # noqa: SLF001 - of the same class


class InDevice:
    """`with torch.cuda.device(0):`, which there is no other GPU to leave for."""

    def __init__(self, device: Any = None) -> None:
        check_device(device)
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return False


class InDeviceOf(InDevice):
    """`with torch.cuda.device_of(x):`."""


class DeviceGuard(InDevice):
    """What torch uses in their place within itself."""


class InStream:
    """`with torch.cuda.stream(s):`, where there is but one."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return False


def check_device(device: Any = None) -> None:
    """Accept every way to name the one GPU, and a tensor's real device.

    Raises:
        AssertionError: another GPU is meant; torch raises the same.
    """
    index = torch.device(device).index if isinstance(device, str) else getattr(device, "index", device)
    if isinstance(index, int) and index > 0:
        raise AssertionError(f"Invalid device id: {index}; the pretended machine has one GPU")
