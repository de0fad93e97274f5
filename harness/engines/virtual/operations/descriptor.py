"""Tensor descriptors: blocks addressed by their first index.

Elements outside the tensor read as padding and are not stored.

For AMD's GPUs the compiler replaces descriptors by pointers.

Since compute capability 9.0 the TMA engine needs a tensor, its rows and every block to begin at multiples of 16 bytes.
On an H200 (driver 580, Triton 3.6.0), a misaligned tensor raises "misaligned address" and a misaligned block "illegal
instruction".  Misaligned rows are silently read from other places.  Triton checks only tensors and rows, and only of
descriptors that the host makes.

A store of the TMA engine clips at multiples of 16 bytes: on an H200 (Triton 3.6.0) a block of int8 that reaches beyond
466 columns overwrites the columns up to 480 (https://github.com/triton-lang/triton/issues/11583).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from harness.engines.ttir.ir import Operation, Type
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.memory.accesses import BlockAccess
from harness.engines.virtual.memory.pointers import Descriptor, MixedPointers, Pointers, choices_of, split_by_argument
from harness.engines.virtual.numbers.elements import Array, carrier
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.atomic import UPDATES, Atomic, perform
from harness.engines.virtual.operations.memory import merge_by_argument, pointers
from harness.engines.virtual.operations.tile import broadcast
from harness.errors import CannotExecute
from harness.model.run import DESCRIPTOR_BYTES, Unaligned

FIRST_WITH_TMA = 90
"""The first architecture whose descriptors are those of the TMA engine."""
NAN_PADDING = 2
"""Value of `tt.make_tensor_descriptor`'s attribute `padding`; otherwise elements outside read as zero."""
SCALARS = {"si": "i", "ui": "i"}
"""Descriptor block types name the sign of their integers; other TTIR types do not."""


