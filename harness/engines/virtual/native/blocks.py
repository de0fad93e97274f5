"""Operations that only rearrange elements: ranges, splats, broadcasts, axes, pairs.  Also program ids."""

from collections.abc import Callable, Mapping

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native.arith import RULES, constant, select
from harness.engines.virtual.native.lane_values import LaneValues, any_set, as_vector, lanewise, vector_type
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.lowering import CHEAP, CHEAP_INDEX, ZERO, Lower, Lowering, Value
from harness.engines.virtual.native.rounding import resized
from harness.engines.virtual.native.tiles import Index, Pointer, Scope, Tile, constant_tile
from harness.errors import CannotExecute

_AXES = {"x": 0, "y": 1, "z": 2}
Remap = Callable[[Index], Index]


def program_id(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.get_program_id`."""
    code, names = lowering.code, lowering.names
    x, y, _ = names.grid
    match operation.keywords[0]:
        case "x":
            result = code.value(f"srem i64 {names.program}, {x}")
        case "y":
            result = code.value(f"srem i64 {code.value(f'sdiv i64 {names.program}, {x}')}, {y}")
        case _:
            result = code.value(f"sdiv i64 {names.program}, {code.value(f'mul i64 {x}, {y}')}")
    return lowering.scalar_tile(LaneValues("i32", code.value(f"trunc i64 {result} to i32")), "i32")


def num_programs(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.get_num_programs`."""
    extent = lowering.names.grid[_AXES[operation.keywords[0]]]
    return lowering.scalar_tile(LaneValues("i32", lowering.code.value(f"trunc i64 {extent} to i32")), "i32")


def make_range(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.make_range`: a ramp."""
    del lowering
    start = int(operation.attributes["start"])  # type: ignore[arg-type]

    def lanes_at(scope: Scope, index: Index) -> LaneValues:
        narrow = (
            resized(scope.code, index[0], "i32")
            if index[0].name != "0"
            else LaneValues("i32", "0", index[0].width, index[0].step)
        )
        if not start:
            return narrow
        return LaneValues("i32", scope.code.value(f"add i32 {narrow.name}, {start}"), narrow.width, narrow.step)

    return Tile(operation.result_types[0].shape, "i32", lanes_at, 0)


def constant_block(lowering: Lowering, operation: Operation) -> Tile:
    """`arith.constant` with equal elements."""
    kind = operation.result_types[0]
    text = str(operation.attributes["value"])
    if not text.startswith("dense<["):
        lanes = constant(lowering.code, operation, [])
        return constant_tile(kind.shape, kind.element, lanes)
    raise CannotExecute("a dense constant in native code")


def remapped(index_of_operand: Callable[[Operation, Index], Index], *, grows: bool = False) -> Lower:
    """Return the lowering of an operation whose lanes are its operand's lanes at another index.

    With `grows`, an expensive operand is computed once into a buffer, since each of its lanes is used repeatedly.
    """

    def handle(lowering: Lowering, operation: Operation) -> Value:
        value = lowering.value(operation.operands[0])
        tile = value.index if isinstance(value, Pointer) else value
        if grows and tile.shape and tile.shape != operation.result_types[0].shape:
            is_integer = tile.element[0] in "ip"
            if tile.cost > (CHEAP_INDEX if is_integer else CHEAP):
                tile = lowering.buffered(tile).tile()

        def lanes_at(scope: Scope, index: Index) -> LaneValues:
            return scope.at(tile, index_of_operand(operation, index))

        result = Tile(operation.result_types[0].shape, tile.element, lanes_at, tile.cost)
        return Pointer(value.argument, value.element, result) if isinstance(value, Pointer) else result

    return handle


def _splat(operation: Operation, index: Index) -> Index:
    del index
    rank = len(operation.operand_types[0].shape)
    return (ZERO,) * rank


def _broadcast(operation: Operation, index: Index) -> Index:
    shape = operation.operand_types[0].shape
    return tuple(ZERO if extent == 1 else position for extent, position in zip(shape, index, strict=True))


def _expand(operation: Operation, index: Index) -> Index:
    axis = int(operation.attributes["axis"])  # type: ignore[arg-type]
    return index[:axis] + index[axis + 1 :]


def _transpose(operation: Operation, index: Index) -> Index:
    order = operation.attributes["order"]
    assert isinstance(order, tuple)
    result = [ZERO] * len(order)
    for axis, source in enumerate(order):
        result[source] = index[axis]
    return tuple(result)


def reshape(lowering: Lowering, operation: Operation) -> Value:
    """`tt.reshape`: a new index if only axes of length 1 change, otherwise a buffer read with other strides."""
    value = lowering.value(operation.operands[0])
    tile = value.index if isinstance(value, Pointer) else value
    source, target = tile.shape, operation.result_types[0].shape
    if [extent for extent in source if extent > 1] == [extent for extent in target if extent > 1]:

        def lanes_at(scope: Scope, index: Index) -> LaneValues:
            long = iter(position for position, extent in zip(index, target, strict=True) if extent > 1)
            return scope.at(tile, tuple(next(long) if extent > 1 else ZERO for extent in source))

        result = Tile(target, tile.element, lanes_at, tile.cost)
    else:
        result = lowering.buffered(tile).reshaped(target)
    return Pointer(value.argument, value.element, result) if isinstance(value, Pointer) else result


def add_pointer(lowering: Lowering, operation: Operation) -> Pointer:
    """`tt.addptr`: adds element numbers as i64."""
    base, offset = lowering.pointer(operation.operands[0]), lowering.tile(operation.operands[1])

    def lanes_at(scope: Scope, index: Index) -> LaneValues:
        position, offset_lanes = scope.at(base.index, index), scope.at(offset, index)
        return RULES["arith.addi"](scope.code, operation, [position, resized(scope.code, offset_lanes, "i64")])

    result = Tile(operation.result_types[0].shape, "ptr", lanes_at, 1 + base.index.cost + offset.cost)
    return Pointer(base.argument, base.element, result)


def select_block(lowering: Lowering, operation: Operation) -> Value:
    """`arith.select` of numbers, or of pointers into the same argument."""
    values = [lowering.value(slot) for slot in operation.operands]
    if all(isinstance(value, Tile) for value in values):
        return lowering.elementwise(operation)
    condition, left, right = values
    if not (isinstance(left, Pointer) and isinstance(right, Pointer) and isinstance(condition, Tile)):
        raise CannotExecute("a choice between a pointer and a number")
    if (left.argument, left.element) != (right.argument, right.element):
        raise CannotExecute("pointers into different arguments in native code")

    def lanes_at(scope: Scope, index: Index) -> LaneValues:
        vote = scope.at(condition, index if condition.shape else ())
        return select(scope.code, operation, [vote, scope.at(left.index, index), scope.at(right.index, index)])

    cost = 1 + condition.cost + left.index.cost + right.index.cost
    return Pointer(left.argument, left.element, Tile(operation.result_types[0].shape, "ptr", lanes_at, cost))


def bitcast(lowering: Lowering, operation: Operation) -> Value:
    """`tt.bitcast`; of pointers only if the elements keep their size."""
    value = lowering.value(operation.operands[0])
    if not isinstance(value, Pointer):
        return lowering.elementwise(operation)
    target = operation.result_types[0].pointee
    source = operation.operand_types[0].pointee
    if target is None or source is None or target.bytes != source.bytes:
        raise CannotExecute("pointers cast to elements of another size in native code")
    return Pointer(value.argument, target.element, value.index)


def join(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.join`: a new last axis of two."""
    left, right = (lowering.tile(slot) for slot in operation.operands)
    kind = operation.result_types[0]

    def lanes_at(scope: Scope, index: Index) -> LaneValues:
        last_index = index[-1]
        sides = [scope.at(tile, index[:-1]) for tile in (left, right)]
        if last_index.uniform:
            second = LaneValues("i1", scope.code.value(f"icmp ne i64 {last_index.name}, 0"))
        else:
            vector = as_vector(scope.code, last_index, last_index.width)
            second = LaneValues(
                "i1", scope.code.value(f"icmp ne <{last_index.width} x i64> {vector}, splat (i64 0)"), last_index.width
            )
        return select(scope.code, operation, [second, sides[1], sides[0]])

    return Tile(kind.shape, kind.element, lanes_at, 2 + left.cost + right.cost)


def split(lowering: Lowering, operation: Operation) -> list[Tile]:
    """`tt.split`: the reverse of join."""
    is_integer = lowering.buffered(lowering.tile(operation.operands[0])).tile()
    kind = operation.result_types[0]

    def half(side: str) -> Tile:
        last = LaneValues("i64", side)
        return Tile(kind.shape, kind.element, lambda scope, index: scope.at(is_integer, (*index, last)), CHEAP + 1)

    return [half("0"), half("1")]


def gather(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.gather`; an index out of range requests a bailout, for the machine gives such lanes another value."""
    axis = int(operation.attributes["axis"])  # type: ignore[arg-type]
    source = lowering.buffered(lowering.tile(operation.operands[0])).tile()
    where = lowering.tile(operation.operands[1])
    kind = operation.result_types[0]

    def lanes_at(scope: Scope, index: Index) -> LaneValues:
        code = scope.code
        inside = _checked_positions(code, resized(code, scope.at(where, index), "i64"), source.shape[axis])
        # One vector of addresses serves all lanes, so the other axes are vectors too, not ramps.
        others = (
            LaneValues("i64", as_vector(code, at, at.width), at.width) if inside.width and at.width else at
            for at in index
        )
        position = (inside if number == axis else at for number, at in enumerate(others))
        return scope.at(source, tuple(position))

    return Tile(kind.shape, kind.element, lanes_at, CHEAP + 1)


def _checked_positions(code: Assembly, positions: LaneValues, extent: int) -> LaneValues:
    """Return positions that lie in an axis; another one requests a bailout."""

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        vector, flags = vector_type(kind, width), vector_type("i1", width)
        most, first = (f"splat ({kind} {number})" if width else str(number) for number in (extent, 0))
        inside = code.value(f"icmp ult {vector} {names[0]}, {most}")
        all_set = "splat (i1 true)" if width else "true"
        outside = code.value(f"xor {flags} {inside}, {all_set}")
        code.request_bailout(any_set(code, outside, width) if width else outside)
        return code.value(f"select {flags} {inside}, {vector} {names[0]}, {vector} {first}")

    return lanewise(code, [positions], emit, "i64")


def no_effect(lowering: Lowering, operation: Operation) -> None:
    """Barriers, which have no effect on one program's values."""
    del lowering, operation


def assumption(lowering: Lowering, operation: Operation) -> None:
    """An assumption that is false requests a bailout: the machine reports it."""
    code = lowering.code
    held = lowering.scalar(operation.operands[0])
    code.request_bailout(code.value(f"xor i1 {held.name}, true"))
    code.bail_if_requested(lowering.names.bail)


HANDLERS: Mapping[str, Lower] = {
    "arith.constant": constant_block,
    "arith.select": select_block,
    "tt.get_program_id": program_id,
    "tt.get_num_programs": num_programs,
    "tt.make_range": make_range,
    "tt.splat": remapped(_splat),
    "tt.broadcast": remapped(_broadcast, grows=True),
    "tt.expand_dims": remapped(_expand),
    "tt.trans": remapped(_transpose),
    "tt.reshape": reshape,
    "tt.addptr": add_pointer,
    "tt.bitcast": bitcast,
    "tt.join": join,
    "tt.split": split,
    "tt.gather": gather,
    "gpu.barrier": no_effect,
    "ttg.barrier": no_effect,
    "llvm.intr.assume": assumption,
}
