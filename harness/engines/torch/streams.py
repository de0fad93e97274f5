"""Streams, events and device contexts of the emulated GPU: one stream, on which all work is already done."""

import time
from typing import Any, Self

import torch

from harness.engines.torch.cpu_tensors import GPU


class Stream:
    """The only stream of the emulated GPU.  Each operation is finished before the next one begins."""

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
        return True

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        pass

    def record_event(self, event: "EmulatedEvent | None" = None) -> "EmulatedEvent":
        event = event or EmulatedEvent()
        event.record()
        return event


class ExternalStream(Stream):
    """A stream that another library made; here it is the same stream."""


class EmulatedEvent:
    """A CUDA event of the emulated GPU; it measures the host's time."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._recorded_s = time.perf_counter()

    def record(self, stream: object = None) -> None:  # noqa: ARG002 - there is one stream
        self._recorded_s = time.perf_counter()

    def query(self) -> bool:
        return True

    def wait(self, stream: object = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end_event: "EmulatedEvent") -> float:
        """Return the milliseconds from this event to the other one."""
        return (end_event._recorded_s - self._recorded_s) * 1e3  # noqa: SLF001 - of the same class


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
    """`with torch.cuda.stream(s):`; there is one stream, so nothing changes."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return False


def check_device(device: Any = None) -> None:
    """Accept every name of the one GPU, and a CPU tensor's own device.

    Raises:
        AssertionError: the name is that of another GPU; torch raises the same class.
    """
    index = torch.device(device).index if isinstance(device, str) else getattr(device, "index", device)
    if isinstance(index, int) and index > 0:
        raise AssertionError(f"Invalid device id: {index}; the emulated machine has one GPU")
