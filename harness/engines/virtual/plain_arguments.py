"""Arguments that are tensors and numbers alone, read without the objects that bind them to a kernel's parameters.

Most launches repeat an earlier one with other tensors of the same shapes.  What follows from shapes, strides, offsets,
types, sizes of storages and aliases is the same then: equal patterns are bound alike.
"""

import struct
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.engines.ttir.ir import Function, Type
from harness.engines.virtual.binding import scalar
from harness.engines.virtual.native.native_launch import word_of_number

_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
"""The types whose methods are torch's own."""
MOST_NUMBERS = 1024
"""Numbers of one parameter whose words are kept."""


@dataclass(frozen=True, slots=True)
class PlainArguments:
    """The arguments of one launch."""

    pattern: Hashable
    """Everything about the tensors except for their addresses and contents."""
    addresses: Sequence[int]
    """Of the tensors' storages, one for each pointer parameter."""
    numbers: Sequence[int]
    """The words of the numbers, as native code takes them."""


class PlainParameters:
    """The parameters of one compiled kernel, in the order of the caller's arguments."""

    def __init__(self, pointers: Sequence[int], numbers: Sequence[tuple[int, Type]]) -> None:
        """`pointers` and `numbers` are positions among the caller's arguments, in the order of the parameters."""
        self._pointers = tuple(pointers)
        self._numbers = tuple((at, _Words(kind)) for at, kind in numbers)

    @classmethod
    def of(cls, source: Any, kernel: Function) -> "PlainParameters | None":
        """Return the parameters of a Triton `ASTSource`; None if an argument is more than one parameter, or none."""
        names = list(source.fn.arg_names)
        given = [(name, kind) for name, kind in source.signature.items() if kind != "constexpr"]
        is_plain = all(isinstance(kind, str) and not kind.startswith("tensordesc") for _, kind in given)
        if not is_plain or len(given) != len(kernel.parameters) or any(name not in names for name, _ in given):
            return None
        kinds = [
            (names.index(name), parameter.type) for (name, _), parameter in zip(given, kernel.parameters, strict=True)
        ]
        return cls([at for at, kind in kinds if kind.is_pointer], [pair for pair in kinds if not pair[1].is_pointer])

    def read(self, arguments: Sequence[Any]) -> PlainArguments | None:
        """Return the arguments of a launch; None if one is no plain tensor with memory, or no number of Python's.

        No mode of torch may be active.
        """
        known: dict[int, int] = {}
        pattern: list[object] = []
        addresses: list[int] = []
        for at in self._pointers:
            tensor = arguments[at]
            if type(tensor) not in _TENSORS:
                return None
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if not address:
                return None
            addresses.append(address)
            pattern += (
                known.setdefault(address, len(known)),
                storage.nbytes(),
                tensor.storage_offset(),
                tensor.dtype,
                tensor.shape,
                tensor.stride(),
            )
        numbers: list[int] = []
        for at, words in self._numbers:
            word = words(arguments[at])
            if word is None:
                return None
            numbers.append(word)
        return PlainArguments(tuple(pattern), addresses, numbers)


class _Words:
    """Converts the numbers of one parameter to words of native code; those of other types than Python's to None."""

    __slots__ = ("_kind", "_known")

    def __init__(self, kind: Type) -> None:
        self._kind = kind
        self._known: dict[int | bytes, int] = {}

    def __call__(self, number: object) -> int | None:
        if not isinstance(number, int | float):
            return None
        number = int(number) if isinstance(number, int) else number
        # Zeros of both signs are equal, and no NaN equals itself.
        key = number if isinstance(number, int) else _DOUBLE.pack(number)
        word = self._known.get(key)
        if word is None:
            if len(self._known) >= MOST_NUMBERS:
                self._known.clear()
            word = self._known[key] = word_of_number(scalar(self._kind, number))
        return word


_DOUBLE = struct.Struct("<d")