def make(machine: Machine, operation: Operation, frame: list[Value]) -> Descriptor:
    """`tt.make_tensor_descriptor`: operands are the base, the extents, and as many strides."""
    base, *rest = (frame[slot] for slot in operation.operands)
    rank = len(rest) // 2
    result = Descriptor(
        pointers(base),
        tuple(map(array, rest[:rank])),
        tuple(map(array, rest[rank:])),
        pads_with_nan=np.array([operation.attributes.get("padding") == NAN_PADDING]),
        rounds_to_tf32=np.array([False]),
    )
    _check_tensor(machine, operation, result)
    return result


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.descriptor_load`."""
    descriptor, block = _descriptor(operation, frame)
    address, inside = _box(
        machine, operation, (descriptor, block), [array(frame[slot]) for slot in operation.operands[1:]]
    )
    result = _load(machine, operation, descriptor, (address, inside, block))
    return result.reshape(result.shape[0], *operation.result_types[0].shape)  # the result may drop axes of length 1


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_store`; the block is the last operand."""
    descriptor, block = _descriptor(operation, frame)
    if isinstance(machine.arch, int) and machine.arch >= FIRST_WITH_TMA:
        descriptor = _with_tail(descriptor, max(1, block.bytes))
    address, inside = _box(
        machine, operation, (descriptor, block), [array(frame[slot]) for slot in operation.operands[1:-1]]
    )
    value = broadcast(array(frame[operation.operands[-1]]), operation.operand_types[-1])
    _store(machine, operation, (address, inside, block), value.reshape(value.shape[0], *block.shape))


def _with_tail(descriptor: Descriptor, element_bytes: int) -> Descriptor:
    """Return a descriptor whose rows end where the TMA engine's stores do: at a multiple of 16 bytes."""
    *outer, last = descriptor.extents
    step = max(1, DESCRIPTOR_BYTES // element_bytes)
    return replace(descriptor, extents=(*outer, -(-last.astype(np.int64) // step) * step))


def gather(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.descriptor_gather`: rows by a list of indices, columns from one first column."""
    descriptor, block = _descriptor(operation, frame)
    rows, column = (array(frame[slot]) for slot in operation.operands[1:])
    kind = Type(block.element, operation.result_types[0].shape)
    _check_block(machine, operation, descriptor, column)
    address, inside = _rows(descriptor, kind, rows, column)
    return _load(machine, operation, descriptor, (address, inside, kind))


def scatter(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_scatter`."""
    descriptor, block = _descriptor(operation, frame)
    rows, column, value = (array(frame[slot]) for slot in operation.operands[1:])
    kind = Type(block.element, operation.operand_types[-1].shape)
    _check_block(machine, operation, descriptor, column)
    address, inside = _rows(descriptor, kind, rows, column)
    _store(machine, operation, (address, inside, kind), broadcast(value, kind))


def reduce(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.descriptor_reduce`: an atomic on each element inside the tensor, without a result."""
    descriptor, block = _descriptor(operation, frame)
    declared = operation.operand_types[0].pointee
    update = operation.keywords[0]
    # The operation has one `min` and `max`; the sign of the block's integers decides.
    if declared is not None and declared.element.startswith("ui") and update in {"min", "max"}:
        update = f"u{update}"
    if update not in UPDATES:
        raise CannotExecute(f"a reduction {update}")
    address, inside = _box(
        machine, operation, (descriptor, block), [array(frame[slot]) for slot in operation.operands[1:-1]]
    )
    value = broadcast(array(frame[operation.operands[-1]]), operation.operand_types[-1])
    operands = (value.reshape(value.shape[0], *block.shape),)
    words = (update, "relaxed", "gpu")
    perform(machine, Atomic(operation.location, address, block, inside, words, operands, UPDATES[update]))


def _descriptor(operation: Operation, frame: list[Value]) -> tuple[Descriptor, Type]:
    descriptor, block = frame[operation.operands[0]], operation.operand_types[0].pointee
    if not isinstance(descriptor, Descriptor) or block is None:
        raise CannotExecute("something else where a tensor descriptor is expected")
    return descriptor, block.with_element(SCALARS.get(block.element[:2], block.element[:2]) + block.element[2:])


PlacedBlock = tuple[Pointers | MixedPointers, Array, Type]
"""Pointers of an access, the mask of lanes inside the tensor, and the type that is moved."""


def _load(machine: Machine, operation: Operation, descriptor: Descriptor, access: PlacedBlock) -> Array:
    address, inside, kind = access
    rank = 1 + len(kind.shape)
    other = np.zeros((1,) * rank, carrier(kind.element))
    if descriptor.pads_with_nan.any():
        other = np.where(_column(descriptor.pads_with_nan, rank), np.float32("nan"), other).astype(other.dtype)
    parts: list[Array] = []
    for target, lanes in split_by_argument(address, inside):
        block_access = BlockAccess(operation.location, target, kind, machine.with_active(lanes, rank), machine.numbers)
        parts.append(machine.memory.load(block_access, other))
    result = broadcast(merge_by_argument(address, parts), kind)
    if not descriptor.rounds_to_tf32.any():
        return result
    return np.where(_column(descriptor.rounds_to_tf32, rank), _nearest_tf32(result), result)


def _store(machine: Machine, operation: Operation, access: PlacedBlock, value: Array) -> None:
    address, inside, kind = access
    for target, lanes in split_by_argument(address, inside):
        active = machine.with_active(lanes, value.ndim)
        machine.memory.store(BlockAccess(operation.location, target, kind, active, machine.numbers), value)


def _box(
    machine: Machine, operation: Operation, descriptor_and_block: tuple[Descriptor, Type], firsts: list[Array]
) -> tuple[Pointers | MixedPointers, Array]:
    """Return the pointers of a block that begins at `firsts`, and the mask of its elements inside the tensor."""
    descriptor, block = descriptor_and_block
    _check_block(machine, operation, descriptor, firsts[-1])
    rank = 1 + len(block.shape)
    indices = [
        _column(first, rank).astype(np.int64) + _along(np.arange(extent), axis, rank)
        for axis, (first, extent) in enumerate(zip(firsts, block.shape, strict=True))
    ]
    return _at(descriptor, indices, rank)


def _rows(descriptor: Descriptor, kind: Type, rows: Array, column: Array) -> tuple[Pointers | MixedPointers, Array]:
    """Return pointers and inside mask of rows of a rank-two tensor, each as wide as the block."""
    lanes = _column(column, 3).astype(np.int64) + _along(np.arange(kind.shape[1]), 1, 3)
    return _at(descriptor, [rows.astype(np.int64)[..., None], lanes], 3)


def _at(descriptor: Descriptor, indices: list[Array], rank: int) -> tuple[Pointers | MixedPointers, Array]:
    address = descriptor.base.mapped(lambda part: _column(part, rank))
    inside = np.ones((1,) * rank, np.bool_)
    for index, extent, stride in zip(indices, descriptor.extents, descriptor.strides, strict=True):
        inside = inside & (index >= 0) & (index < _column(extent, rank))
        address = address.plus(index * _column(stride, rank))
    return address, inside


def _along(lanes: Array, axis: int, rank: int) -> Array:
    """Shape lane numbers along one axis of a block; `rank` counts the program axis."""
    return lanes.reshape(-1, *(1,) * (rank - 2 - axis))


def _column(values: Array, rank: int) -> Array:
    """Shape one number per program to broadcast with a block."""
    return values.reshape(-1, *(1,) * (rank - 1))


def _nearest_tf32(values: Array) -> Array:
    """Round to tf32's ten mantissa bits, to nearest with ties to even."""
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


def _check_tensor(machine: Machine, operation: Operation, descriptor: Descriptor) -> None:
    """Check the tensor and the rows of a descriptor that a kernel makes."""
    for lanes, target in choices_of(descriptor.base):
        # Storages are aligned to more than 16 bytes, so byte offsets within them suffice.
        first = machine.memory.arguments[target.argument].first_byte
        _check(machine, operation, (lanes, target), Unaligned.TENSOR, first + target.index() * target.element_bytes)
        for stride in descriptor.strides[:-1]:
            _check(machine, operation, (lanes, target), Unaligned.ROW, stride.astype(np.int64) * target.element_bytes)


def _check_block(machine: Machine, operation: Operation, descriptor: Descriptor, first: Array) -> None:
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
