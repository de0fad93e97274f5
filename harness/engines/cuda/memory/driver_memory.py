"""Allocations on the hardware GPU, made by the CUDA driver itself.

torch cannot make them: in a process that emulates a virtual GPU, torch allocates for that one.
"""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import torch

from harness.errors import MissingPart

DRIVER = "libcuda.so.1"


class DeviceMemory:
    """Allocates on the first visible GPU.  Every thread that uses it must `enter` first."""

    def __init__(self) -> None:
        self._context = _primary_context()

    def enter(self) -> None:
        """Make the GPU's primary context current in this thread; torch and Triton use the same context."""
        _call("cuCtxSetCurrent", self._context)

    @contextmanager
    def holding(self, content: memoryview) -> Generator[int]:
        """Copy `content` to the GPU and yield the address; copy the bytes back at the end."""
        address = ctypes.c_uint64()
        size = ctypes.c_size_t(max(1, content.nbytes))
        _call("cuMemAlloc_v2", ctypes.byref(address), size)
        try:
            host = (ctypes.c_char * content.nbytes).from_buffer(content) if content.nbytes else None
            if host is not None:
                _call("cuMemcpyHtoD_v2", address, host, size)
            yield address.value
            _call("cuCtxSynchronize")
            if host is not None:
                _call("cuMemcpyDtoH_v2", host, address, size)
        finally:
            _library().cuMemFree_v2(address)  # its status is ignored: it fails after an illegal access too

    def round_trip(self, values: torch.Tensor) -> torch.Tensor:
        """Return a copy of a CPU tensor that was written to the GPU and read back."""
        copied = values.clone()
        with self.holding(memoryview(cast("Any", copied.numpy())).cast("B")):
            copied.zero_()  # the bytes that are read back must come from the GPU
        return copied


@cache
def _library() -> Any:
    try:
        return ctypes.CDLL(DRIVER)
    except OSError as error:
        raise MissingPart(
            f"{DRIVER} is not there: a case on a hardware GPU needs a machine with NVIDIA's driver"
        ) from error


@cache
def _primary_context() -> ctypes.c_void_p:
    _call("cuInit", 0)
    device = ctypes.c_int()
    _call("cuDeviceGet", ctypes.byref(device), 0)
    context = ctypes.c_void_p()
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


class CudaError(RuntimeError):
    """A call of the CUDA driver failed.  After an illegal access every later call in the process fails."""


def _call(function: str, *arguments: Any) -> None:
    status = getattr(_library(), function)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(status, ctypes.byref(text))
        raise CudaError(f"CUDA error: {(text.value or b'unknown error').decode()} ({function}, {status})")
