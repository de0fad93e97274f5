"""Fresh tensors that kernels store, and what is left of their poison at the end of a case."""

import ctypes
from dataclasses import dataclass
from math import prod

import numpy as np

from harness.engines.virtual.memory.arguments import Argument
from harness.execution.poison import Poison
from harness.model.run import PartlyStored


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A view into fresh memory through which a launch stores.  It is read while the storage is remembered."""

    launch: int
    argument: str
    address: int
    """Of its first element."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    poison: Poison

    def rest(self) -> PartlyStored | None:
        """Return what nothing has stored; None if everything is stored."""
        size = self.poison.size
        extent = size + sum((count - 1) * step for count, step in zip(self.shape, self.strides, strict=True))
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * extent).from_address(self.address))
        cells = np.lib.stride_tricks.as_strided(memory[:size].view(f"u{size}"), self.shape, self.strides)
        fresh = cells == self.poison.pattern
        if not fresh.any():
            return None
        (rows,) = fresh.reshape(self.shape[0], -1).all(axis=1).nonzero()
        return PartlyStored(
            launch=self.launch,
            argument=self.argument,
            shape=self.shape,
            cells=int(fresh.sum()),
            rows=(int(rows[0]), int(rows[-1])) if len(rows) else None,
        )


def stored_tensor(argument: Argument, address: int, poison: Poison | None, launch: int) -> StoredTensor | None:
    """Return the tensor of an argument, in the storage at an address with this poison.

    The result is None if the memory is not fresh, or poisoned as another type.
    """
    if poison is None or poison.size != argument.element_bytes:
        return None
    if not argument.shape or not prod(argument.shape):
        return None
    return StoredTensor(
        launch=launch,
        argument=argument.name,
        address=address + argument.first_byte,
        shape=argument.shape,
        strides=tuple(stride * argument.element_bytes for stride in argument.strides),
        poison=poison,
    )
