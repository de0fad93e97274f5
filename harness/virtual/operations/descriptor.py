"""Tensor descriptors: blocks by their first index; what lies outside the tensor reads as padding and is not stored."""

from collections.abc import Mapping

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.memory.accesses import Step
from harness.virtual.memory.pointers import Descriptor, Pointers, Several
from harness.virtual.numbers.elements import Array, carrier
from harness.virtual.operations.arith import array
from harness.virtual.operations.atomic import UPDATES, Atomic, perform
from harness.virtual.operations.descriptor_checks import check_block, check_tensor
from harness.virtual.operations.memory import each_way, pointers, put_together
from harness.virtual.operations.tile import spread
from harness.virtual.ttir.ir import Operation, Type

NAN_PADDING = 2
"""`tt.make_tensor_descriptor`'s attribute `padding`; without it, or with 1, lanes outside read as zero."""
SCALARS = {"si": "i", "ui": "i"}
"""A descriptor's block says whether its integers have a sign."""


def make(machine: Machine, operation: Operation, frame: list[Value]) -> Descriptor:
    """`tt.make_tensor_descriptor`: base, then the extents, then as many strides."""
    base, *rest = (frame[slot] for slot in operation.operands)
    rank = len(rest) // 2
    made = Descriptor(
        pointers(base),
        tuple(map(array, rest[:rank])),
        tuple(map(array, rest[rank:])),
        pads_with_nan=np.array([operation.attributes.get("padding") == NAN_PADDING]),
        rounds_to_tf32=np.array([False]),
    )
    check_tensor(machine, operation, made)
    return made


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.descriptor_load`."""
    descriptor, block = _descriptor(operation, frame)
    where, inside = _box(
        machine, operation, (descriptor, block), [array(frame[slot]) for slot in operation.operands[1:]]
    )
    made = _loaded(machine, operation, descriptor, (where, inside, block))
    return made.reshape(made.shape[0], *operation.result_types[0].shape)  # unit extents may have been dropped


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_store`: the block is the last operand."""
    descriptor, block = _descriptor(operation, frame)
    where, inside = _box(
        machine, operation, (descriptor, block), [array(frame[slot]) for slot in operation.operands[1:-1]]
    )
    value = spread(array(frame[operation.operands[-1]]), operation.operand_types[-1])
    _stored(machine, operation, (where, inside, block), value.reshape(value.shape[0], *block.shape))


def gather(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.descriptor_gather`: rows by a list of their indices, columns from one on."""
    descriptor, block = _descriptor(operation, frame)
    rows, column = (array(frame[slot]) for slot in operation.operands[1:])
    kind = Type(block.element, operation.result_types[0].shape)
    check_block(machine, operation, descriptor, column)
    where, inside = _rows(descriptor, kind, rows, column)
    return _loaded(machine, operation, descriptor, (where, inside, kind))


