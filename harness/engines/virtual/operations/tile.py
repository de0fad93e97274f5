"""Operations on blocks: ranges, shapes, reductions, scans.

Blocks stay un-broadcast: an axis along which all elements are equal has length 1.  Only operations that need every
element, such as reductions over such an axis, reshapes and products, broadcast it to its full length.
"""

from collections.abc import Callable, Mapping

import numpy as np
from packaging.version import Version

from harness.engines.triton.triton_seam import version
from harness.engines.ttir.ir import Operation, TtirRegion, Type
from harness.engines.virtual.machine import Handler, Machine, Value, Values, zeros
from harness.engines.virtual.memory.pointers import MixedPointers, Pointers
from harness.engines.virtual.numbers.elements import NARROW_FLOATS, Array, carrier
from harness.engines.virtual.operations.arith import array
from harness.engines.virtual.operations.memory import undefined_value

_DIRECT_REDUCTIONS = {
    "arith.addi": np.add,
    "arith.muli": np.multiply,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
"""Combine operations whose result does not depend on the order; other regions are reduced pair by pair."""


_BINS_BY_LOW_BITS = Version(version).release < (3, 8)
"""Up to Triton 3.7 a histogram takes the bin from the low bits of a number, from five of them at least.

-1 then counts in the last of 32 or more bins.  Since 3.8, numbers outside the bins are left out.
"""


def shape_change(reshape_part: Callable[[Array, Operation], Array]) -> Handler:
    """Return the handler of a change of shape, for numbers and for pointers alike."""

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value:
        del machine
        value = frame[operation.operands[0]]
        if isinstance(value, Pointers | MixedPointers):
            return value.mapped(lambda part: reshape_part(part, operation))
        return reshape_part(array(value), operation)

    return handle


def _axis(operation: Operation) -> int:
    """The operation's `axis` attribute, for arrays with a leading program axis."""
    return int(operation.attributes["axis"]) + 1  # type: ignore[arg-type]


def broadcast(values: Array, kind: Type) -> Array:
    """Broadcast a block to its full shape; the program axis stays as it is."""
    return np.broadcast_to(values, (values.shape[0], *kind.shape))


def program_id(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.get_program_id`."""
    del frame
    return machine.program_id(operation.keywords[0])


def num_programs(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.get_num_programs`."""
    del frame
    extents = {"x": machine.grid.x, "y": machine.grid.y, "z": machine.grid.z}
    return np.array([extents[operation.keywords[0]]], np.int32)


def make_range(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.make_range`."""
    del machine, frame
    start, end = int(operation.attributes["start"]), int(operation.attributes["end"])  # type: ignore[arg-type]
    return np.arange(start, end, dtype=np.int32)[None]


def _splat(value: Array, operation: Operation) -> Array:
    return value.reshape(value.shape[0], *(1,) * len(operation.result_types[0].shape))


def _unchanged(value: Array, operation: Operation) -> Array:
    del operation
    return value


def _expand(value: Array, operation: Operation) -> Array:
    return np.expand_dims(value, int(operation.attributes["axis"]) + 1)  # type: ignore[arg-type]


def _transpose(value: Array, operation: Operation) -> Array:
    order = operation.attributes["order"]
    assert isinstance(order, tuple)
    return value.transpose(0, *(axis + 1 for axis in order))


def _reshape(value: Array, operation: Operation) -> Array:
    whole = broadcast(value, operation.operand_types[0])
    return whole.reshape(whole.shape[0], *operation.result_types[0].shape)


# --- reductions and scans ---


def reduce(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """`tt.reduce` along one axis of one or several blocks."""
    axis = _axis(operation)
    blocks = _along(operation, frame, axis)
    direct = _direct(operation.regions[0], operation)
    if direct is not None:
        result = direct.reduce(blocks[0], axis=axis, dtype=blocks[0].dtype)
        return (result,)
    while blocks[0].shape[axis] > 1:
        blocks = _fold(machine, operation, frame, blocks, axis)
    return tuple(np.squeeze(block, axis) for block in blocks)


def _along(operation: Operation, frame: list[Value], axis: int) -> tuple[Array, ...]:
    """The operands, broadcast to full length along `axis` only."""
    blocks: list[Array] = []
    for slot, kind in zip(operation.operands, operation.operand_types, strict=True):
        value = array(frame[slot])
        shape = list(value.shape)
        shape[axis] = kind.shape[axis - 1]
        blocks.append(np.broadcast_to(value, tuple(shape)))
    return tuple(np.broadcast_arrays(*blocks)) if len(blocks) > 1 else tuple(blocks)


def _direct(region: TtirRegion, operation: Operation) -> np.ufunc | None:
    """NumPy's ufunc for a region that combines its two arguments in one operation without rounding; else None."""
    body = region.entry.operations
    element = operation.operand_types[0].element
    if len(operation.operands) != 1 or len(body) != 2 or element in NARROW_FLOATS or element == "i1":
        return None
    combine, last = body
    if set(combine.operands) != set(region.entry.arguments) or last.operands != combine.results:
        return None
    return _DIRECT_REDUCTIONS.get(combine.name)


def _fold(
    machine: Machine, operation: Operation, frame: list[Value], blocks: tuple[Array, ...], axis: int
) -> tuple[Array, ...]:
    """Combine neighbours pair by pair.  The order is kept: a combine need not be commutative."""
    length = blocks[0].shape[axis]
    even = tuple(_slice(block, axis, slice(0, length - length % 2, 2)) for block in blocks)
    odd = tuple(_slice(block, axis, slice(1, length, 2)) for block in blocks)
    result = tuple(array(value) for value in machine.run_region(operation.regions[0], frame, (*even, *odd)))
    if length % 2:
        rest = tuple(_slice(block, axis, slice(length - 1, length)) for block in blocks)
        result = tuple(np.concatenate((part, last), axis=axis) for part, last in zip(result, rest, strict=True))
    return result


def scan(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """`tt.scan`: inclusive, by doubling distances (Hillis and Steele); `reverse` scans from the end."""
    axis = _axis(operation)
    backwards = bool(operation.attributes.get("reverse", False))
    blocks = tuple(np.flip(block, axis) if backwards else block for block in _along(operation, frame, axis))
    length, distance = blocks[0].shape[axis], 1
    while distance < length:
        left = tuple(_slice(block, axis, slice(0, length - distance)) for block in blocks)
        right = tuple(_slice(block, axis, slice(distance, length)) for block in blocks)
        combined = tuple(array(value) for value in machine.run_region(operation.regions[0], frame, (*left, *right)))
        heads = tuple(_slice(block, axis, slice(0, distance)) for block in blocks)
        blocks = tuple(
            np.concatenate((head, np.broadcast_to(result, tail.shape)), axis=axis)
            for head, result, tail in zip(heads, combined, right, strict=True)
        )
        distance *= 2
    return tuple(np.flip(block, axis) if backwards else block for block in blocks)


def _slice(block: Array, axis: int, part: slice) -> Array:
    return block[(slice(None),) * axis + (part,)]


# --- pairs ---


def join(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.join`: a new last axis of two."""
    del machine
    left, right = (broadcast(array(frame[slot]), operation.operand_types[0]) for slot in operation.operands)
    return np.stack(np.broadcast_arrays(left, right), axis=-1)


def split(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """`tt.split`: the reverse of join."""
    del machine
    value = broadcast(array(frame[operation.operands[0]]), operation.operand_types[0])
    return value[..., 0], value[..., 1]


def concatenate(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.cat`: concatenates the operands along the first axis."""
    del machine
    left, right = (broadcast(array(frame[slot]), operation.operand_types[0]) for slot in operation.operands)
    shape = np.broadcast_shapes(left.shape, right.shape)
    return np.concatenate((np.broadcast_to(left, shape), np.broadcast_to(right, shape)), axis=1)


def gather(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.gather`: elements of the first operand by their index along one axis.

    On GPUs an index out of range reads another thread's element, or past the block's shared memory.  Such a lane holds
    the value of undefined lanes.
    """
    axis = _axis(operation)
    source, index = (
        broadcast(array(frame[slot]), kind)
        for slot, kind in zip(operation.operands, operation.operand_types, strict=True)
    )
    programs = max(len(source), len(index))
    source = np.broadcast_to(source, (programs, *source.shape[1:]))
    index = np.broadcast_to(index, (programs, *index.shape[1:]))
    last = source.shape[axis] - 1
    taken = np.take_along_axis(source, np.clip(index, 0, last), axis)
    return np.where((index >= 0) & (index <= last), taken, undefined_value(machine, operation.result_types[0]))


def histogram(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.histogram`: counts of the numbers below the result's length, with an optional mask."""
    del machine
    kind = operation.operand_types[0]
    values = broadcast(array(frame[operation.operands[0]]), kind)
    (bins,) = operation.result_types[0].shape
    if _BINS_BY_LOW_BITS:
        values = values.astype(np.int64) & max(bins, 32) - 1  # five low bits at least
    counted = (values >= 0) & (values < bins)
    if len(operation.operands) > 1:
        counted = counted & broadcast(array(frame[operation.operands[1]]), kind)
    program, lane = np.nonzero(counted)
    values = np.broadcast_to(values, counted.shape)
    result = np.zeros((len(counted), bins), carrier(operation.result_types[0].element))
    np.add.at(result, (program, values[program, lane]), 1)
    return result


def unsplat(machine: Machine, operation: Operation, frame: list[Value]) -> Array:
    """`tt.unsplat`: the only element of a block."""
    del machine
    value = array(frame[operation.operands[0]])
    return value.reshape(value.shape[0])


def poison(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """`ub.poison`: an undefined value, zero here."""
    del machine, frame
    return tuple(zeros(kind) for kind in operation.result_types)


def map_elementwise(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """`tt.map_elementwise`: a function of scalars; every `pack` neighbouring elements run as a program of their own."""
    pack = int(operation.attributes.get("pack", 1))  # type: ignore[arg-type]
    shape = (machine.width, *operation.operand_types[0].shape)
    arguments: list[Array] = []
    for slot, kind in zip(operation.operands, operation.operand_types, strict=True):
        lanes = np.broadcast_to(broadcast(array(frame[slot]), kind), shape).reshape(-1, pack)
        arguments += [lanes[:, at] for at in range(pack)]
    with machine.lanes_as_programs(len(arguments[0]) // machine.width):
        runs = machine.width
        result = machine.run_region(operation.regions[0], frame, arguments)
    columns = [np.broadcast_to(array(value), (runs,)) for value in result]
    return tuple(
        np.stack(columns[first : first + pack], axis=-1).reshape(shape) for first in range(0, len(columns), pack)
    )


HANDLERS: Mapping[str, Handler] = {
    "tt.get_program_id": program_id,
    "tt.get_num_programs": num_programs,
    "tt.make_range": make_range,
    "tt.splat": shape_change(_splat),
    "tt.broadcast": shape_change(_unchanged),
    "tt.expand_dims": shape_change(_expand),
    "tt.reshape": shape_change(_reshape),
    "tt.trans": shape_change(_transpose),
    "tt.reduce": reduce,
    "tt.scan": scan,
    "tt.join": join,
    "tt.split": split,
    "tt.cat": concatenate,
    "tt.gather": gather,
    "tt.histogram": histogram,
    "tt.unsplat": unsplat,
    "tt.map_elementwise": map_elementwise,
    "ub.poison": poison,
}
