"""Tensor descriptors: blocks by their first index; what lies outside the tensor reads as padding and is not stored."""

from collections.abc import Mapping

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.elements import Array, carrier
from harness.virtual.ir import Operation, Type
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.memory import Step
from harness.virtual.operations_arith import array
from harness.virtual.operations_memory import pointers
from harness.virtual.operations_tile import spread
from harness.virtual.pointers import Descriptor

NAN_PADDING = 2
"""`tt.make_tensor_descriptor`'s attribute `padding`; without it, or with 1, lanes outside read as zero."""


def make(machine: Machine, operation: Operation, frame: list[Value]) -> Descriptor:
    """`tt.make_tensor_descriptor`: base, then the extents, then as many strides."""
    del machine
    base, *rest = (frame[slot] for slot in operation.operands)
    rank = len(rest) // 2
    return Descriptor(
        pointers(base),
        tuple(map(array, rest[:rank])),
        tuple(map(array, rest[rank:])),
        pads_with_nan=operation.attributes.get("padding") == NAN_PADDING,
    )


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.descriptor_load`."""
    descriptor, step = _step(machine, operation, frame, operation.operands[1:])
    fill = float("nan") if descriptor.pads_with_nan else 0
    other = np.full((1,) * (1 + len(step.kind.shape)), fill, carrier(step.kind.element))
    made = spread(machine.memory.load(step, other), step.kind)
    return made.reshape(made.shape[0], *operation.result_types[0].shape)  # unit extents may have been dropped


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_store`: the block is the last operand."""
    _, step = _step(machine, operation, frame, operation.operands[1:-1])
    value = spread(array(frame[operation.operands[-1]]), operation.operand_types[-1])
    machine.memory.store(step, value.reshape(value.shape[0], *step.kind.shape))


def _step(
    machine: Machine, operation: Operation, frame: list[Value], indices: tuple[int, ...]
) -> tuple[Descriptor, Step]:
    """The access to a descriptor's block that begins at the indices."""
    descriptor = frame[operation.operands[0]]
    block = operation.operand_types[0].pointee
    if not isinstance(descriptor, Descriptor) or block is None:
        raise CannotExecute("a descriptor that was not made in the kernel")
    where, inside = descriptor.base, np.ones((1,) * (1 + len(block.shape)), np.bool_)
    where = where.mapped(lambda part: part.reshape(part.shape[0], *(1,) * len(block.shape)))
    for axis, slot in enumerate(indices):
        first = _column(array(frame[slot]), block)
        lanes = np.arange(block.shape[axis]).reshape(-1, *(1,) * (len(block.shape) - 1 - axis))
        index = first.astype(np.int64) + lanes
        inside = inside & (index >= 0) & (index < _column(descriptor.extents[axis], block))
        where = where.plus(index * _column(descriptor.strides[axis], block))
    mask = machine.with_active(inside, inside.ndim)
    return descriptor, Step(operation.location, where, Type(block.element, block.shape), mask, machine.numbers)


def _column(values: Array, block: Type) -> Array:
    """A number a program, shaped to go with a block."""
    return values.reshape(-1, *(1,) * len(block.shape))


HANDLERS: Mapping[str, Handler] = {
    "tt.make_tensor_descriptor": make,
    "tt.descriptor_load": load,
    "tt.descriptor_store": store,
}
