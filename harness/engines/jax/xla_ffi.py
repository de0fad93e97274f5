"""XLA's FFI without a compiler: a handler in Python, and the structures through which XLA calls it.

The layouts are those of version 0.3 of XLA's C API (`xla/ffi/api/c_api.h`), which jaxlib ships as a header.  XLA checks
the version that the handler reports.
"""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

API_VERSION = (0, 3)
_METADATA_EXTENSION = 1
_EXECUTE = 3

DTYPES: Mapping[int, torch.dtype] = MappingProxyType(
    {
        1: torch.bool,
        2: torch.int8,
        3: torch.int16,
        4: torch.int32,
        5: torch.int64,
        6: torch.uint8,
        7: torch.uint16,
        8: torch.uint32,
        9: torch.uint64,
        10: torch.float16,
        11: torch.float32,
        12: torch.float64,
        16: torch.bfloat16,
        19: torch.float8_e5m2,
        20: torch.float8_e4m3fn,
    }
)
"""The element types of XLA's buffers by their codes."""

_POINTER = ctypes.c_void_p
_HEAD: list[tuple[str, Any]] = [("struct_size", ctypes.c_size_t), ("extension", _POINTER)]


class _Values(ctypes.Structure):
    """Arguments or results."""

    _fields_ = (*_HEAD, ("size", ctypes.c_int64), ("types", _POINTER), ("items", ctypes.POINTER(_POINTER)))


class _Attributes(ctypes.Structure):
    _fields_ = (
        *_HEAD,
        ("size", ctypes.c_int64),
        ("types", _POINTER),
        ("names", _POINTER),
        ("items", ctypes.POINTER(_POINTER)),
    )


class _CallFrame(ctypes.Structure):
    _fields_ = (
        *_HEAD,
        ("api", _POINTER),
        ("context", _POINTER),
        ("stage", ctypes.c_int),
        ("arguments", _Values),
        ("results", _Values),
        ("attributes", _Attributes),
    )


class _Buffer(ctypes.Structure):
    _fields_ = (
        *_HEAD,
        ("dtype", ctypes.c_int),
        ("data", _POINTER),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


class _Scalar(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_uint64)))


class _ApiVersion(ctypes.Structure):
    _fields_ = (*_HEAD, ("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("version", _ApiVersion), ("traits", ctypes.c_uint32))


class _MetadataExtension(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", _POINTER),
        ("metadata", ctypes.POINTER(_Metadata)),
    )


HANDLER_TYPE = ctypes.CFUNCTYPE(_POINTER, ctypes.POINTER(_CallFrame))


@dataclass(frozen=True, slots=True)
class XlaBuffer:
    """Memory of XLA: one argument or result of a call."""

    address: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def tensor(self, owner: object = None) -> torch.Tensor:
        """Return a tensor on this memory, whose storage is the buffer; it keeps `owner` alive.

        The caller keeps torch's modes away.
        """
        count = 1
        for extent in self.shape:
            count *= extent
        if not count:
            return torch.empty(self.shape, dtype=self.dtype)
        memory: Any = (ctypes.c_uint8 * (count * self.dtype.itemsize)).from_address(self.address)
        memory.owner = owner
        return torch.frombuffer(memory, dtype=self.dtype).reshape(self.shape)


Execute = Callable[[int, list[XlaBuffer], list[XlaBuffer]], None]
"""Executes a call: its number, its arguments and its results.  It must not raise."""


def handler(execute: Execute) -> Any:
    """Return a C function for `jax.ffi.pycapsule`.  Keep it alive as long as XLA may call it."""

    def handle(frame_pointer: Any) -> None:
        frame = frame_pointer.contents
        if frame.extension:
            extension = ctypes.cast(frame.extension, ctypes.POINTER(_MetadataExtension)).contents
            if extension.type == _METADATA_EXTENSION:
                metadata = extension.metadata.contents
                metadata.version.major, metadata.version.minor = API_VERSION
                metadata.traits = 0
                return
        if frame.stage == _EXECUTE:
            number = ctypes.cast(frame.attributes.items[0], ctypes.POINTER(_Scalar)).contents.value[0]
            execute(int(number), _buffers(frame.arguments), _buffers(frame.results))

    return HANDLER_TYPE(handle)


def _buffers(values: Any) -> list[XlaBuffer]:
    buffers = (ctypes.cast(values.items[index], ctypes.POINTER(_Buffer)).contents for index in range(values.size))
    return [XlaBuffer(buffer.data or 0, DTYPES[buffer.dtype], tuple(buffer.dims[: buffer.rank])) for buffer in buffers]
