"""What the engine that moves blocks through tensor descriptors, since compute capability 9.0, asks of addresses.

A tensor, its rows and every block begin at multiples of 16 bytes.  On an H200 (driver 580, Triton 3.6.0) a misaligned
address ends a launch whose tensor begins elsewhere, an illegal instruction one whose block does, and rows that begin
elsewhere are read from other places.  Triton checks tensors and rows of descriptors that the host makes, no more.
"""

import numpy as np

from harness.model.run import DESCRIPTOR_BYTES, Unaligned
from harness.virtual.machine import Machine
from harness.virtual.memory.pointers import Descriptor, Pointers, ways_of
from harness.virtual.numbers.elements import Array
from harness.virtual.ttir.ir import Operation


def check_tensor(machine: Machine, operation: Operation, descriptor: Descriptor) -> None:
    """Look at a descriptor that a kernel makes; storages begin at multiples of more than 16 bytes."""
    for taken, way in ways_of(descriptor.base):
        first = machine.memory.arguments[way.argument].first_byte
        _check(machine, operation, (taken, way), Unaligned.TENSOR, first + way.index() * way.element_bytes)
        for stride in descriptor.strides[:-1]:
            _check(machine, operation, (taken, way), Unaligned.ROW, stride.astype(np.int64) * way.element_bytes)


def check_block(machine: Machine, operation: Operation, descriptor: Descriptor, first: Array) -> None:
    """Look at a block that begins at this index along the last axis."""
    for taken, way in ways_of(descriptor.base):
        _check(machine, operation, (taken, way), Unaligned.BLOCK, first.astype(np.int64) * way.element_bytes)


def _check(machine: Machine, operation: Operation, way: tuple[Array, Pointers], what: Unaligned, begins: Array) -> None:
    taken, into = way
    off_by = begins.reshape(-1) % DESCRIPTOR_BYTES
    if not off_by.any():
        return
    bad = machine.with_active((off_by != 0) & taken.reshape(-1), 1)
    assert bad is not None
    bad = np.broadcast_to(bad, (machine.width,))
    if bad.any():
        programs = machine.numbers[bad] - 1
        each = np.broadcast_to(off_by, (machine.width,))[bad]
        machine.memory.events.misaligned((operation.location, into.argument), what, programs, each)
