"""Alignment checks of tensor descriptors, which the TMA engine needs since compute capability 9.0.

A tensor, its rows and every block must begin at multiples of 16 bytes.  On an H200 (driver 580, Triton 3.6.0),
a misaligned tensor raises "misaligned address" and a misaligned block "illegal instruction".  Misaligned rows are
silently read from other places.  Triton checks only tensors and rows, and only of descriptors that the host makes.
"""

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.machine import Machine
from harness.engines.virtual.memory.pointers import Descriptor, Pointers, choices_of
from harness.engines.virtual.numbers.elements import Array
from harness.model.run import DESCRIPTOR_BYTES, Unaligned


def check_tensor(machine: Machine, operation: Operation, descriptor: Descriptor) -> None:
    """Check the tensor and the rows of a descriptor that a kernel makes."""
    for lanes, target in choices_of(descriptor.base):
        # Storages are aligned to more than 16 bytes, so byte offsets within them suffice.
        first = machine.memory.arguments[target.argument].first_byte
        _check(machine, operation, (lanes, target), Unaligned.TENSOR, first + target.index() * target.element_bytes)
        for stride in descriptor.strides[:-1]:
            _check(machine, operation, (lanes, target), Unaligned.ROW, stride.astype(np.int64) * target.element_bytes)


def check_block(machine: Machine, operation: Operation, descriptor: Descriptor, first: Array) -> None:
    """Check a block that begins at index `first` along the last axis."""
    for lanes, target in choices_of(descriptor.base):
        _check(machine, operation, (lanes, target), Unaligned.BLOCK, first.astype(np.int64) * target.element_bytes)


def _check(
    machine: Machine, operation: Operation, target: tuple[Array, Pointers], misaligned_part: Unaligned, begins: Array
) -> None:
    lanes, pointers = target
    off_by = begins.reshape(-1) % DESCRIPTOR_BYTES
    if not off_by.any():
        return
    misaligned = machine.with_active((off_by != 0) & lanes.reshape(-1), 1)
    assert misaligned is not None
    misaligned = np.broadcast_to(misaligned, (machine.width,))
    if misaligned.any():
        programs = machine.numbers[misaligned] - 1
        remainders = np.broadcast_to(off_by, (machine.width,))[misaligned]
        machine.memory.events.misaligned((operation.location, pointers.argument), misaligned_part, programs, remainders)
