"""Operations of Gluon's dialect on layouts and on shared memory.

Programs are executed with one value for each block, one operation after the other.  So a change of layout changes
nothing, and shared memory needs no barrier here: a missing one shows only to the check of threads.
"""

from collections.abc import Callable, Mapping

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.memory.shared_blocks import SharedBlock
from harness.engines.virtual.numbers.elements import Array, carrier
from harness.engines.virtual.operations.arith import array
from harness.errors import CannotExecute


def same(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
    """`ttg.convert_layout`, and other operations that move elements without changing the block."""
    del machine
    return frame[operation.operands[0]]


def allocate(machine: Machine, operation: Operation, frame: list[Value]) -> SharedBlock:
    """`ttg.local_alloc`, with or without a first value."""
    kind = operation.result_types[0].pointee
    assert kind is not None
    block = SharedBlock.fresh(machine.width, kind.shape, carrier(kind.element))
    if operation.operands:
        block.values[...] = array(frame[operation.operands[0]])
    return block


def load(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`ttg.local_load`."""
    del machine
    return _block(frame[operation.operands[0]]).values.copy()


def store(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`ttg.local_store`, by the programs that execute it."""
    values, block = array(frame[operation.operands[0]]), _block(frame[operation.operands[1]])
    mask = machine.with_active(None, block.values.ndim)
    np.copyto(block.values, values, where=True if mask is None else mask)


def index(machine: Machine, operation: Operation, frame: list[Value]) -> SharedBlock:
    """`ttg.memdesc_index`: one of several buffers, by the first axis."""
    block, which = _block(frame[operation.operands[0]]), array(frame[operation.operands[1]])
    numbers = np.unique(which if machine.active is None else np.broadcast_to(which, (machine.width,))[machine.active])
    if len(numbers) != 1:
        raise CannotExecute("an index of a shared buffer that differs between programs")
    if not 0 <= numbers[0] < block.values.shape[1]:
        raise CannotExecute(f"buffer {numbers[0]} of {block.values.shape[1]} shared buffers")
    return SharedBlock(block.values[:, numbers[0]])


def changed(change: Callable[[Array, Operation], Array]) -> Handler:
    """Return the handler of another view of shared memory."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> SharedBlock:
        del machine
        return SharedBlock(change(_block(frame[operation.operands[0]]).values, operation))

    return handle


def _transposed(values: Array, operation: Operation) -> Array:
    order = operation.attributes["order"]
    assert isinstance(order, tuple | list)
    return values.transpose(0, *(int(axis) + 1 for axis in order))


def nothing(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`ttg.local_dealloc`: memory is freed by itself."""
    del machine, operation, frame


def _block(value: Value) -> SharedBlock:
    if not isinstance(value, SharedBlock):
        raise CannotExecute("a value where shared memory is expected")
    return value


HANDLERS: Mapping[str, Handler] = {
    "ttg.convert_layout": same,
    "ttg.local_alloc": allocate,
    "ttg.local_dealloc": nothing,
    "ttg.local_load": load,
    "ttg.local_store": store,
    "ttg.memdesc_index": index,
    "ttg.memdesc_trans": changed(_transposed),
}
