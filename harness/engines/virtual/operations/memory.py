"""Loads, stores, and arithmetic and casts of pointers.  `harness.engines.virtual.memory` makes and checks accesses."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from harness.engines.ttir.ir import Operation, Type
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.memory.accesses import BlockAccess
from harness.engines.virtual.memory.addresses import addresses_of
from harness.engines.virtual.memory.events import Place
from harness.engines.virtual.memory.pointers import MixedPointers, Pointers, split_by_argument
from harness.engines.virtual.numbers.elements import Array, carrier
from harness.engines.virtual.operations.arith import array
from harness.errors import CannotExecute
from harness.model.case import LaneFill

ODD_FILL = 101


def pointers(value: Value) -> Pointers | MixedPointers:
    """Return a value that must be a pointer or a block of pointers.

    Raises:
        CannotExecute: the value is a number.
    """
    if not isinstance(value, Pointers | MixedPointers):
        raise CannotExecute("a number where a pointer is expected")
    return value


def add_pointer(machine: Machine, operation: Operation, frame: list[Value]) -> Pointers | MixedPointers:
    """`tt.addptr`."""
    del machine
    base, offset = (frame[slot] for slot in operation.operands)
    return pointers(base).plus(array(offset))


def merge_by_argument(address: Pointers | MixedPointers, parts: Sequence[Array]) -> Array:
    """Merge the blocks that `split_by_argument`'s accesses returned."""
    result = parts[0]
    if isinstance(address, MixedPointers):
        for (mask_of_part, _), part in zip(address.choices[1:], parts[1:], strict=True):
            result = np.where(mask_of_part, part, result)
    return result


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`tt.load`, with optional mask and `other`; without `other`, masked-off lanes hold the case's lane fill."""
    kind = operation.result_types[0]
    if kind.is_pointer:
        assert kind.pointee is not None
        numbers = _load(machine, operation, frame, kind.with_element("i64"))
        return machine.pointers_at(numbers, kind.pointee.bytes)
    return _load(machine, operation, frame, kind)


def _load(machine: Machine, operation: Operation, frame: list[Value], kind: Type) -> Array:
    address = pointers(frame[operation.operands[0]])
    rank = 1 + len(kind.shape)
    mask = array(frame[operation.operands[1]]) if len(operation.operands) > 1 else None
    other: Array
    if len(operation.operands) > 2:
        other = array(frame[operation.operands[2]])
    else:
        other = undefined_value(machine, kind) if mask is not None else np.zeros((1,) * rank, carrier(kind.element))
    has_undefined = mask is not None and len(operation.operands) < 3 and not mask.all()
    volatile = bool(operation.attributes.get("isVolatile"))
    parts: list[Array] = []
    for target, lanes in split_by_argument(address, mask):
        if has_undefined and lanes is not None:
            _report_undefined(machine, (operation.location, target.argument), kind, lanes)
        active = machine.with_active(lanes, rank)
        block_access = BlockAccess(operation.location, target, kind, active, machine.numbers, volatile=volatile)
        _check_vectors(machine, operation, address, block_access)
        parts.append(machine.memory.load(block_access, other))
    return merge_by_argument(address, parts)


def _report_undefined(machine: Machine, place: Place, kind: Type, mask: Array) -> None:
    """Report how many lanes the active programs leave undefined."""
    off = machine.with_active(~mask, mask.ndim)
    assert off is not None
    # Blocks stay un-broadcast: scale the count to all programs' whole blocks.
    lanes = int(np.count_nonzero(off)) * (machine.width * prod(kind.shape) // off.size)
    if lanes:
        machine.memory.events.undefined(place, lanes)


def undefined_value(machine: Machine, kind: Type) -> Array:
    """The value of undefined lanes in this case, as a block of shape one."""
    fill = ODD_FILL if machine.lane_fill is LaneFill.ODD else 0
    return np.full((1,) * (1 + len(kind.shape)), fill, carrier(kind.element))


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.store`, with an optional mask."""
    address = pointers(frame[operation.operands[0]])
    value = array(frame[operation.operands[1]])
    kind = operation.operand_types[1]
    mask = array(frame[operation.operands[2]]) if len(operation.operands) > 2 else None
    for target, lanes in split_by_argument(address, mask):
        active = machine.with_active(lanes, value.ndim)
        block_access = BlockAccess(operation.location, target, kind, active, machine.numbers)
        _check_vectors(machine, operation, address, block_access)
        machine.memory.store(block_access, value)


def _check_vectors(
    machine: Machine, operation: Operation, address: Pointers | MixedPointers, access: BlockAccess
) -> None:
    """Check an access that a hint makes wider.  Of pointers into several arguments no hint is judged."""
    if not machine.vectors:
        return
    if isinstance(address, Pointers):
        machine.vectors.check(machine.memory, access, operation)
    if operation.name == "tt.store":
        machine.vectors.check_kept(access, operation)


def to_pointer(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`tt.int_to_ptr`: each address becomes a pointer into the tensor that contains it."""
    pointee = operation.result_types[0].pointee
    assert pointee is not None
    return machine.pointers_at(array(frame[operation.operands[0]]), pointee.bytes)


def to_integer(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.ptr_to_int`."""
    return addresses_of(machine.memory.arguments, pointers(frame[operation.operands[0]]))


HANDLERS: Mapping[str, Handler] = {
    "tt.addptr": add_pointer,
    "tt.int_to_ptr": to_pointer,
    "tt.load": load,
    "tt.ptr_to_int": to_integer,
    "tt.store": store,
}
