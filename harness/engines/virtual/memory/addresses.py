"""Integer addresses to pointers with provenance, and back.

A kernel may turn an integer into a pointer.  The arguments of the launch are searched first.  Kernels that read tables
of addresses (grouped products) also reach tensors that are no arguments, so all living tensors are searched next.
"""

import gc
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch

from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.pointers import MixedPointers, Pointers
from harness.engines.virtual.memory.views import cell_bytes_of
from harness.engines.virtual.numbers.elements import Array
from harness.execution.poison import Poison

PoisonOf = Callable[[int], Poison | None]
UNKNOWN_ADDRESS_NAME = "a pointer made of an integer"
"""The argument name in events of an address that no tensor holds."""
BY_ADDRESS_NAME = "a tensor reached by its address"
"""The argument name in events of a tensor that is no argument."""


class Addresses:
    """The tensors of one launch by address.  Tensors that are found are appended to the launch's arguments."""

    def __init__(self, arguments: list[Argument], poison_of: PoisonOf) -> None:
        self._arguments = arguments
        self._poison_of = poison_of

    def pointers(self, addresses: Array, element_bytes: int) -> Pointers | MixedPointers:
        """Return pointers to elements of `element_bytes` bytes at integer addresses."""
        distinct, which = np.unique(addresses, return_inverse=True)
        holders = np.array([self._holder(int(address)) for address in distinct])
        lanes = holders[which].reshape(addresses.shape)
        choices: list[tuple[Array, Pointers]] = []
        for number in np.unique(holders).tolist():
            argument = self._arguments[number]
            # An unknown address differs from run to run, so reports show index 0 instead.
            index = np.zeros(addresses.shape, np.int64)
            if argument.buffer is not None:
                index = (addresses - argument.buffer.address - argument.first_byte) // element_bytes
            mask = lanes == number
            choices.append((mask, Pointers(number, element_bytes, (np.where(mask, index, 0),))))
        return MixedPointers.of(choices)

    def _holder(self, address: int) -> int:
        """Return the number of the argument that holds an address; append one if there is none."""
        best = max(
            (number for number, argument in enumerate(self._arguments) if _holds(argument, address)),
            key=lambda number: (_is_inside(self._arguments[number], address), -number),
            default=None,
        )
        return best if best is not None else self._append(self._living_tensor(address), address)

    def _append(self, tensor: torch.Tensor | None, address: int) -> int:
        if tensor is None:
            known = [
                number
                for number, argument in enumerate(self._arguments)
                if argument.buffer is None and argument.is_unknown_address is bool(address)
            ]
            if known:
                return known[0]
            self._arguments.append(Argument(UNKNOWN_ADDRESS_NAME, None, 0, 1, (), (), is_unknown_address=bool(address)))
            return len(self._arguments) - 1
        storage = tensor.untyped_storage()
        buffer = Buffer(storage.data_ptr(), storage.nbytes(), self._poison_of(storage.data_ptr()))
        size = tensor.element_size()
        first = int(tensor.storage_offset()) * size
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        self._arguments.append(Argument(BY_ADDRESS_NAME, buffer, first, size, shape, strides))
        buffer.cell_bytes = cell_bytes_of(buffer, self._arguments)
        buffer.track_readers = True
        return len(self._arguments) - 1

    def _living_tensor(self, address: int) -> torch.Tensor | None:
        """Return a tensor whose storage holds an address: preferably one that begins there, then the largest."""
        holding = [
            tensor
            for tensor in self._tensors
            if 0 <= address - tensor.untyped_storage().data_ptr() < tensor.untyped_storage().nbytes()
        ]
        return max(holding, key=lambda tensor: (tensor.data_ptr() == address, tensor.numel()), default=None)

    @cached_property
    def _tensors(self) -> list[torch.Tensor]:
        """All living tensors on the CPU that have a storage."""
        return [
            thing
            for thing in gc.get_objects()
            # `isinstance` reads `__class__`, which makes lazily imported modules import themselves.
            if issubclass(type(thing), torch.Tensor)
            and thing.layout is torch.strided
            and thing.untyped_storage().device.type == "cpu"
        ]


def _holds(argument: Argument, address: int) -> bool:
    """Return True if an address lies in the argument's storage."""
    buffer = argument.buffer
    return buffer is not None and buffer.address <= address < buffer.address + buffer.size_bytes


def _is_inside(argument: Argument, address: int) -> bool:
    """Return True if an address lies between the ends of the argument's tensor."""
    assert argument.buffer is not None
    offset = address - argument.buffer.address - argument.first_byte
    return 0 <= offset < argument.extent * argument.element_bytes


def addresses_of(arguments: list[Argument], pointers: Pointers | MixedPointers) -> Array:
    """Return the integer addresses of pointers."""
    if isinstance(pointers, Pointers):
        return _address(arguments, pointers)
    addresses = np.zeros((), np.int64)
    for mask, chosen in pointers.choices:
        addresses = np.where(mask, _address(arguments, chosen), addresses)
    return addresses


def _address(arguments: list[Argument], pointers: Pointers) -> Array:
    argument = arguments[pointers.argument]
    base = argument.buffer.address + argument.first_byte if argument.buffer else 0
    return pointers.index() * pointers.element_bytes + base
