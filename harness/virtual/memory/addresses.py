"""From addresses to pointers with provenance: whose storage an integer that a kernel makes a pointer of lies in.

Arguments of the launch come first.  Kernels that read tables of addresses (grouped products) reach tensors that are no
arguments; those are looked for among the tensors that are alive in this process.
"""

import gc
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch

from harness.ops.poison import Poison
from harness.virtual.memory.arguments import Argument, Buffer
from harness.virtual.memory.pointers import Pointers, Several
from harness.virtual.memory.views import granule_of
from harness.virtual.numbers.elements import Array

PoisonOf = Callable[[int], Poison | None]
NOBODYS = "a pointer made of an integer"
"""The name under which accesses through an address that no tensor holds are reported."""
BY_ADDRESS = "a tensor reached by its address"
"""The name of a tensor that is no argument."""


class Addresses:
    """The tensors of one launch by their addresses; those that are found are added to its arguments."""

    def __init__(self, arguments: list[Argument], poison_of: PoisonOf) -> None:
        self._arguments = arguments
        self._poison_of = poison_of

    def pointers(self, addresses: Array, element_bytes: int) -> Pointers | Several:
        """Pointers to elements of that size."""
        distinct, which = np.unique(addresses, return_inverse=True)
        holders = np.array([self._holder(int(address)) for address in distinct])
        lanes = holders[which].reshape(addresses.shape)
        ways: list[tuple[Array, Pointers]] = []
        for number in np.unique(holders).tolist():
            argument = self._arguments[number]
            index = np.zeros(addresses.shape, np.int64)  # where nobody's would lie changes from run to run
            if argument.buffer is not None:
                index = (addresses - argument.buffer.address - argument.first_byte) // element_bytes
            ways.append((lanes == number, Pointers(number, element_bytes, (np.where(lanes == number, index, 0),))))
        return Several.of(ways)

    def _holder(self, address: int) -> int:
        """The argument that an address lies in; one is made for a tensor that is none, and for nobody's address."""
        best = max(
            (number for number, argument in enumerate(self._arguments) if _holds(argument, address)),
            key=lambda number: (_is_inside(self._arguments[number], address), -number),
            default=None,
        )
        return best if best is not None else self._added(self._living(address), address)

    def _added(self, tensor: torch.Tensor | None, address: int) -> int:
        if tensor is None:
            known = [
                number
                for number, argument in enumerate(self._arguments)
                if argument.buffer is None and argument.is_nobodys is bool(address)
            ]
            if known:
                return known[0]
            self._arguments.append(Argument(NOBODYS, None, 0, 1, (), (), is_nobodys=bool(address)))
            return len(self._arguments) - 1
        storage = tensor.untyped_storage()
        buffer = Buffer(storage.data_ptr(), storage.nbytes(), self._poison_of(storage.data_ptr()))
        size = tensor.element_size()
        first = int(tensor.storage_offset()) * size
        self._arguments.append(Argument(BY_ADDRESS, buffer, first, size, tuple(tensor.shape), tuple(tensor.stride())))
        buffer.granule = granule_of(buffer, self._arguments)
        buffer.track_readers = True
        return len(self._arguments) - 1

    def _living(self, address: int) -> torch.Tensor | None:
        """The tensor whose storage holds an address: one that begins there, else the largest."""
        holding = [
            tensor
            for tensor in self._tensors
            if 0 <= address - tensor.untyped_storage().data_ptr() < tensor.untyped_storage().nbytes()
        ]
        return max(holding, key=lambda tensor: (tensor.data_ptr() == address, tensor.numel()), default=None)

    @cached_property
    def _tensors(self) -> list[torch.Tensor]:
        """Those that are alive, on the CPU and with a storage."""
        return [
            thing
            for thing in gc.get_objects()
            if issubclass(type(thing), torch.Tensor)  # `isinstance` would ask lazy modules who they are
            and thing.layout is torch.strided
            and thing.untyped_storage().device.type == "cpu"
        ]


def _holds(argument: Argument, address: int) -> bool:
    """Whether an address lies in an argument's storage."""
    buffer = argument.buffer
    return buffer is not None and buffer.address <= address < buffer.address + buffer.size_bytes


def _is_inside(argument: Argument, address: int) -> bool:
    """Whether it lies between the ends of the argument's tensor."""
    assert argument.buffer is not None
    far = address - argument.buffer.address - argument.first_byte
    return 0 <= far < argument.extent * argument.element_bytes


def addresses_of(arguments: list[Argument], pointers: Pointers | Several) -> Array:
    """The addresses that pointers hold, as a launch on a GPU would see them."""
    if isinstance(pointers, Pointers):
        return _address(arguments, pointers)
    made = np.zeros((), np.int64)
    for mask, way in pointers.ways:
        made = np.where(mask, _address(arguments, way), made)
    return made


def _address(arguments: list[Argument], pointers: Pointers) -> Array:
    argument = arguments[pointers.argument]
    base = argument.buffer.address + argument.first_byte if argument.buffer else 0
    return pointers.index() * pointers.element_bytes + base
