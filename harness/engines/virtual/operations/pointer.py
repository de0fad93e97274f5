"""Casts between pointers and integers: `tt.int_to_ptr` and `tt.ptr_to_int`."""

from collections.abc import Mapping

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.memory.addresses import addresses_of
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.memory import pointers


def to_pointer(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`tt.int_to_ptr`: each address becomes a pointer into the tensor that contains it."""
    pointee = operation.result_types[0].pointee
    assert pointee is not None
    return machine.pointers_at(array(frame[operation.operands[0]]), pointee.bytes)


def to_integer(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.ptr_to_int`."""
    return addresses_of(machine.memory.arguments, pointers(frame[operation.operands[0]]))


HANDLERS: Mapping[str, Handler] = {"tt.int_to_ptr": to_pointer, "tt.ptr_to_int": to_integer}
