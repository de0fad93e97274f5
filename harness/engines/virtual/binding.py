"""Binds the arguments of a launch to the kernel's parameters, as buffers, pointers with provenance, and scalars."""

import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from harness.engines.torch.torch_seam import plain_torch
from harness.engines.ttir.ir import Function, Parameter, Type
from harness.engines.ttir.reach import Slots, reach_of
from harness.engines.virtual.machine import Value
from harness.engines.virtual.memory.addresses import PoisonOf
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.pointers import Descriptor, Pointers
from harness.engines.virtual.memory.views import cell_bytes_of
from harness.engines.virtual.numbers.elements import Array, carrier, rounded
from harness.engines.virtual.numbers.exact_pairs import TORCH_TYPES, ExactPair
from harness.errors import CannotExecute

ScalarFactory = Callable[[Type, Any], Value]


_FIRST = np.zeros(1, np.int64)
_FIRST.flags.writeable = False  # all pointers to a first element share it


class Binding:
    """The arguments of one launch, bound to a kernel's parameters."""

    def __init__(
        self,
        kernel: Function,
        signature: Mapping[str, Any],
        arguments: Mapping[str, Any],
        poison_of: PoisonOf,
        make_scalar: ScalarFactory | None = None,
    ) -> None:
        """`make_scalar` makes a number in its parameter's type; `scalar` by default."""
        self.arguments: list[Argument] = []
        self.values: list[Value] = []
        self._buffers: dict[int, Buffer] = {}
        self._poison_of = poison_of
        self._make_scalar = make_scalar or scalar
        parameters = iter(kernel.parameters)
        try:
            with plain_torch():
                for name, kind in signature.items():
                    self._bind_all(name, kind, arguments.get(name), parameters)
        except StopIteration:
            raise CannotExecute(f"arguments of kinds {sorted(set(map(str, signature.values())))}") from None
        if next(parameters, None) is not None:
            raise CannotExecute(f"arguments of kinds {sorted(set(map(str, signature.values())))}")
        self._by_slot = tuple(self._pointer_parameters(kernel))
        written = reach_of(kernel).written
        self.written: list[Argument] = []
        """The arguments through which the kernel may store."""
        for buffer in self.buffers:
            buffer.cell_bytes = cell_bytes_of(buffer, self.arguments)
        for argument, parameter in self._by_slot:
            if argument.buffer is not None and (written is None or parameter in written):
                argument.buffer.track_readers = True
                self.written.append(argument)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The storages of the arguments, each once."""
        return tuple(self._buffers.values())

    def buffers_of(self, slots: Slots | None) -> frozenset[Buffer]:
        """Return the storages of these parameters' arguments; None means all parameters."""
        return frozenset(
            argument.buffer
            for argument, slot in self._by_slot
            if argument.buffer is not None and (slots is None or slot in slots)
        )

    def slots_of(self, names: Collection[str]) -> Slots:
        """Return the pointer parameters of the arguments with these names."""
        return frozenset(slot for argument, slot in self._by_slot if argument.name in names)

    def _pointer_parameters(self, kernel: Function) -> Iterator[tuple[Argument, int]]:
        for value, parameter in zip(self.values, kernel.parameters, strict=True):
            base = value.base if isinstance(value, Descriptor) else value
            if isinstance(base, Pointers):
                yield self.arguments[base.argument], parameter.slot

    def _bind_all(self, name: str, kind: Any, argument: Any, parameters: Iterator[Parameter]) -> None:
        """Bind one argument of the launcher, which is none, one or several parameters of the kernel."""
        if kind == "constexpr":
            return
        if isinstance(kind, tuple | list):
            for number, (part, value) in enumerate(zip(kind, argument, strict=True)):
                self._bind_all(f"{name}.{number}", part, value, parameters)
            return
        parameter = next(parameters)
        if str(kind).startswith("tensordesc"):
            self._bind_descriptor(name, parameter, argument, parameters)
        else:
            self.values.append(self._bind(name, parameter.type, argument))

    def _bind_descriptor(
        self, name: str, parameter: Parameter, descriptor: Any, parameters: Iterator[Parameter]
    ) -> None:
        """Bind a descriptor made by host code, and the extents and strides that follow it.

        Below compute capability 9.0 Triton passes the parts of a descriptor instead: pointer, extents, strides, flags.

        Raises:
            StopIteration: the kernel has too few parameters.
        """
        rounds = bool(getattr(descriptor, "round_f32_to_tf32", False))
        pads = getattr(descriptor, "padding", "zero") == "nan"
        base = self._pointer(name, descriptor.base.element_size(), descriptor.base)
        flags: list[bool] = []
        if parameter.type.is_pointer:
            self.values.append(base)
            # Older releases of Triton have no flag for rounding.
            flags = [pads, rounds] if hasattr(descriptor, "round_f32_to_tf32") else [pads]
        else:
            numbers = [
                tuple(np.array([int(part)]) for part in parts) for parts in (descriptor.shape, descriptor.strides)
            ]
            self.values.append(Descriptor(base, numbers[0], numbers[1], np.array([pads]), np.array([rounds])))
        parts = [*descriptor.shape, *descriptor.strides]
        if parameter.type.is_pointer:
            parts = [*parts, *flags, *parts]
        self.values += [self._bind(name, next(parameters).type, part) for part in parts]

    def _bind(self, name: str, kind: Type, argument: Any) -> Value:
        if not kind.is_pointer:
            return self._make_scalar(kind, argument)
        assert kind.pointee is not None
        return self._pointer(name, kind.pointee.bytes, argument)

    def _pointer(self, name: str, element_bytes: int, pointer: Any) -> Pointers:
        first = 0
        if (
            not isinstance(pointer, torch.Tensor)
            and not hasattr(pointer, "base")
            and hasattr(pointer, "untyped_storage")
        ):
            argument, first = self._argument_like_a_tensor(name, pointer)
        else:
            argument = self._argument(name, element_bytes, pointer)
        self.arguments.append(argument)
        begin = _FIRST if not first else np.full(1, first, np.int64)
        return Pointers(len(self.arguments) - 1, element_bytes, (begin,))

    def _argument_like_a_tensor(self, name: str, pointer: Any) -> tuple[Argument, int]:
        """Return the view that a library's own class of tensors describes, and the element at which its pointer begins.

        Triton accepts any object with `data_ptr`.  A stride may be negative, as torch's never are: the view is then the
        whole storage, and the pointer begins inside.
        """
        storage = pointer.untyped_storage()
        size, first_byte = pointer.element_size(), pointer.data_ptr() - storage.data_ptr()
        shape, strides = tuple(pointer.shape), tuple(pointer.stride())
        if any(stride < 0 for stride in strides):
            whole = Argument(name, self._buffer_of(storage), 0, size, (storage.nbytes() // size,), (1,))
            return whole, first_byte // size
        return Argument(name, self._buffer_of(storage), first_byte, size, shape, strides), 0

    def _buffer_of(self, storage: torch.UntypedStorage) -> Buffer | None:
        if not storage.nbytes():
            return None
        address = storage.data_ptr()
        if address not in self._buffers:
            self._buffers[address] = Buffer(address, storage.nbytes(), self._poison_of(address))
        return self._buffers[address]

    def _argument(self, name: str, element_bytes: int, pointer: Any) -> Argument:
        tensor = getattr(pointer, "base", pointer) if not isinstance(pointer, torch.Tensor) else pointer
        if pointer is None or (isinstance(tensor, torch.Tensor) and not tensor.untyped_storage().nbytes()):
            return Argument(name, None, 0, element_bytes, (), ())
        if not isinstance(tensor, torch.Tensor):
            raise CannotExecute(f"argument {name} is a pointer given as {type(pointer).__name__}")
        return Argument(
            name,
            self._buffer_of(tensor.untyped_storage()),
            int(tensor.storage_offset()) * tensor.element_size(),  # not data_ptr(), which is 0 for an empty tensor
            tensor.element_size(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
        )


def scalar(kind: Type, number: Any) -> Array:
    """Return a number in its parameter's type, as the kernel sees it."""
    # Zeros of both signs are equal, so floats are no keys.
    return _integer(kind, number) if type(number) is int else _scalar(kind, number)


@lru_cache(4096)
def _integer(kind: Type, number: int) -> Array:
    value = _scalar(kind, number)
    value.flags.writeable = False  # launches share it
    return value


def _scalar(kind: Type, number: Any) -> Array:
    if kind.element.startswith(("f", "bf")):
        with np.errstate(over="ignore"):  # a number beyond the type's range is infinite, as in Triton's launcher
            return rounded(np.array([number], carrier(kind.element)), kind.element)
    if kind.element == "i1":
        return np.array([bool(number)])
    if not kind.element.startswith("i"):
        raise CannotExecute(f"an argument of type {kind}")
    bits = kind.bits
    # Wrap around to the type's width, as the launcher's C conversion does.
    (value,) = struct.unpack("<q", struct.pack("<Q", int(number) % (1 << 64)))
    return np.array([(value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)], carrier(kind.element))


def exact_scalar(kind: Type, number: Any) -> Value:
    """Return a number as `scalar` does; a floating-point one with its value before it was rounded to its type."""
    real = scalar(kind, number)
    return ExactPair(real, np.array([float(number)])) if kind.element in TORCH_TYPES else real
