"""Memory of the real GPU through the CUDA driver itself.

torch cannot be asked: in a process that wears a virtual GPU, it answers for that one.
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
    """Allocations on the first GPU that the driver shows; every thread that uses it must `enter` first."""

    def __init__(self) -> None:
        self._context = _primary_context()

    def enter(self) -> None:
        """Make the GPU's primary context, the one that torch and Triton use, the calling thread's."""
        _call("cuCtxSetCurrent", self._context)

    @contextmanager
    def holding(self, content: memoryview) -> Generator[int]:
        """The address of a copy of `content`; what stands there at the end is written back into it."""
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
            _library().cuMemFree_v2(address)  # after an illegal access this fails too, which says nothing new

    def returned(self, values: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor on the CPU that has been on the GPU meanwhile."""
        there = values.clone()
        with self.holding(memoryview(cast("Any", there.numpy())).cast("B")):
            there.zero_()
        return there


@cache
def _library() -> Any:
    try:
        return ctypes.CDLL(DRIVER)
    except OSError as error:
        raise MissingPart(
            f"{DRIVER} is not there: a case on the real GPU needs a machine with NVIDIA's driver"
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
    """The CUDA driver refused: after an illegal access the whole process is lost to it."""


def _call(function: str, *arguments: Any) -> None:
    status = getattr(_library(), function)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(status, ctypes.byref(text))
        raise CudaError(f"CUDA error: {(text.value or b'unknown error').decode()} ({function}, {status})")