def scatter(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_scatter`."""
    descriptor, block = _descriptor(operation, frame)
    rows, column, value = (array(frame[slot]) for slot in operation.operands[1:])
    kind = Type(block.element, operation.operand_types[-1].shape)
    check_block(machine, operation, descriptor, column)
    where, inside = _rows(descriptor, kind, rows, column)
    _stored(machine, operation, (where, inside, kind), spread(value, kind))


def reduce(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_reduce`: an atomic on each element that lies inside; nothing is returned."""
    descriptor, block = _descriptor(operation, frame)
    declared = operation.operand_types[0].pointee
    how = operation.words[0]
    if declared is not None and declared.element.startswith("ui") and how in {"min", "max"}:
        how = f"u{how}"
    if how not in UPDATES:
        raise CannotExecute(f"a reduction {how}")
    where, inside = _box(
        machine, operation, (descriptor, block), [array(frame[slot]) for slot in operation.operands[1:-1]]
    )
    value = spread(array(frame[operation.operands[-1]]), operation.operand_types[-1])
    operands = (value.reshape(value.shape[0], *block.shape),)
    words = (how, "relaxed", "gpu")
    perform(machine, Atomic(operation.location, where, block, inside, words, operands, UPDATES[how]))


def _descriptor(operation: Operation, frame: list[Value]) -> tuple[Descriptor, Type]:
    descriptor, block = frame[operation.operands[0]], operation.operand_types[0].pointee
    if not isinstance(descriptor, Descriptor) or block is None:
        raise CannotExecute("something else where a tensor descriptor is expected")
    return descriptor, block.of(SCALARS.get(block.element[:2], block.element[:2]) + block.element[2:])


Place = tuple[Pointers | Several, Array, Type]
"""Where an access goes, which of its lanes lie in the tensor, and what is moved."""


def _loaded(machine: Machine, operation: Operation, descriptor: Descriptor, place: Place) -> Array:
    where, inside, kind = place
    rank = 1 + len(kind.shape)
    other = np.zeros((1,) * rank, carrier(kind.element))
    if descriptor.pads_with_nan.any():
        other = np.where(_column(descriptor.pads_with_nan, rank), np.float32("nan"), other).astype(other.dtype)
    parts: list[Array] = []
    for way, lanes in each_way(where, inside):
        step = Step(operation.location, way, kind, machine.with_active(lanes, rank), machine.numbers)
        parts.append(machine.memory.load(step, other))
    made = spread(put_together(where, parts), kind)
    if not descriptor.rounds_to_tf32.any():
        return made
    return np.where(_column(descriptor.rounds_to_tf32, rank), _nearest_tf32(made), made)


def _stored(machine: Machine, operation: Operation, place: Place, value: Array) -> None:
    where, inside, kind = place
    for way, lanes in each_way(where, inside):
        active = machine.with_active(lanes, value.ndim)
        machine.memory.store(Step(operation.location, way, kind, active, machine.numbers), value)


def _box(
    machine: Machine, operation: Operation, through: tuple[Descriptor, Type], firsts: list[Array]
) -> tuple[Pointers | Several, Array]:
    """A block that begins at these indices: where its elements lie, and which of them in the tensor."""
    descriptor, block = through
    check_block(machine, operation, descriptor, firsts[-1])
    rank = 1 + len(block.shape)
    indices = [
        _column(first, rank).astype(np.int64) + _along(np.arange(extent), axis, rank)
        for axis, (first, extent) in enumerate(zip(firsts, block.shape, strict=True))
    ]
    return _at(descriptor, indices, rank)


def _rows(descriptor: Descriptor, kind: Type, rows: Array, column: Array) -> tuple[Pointers | Several, Array]:
    """Rows of a tensor of rank two, each as wide as the block."""
    lanes = _column(column, 3).astype(np.int64) + _along(np.arange(kind.shape[1]), 1, 3)
    return _at(descriptor, [rows.astype(np.int64)[..., None], lanes], 3)


def _at(descriptor: Descriptor, indices: list[Array], rank: int) -> tuple[Pointers | Several, Array]:
    where = descriptor.base.mapped(lambda part: _column(part, rank))
    inside = np.ones((1,) * rank, np.bool_)
    for index, extent, stride in zip(indices, descriptor.extents, descriptor.strides, strict=True):
        inside = inside & (index >= 0) & (index < _column(extent, rank))
        where = where.plus(index * _column(stride, rank))
    return where, inside


def _along(lanes: Array, axis: int, rank: int) -> Array:
    """Numbers along one axis of a block; `rank` counts the program axis."""
    return lanes.reshape(-1, *(1,) * (rank - 2 - axis))


def _column(values: Array, rank: int) -> Array:
    """A number a program, shaped to go with a block."""
    return values.reshape(-1, *(1,) * (rank - 1))


def _nearest_tf32(values: Array) -> Array:
    """Ten mantissa bits, to nearest with ties to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    nearest = ((bits + ((bits >> 13 & 1) + np.uint32(0xFFF))) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), nearest, values)


HANDLERS: Mapping[str, Handler] = {
    "tt.make_tensor_descriptor": make,
    "tt.descriptor_load": load,
    "tt.descriptor_store": store,
    "tt.descriptor_gather": gather,
    "tt.descriptor_scatter": scatter,
    "tt.descriptor_reduce": reduce,
}
