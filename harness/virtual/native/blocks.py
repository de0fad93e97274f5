"""Operations that only say where elements stand: ranges, splats, broadcasts, axes, pairs; and program ids."""

from collections.abc import Callable, Mapping

from harness.errors import CannotExecute
from harness.virtual.native.arith import RULES, constant, select
from harness.virtual.native.lane_values import LaneValues, as_vector
from harness.virtual.native.lowering import CHEAP, CHEAP_INDEX, ZERO, Lower, Lowering, Value
from harness.virtual.native.rounding import resized
from harness.virtual.native.tiles import Index, Pointer, Scope, Tile, constant_tile
from harness.virtual.ttir.ir import Operation

_AXES = {"x": 0, "y": 1, "z": 2}
Remap = Callable[[Index], Index]


def program_id(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.get_program_id`."""
    code, names = lowering.code, lowering.names
    x, y, _ = names.grid
    match operation.words[0]:
        case "x":
            made = code.value(f"srem i64 {names.program}, {x}")
        case "y":
            made = code.value(f"srem i64 {code.value(f'sdiv i64 {names.program}, {x}')}, {y}")
        case _:
            made = code.value(f"sdiv i64 {names.program}, {code.value(f'mul i64 {x}, {y}')}")
    return lowering.known(LaneValues("i32", code.value(f"trunc i64 {made} to i32")), "i32")


def num_programs(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.get_num_programs`."""
    extent = lowering.names.grid[_AXES[operation.words[0]]]
    return lowering.known(LaneValues("i32", lowering.code.value(f"trunc i64 {extent} to i32")), "i32")


def make_range(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.make_range`: a ramp."""
    del lowering
    start = int(operation.attributes["start"])  # type: ignore[arg-type]

    def recipe(scope: Scope, index: Index) -> LaneValues:
        narrow = (
            resized(scope.code, index[0], "i32")
            if index[0].name != "0"
            else LaneValues("i32", "0", index[0].width, index[0].step)
        )
        if not start:
            return narrow
        return LaneValues("i32", scope.code.value(f"add i32 {narrow.name}, {start}"), narrow.width, narrow.step)

    return Tile(operation.result_types[0].shape, "i32", recipe, 0)


def dense(lowering: Lowering, operation: Operation) -> Tile:
    """`arith.constant`: a number for all lanes, or the elements of a small block one by one."""
    kind = operation.result_types[0]
    text = str(operation.attributes["value"])
    if not text.startswith("dense<["):
        lanes = constant(lowering.code, operation, [])
        return constant_tile(kind.shape, kind.element, lanes)
    raise CannotExecute("a dense constant in native code")


def remapped(change: Callable[[Operation, Index], Index], *, grows: bool = False) -> Lower:
    """An operation whose lanes are its operand's at another index."""

    def handle(lowering: Lowering, operation: Operation) -> Value:
        value = lowering.value(operation.operands[0])
        tile = value.index if isinstance(value, Pointer) else value
        if grows and tile.shape and tile.shape != operation.result_types[0].shape:
            whole = tile.element[0] in "ip"
            if tile.cost > (CHEAP_INDEX if whole else CHEAP):
                tile = lowering.buffered(tile).tile()

        def recipe(scope: Scope, index: Index) -> LaneValues:
            return scope.at(tile, change(operation, index))

        made = Tile(operation.result_types[0].shape, tile.element, recipe, tile.cost)
        return Pointer(value.argument, value.element, made) if isinstance(value, Pointer) else made

    return handle


def _splat(operation: Operation, index: Index) -> Index:
    del index
    rank = len(operation.operand_types[0].shape)
    return (ZERO,) * rank


def _broadcast(operation: Operation, index: Index) -> Index:
    shape = operation.operand_types[0].shape
    return tuple(ZERO if extent == 1 else at for extent, at in zip(shape, index, strict=True))


def _expand(operation: Operation, index: Index) -> Index:
    axis = int(operation.attributes["axis"])  # type: ignore[arg-type]
    return index[:axis] + index[axis + 1 :]


def _transpose(operation: Operation, index: Index) -> Index:
    order = operation.attributes["order"]
    assert isinstance(order, tuple)
    made = [ZERO] * len(order)
    for axis, source in enumerate(order):
        made[source] = index[axis]
    return tuple(made)


def reshape(lowering: Lowering, operation: Operation) -> Value:
    """`tt.reshape`: the same elements in the same order; axes of length one come and go without any move."""
    value = lowering.value(operation.operands[0])
    tile = value.index if isinstance(value, Pointer) else value
    had, wanted = tile.shape, operation.result_types[0].shape
    if [extent for extent in had if extent > 1] == [extent for extent in wanted if extent > 1]:

        def recipe(scope: Scope, index: Index) -> LaneValues:
            long = iter(at for at, extent in zip(index, wanted, strict=True) if extent > 1)
            return scope.at(tile, tuple(next(long) if extent > 1 else ZERO for extent in had))

        made = Tile(wanted, tile.element, recipe, tile.cost)
    else:
        made = lowering.buffered(tile).reshaped(wanted)
    return Pointer(value.argument, value.element, made) if isinstance(value, Pointer) else made


def add_pointer(lowering: Lowering, operation: Operation) -> Pointer:
    """`tt.addptr`: element numbers are added up as i64."""
    base, offset = lowering.pointer(operation.operands[0]), lowering.tile(operation.operands[1])

    def recipe(scope: Scope, index: Index) -> LaneValues:
        at, by = scope.at(base.index, index), scope.at(offset, index)
        return RULES["arith.addi"](scope.code, operation, [at, resized(scope.code, by, "i64")])

    made = Tile(operation.result_types[0].shape, "ptr", recipe, 1 + base.index.cost + offset.cost)
    return Pointer(base.argument, base.element, made)


def choose(lowering: Lowering, operation: Operation) -> Value:
    """`arith.select`, of numbers or of pointers into one argument."""
    values = [lowering.value(slot) for slot in operation.operands]
    if all(isinstance(value, Tile) for value in values):
        return lowering.elementwise(operation)
    condition, left, right = values
    if not (isinstance(left, Pointer) and isinstance(right, Pointer) and isinstance(condition, Tile)):
        raise CannotExecute("a choice between a pointer and a number")
    if (left.argument, left.element) != (right.argument, right.element):
        raise CannotExecute("pointers into different arguments in native code")

    def recipe(scope: Scope, index: Index) -> LaneValues:
        vote = scope.at(condition, index if condition.shape else ())
        return select(scope.code, operation, [vote, scope.at(left.index, index), scope.at(right.index, index)])

    cost = 1 + condition.cost + left.index.cost + right.index.cost
    return Pointer(left.argument, left.element, Tile(operation.result_types[0].shape, "ptr", recipe, cost))


def cast(lowering: Lowering, operation: Operation) -> Value:
    """`tt.bitcast`: of pointers only where the elements keep their size."""
    value = lowering.value(operation.operands[0])
    if not isinstance(value, Pointer):
        return lowering.elementwise(operation)
    wanted = operation.result_types[0].pointee
    had = operation.operand_types[0].pointee
    if wanted is None or had is None or wanted.bytes != had.bytes:
        raise CannotExecute("pointers cast to elements of another size in native code")
    return Pointer(value.argument, wanted.element, value.index)


def join(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.join`: a new last axis of two."""
    left, right = (lowering.tile(slot) for slot in operation.operands)
    kind = operation.result_types[0]

    def recipe(scope: Scope, index: Index) -> LaneValues:
        which = index[-1]
        ways = [scope.at(tile, index[:-1]) for tile in (left, right)]
        if which.uniform:
            second = LaneValues("i1", scope.code.value(f"icmp ne i64 {which.name}, 0"))
        else:
            vector = as_vector(scope.code, which, which.width)
            second = LaneValues(
                "i1", scope.code.value(f"icmp ne <{which.width} x i64> {vector}, splat (i64 0)"), which.width
            )
        return select(scope.code, operation, [second, ways[1], ways[0]])

    return Tile(kind.shape, kind.element, recipe, 2 + left.cost + right.cost)


def split(lowering: Lowering, operation: Operation) -> list[Tile]:
    """`tt.split`: the reverse of join."""
    whole = lowering.buffered(lowering.tile(operation.operands[0])).tile()
    kind = operation.result_types[0]

    def half(which: str) -> Tile:
        last = LaneValues("i64", which)
        return Tile(kind.shape, kind.element, lambda scope, index: scope.at(whole, (*index, last)), CHEAP + 1)

    return [half("0"), half("1")]


def nothing(lowering: Lowering, operation: Operation) -> None:
    """Barriers and assumptions."""
    del lowering, operation


HANDLERS: Mapping[str, Lower] = {
    "arith.constant": dense,
    "arith.select": choose,
    "tt.get_program_id": program_id,
    "tt.get_num_programs": num_programs,
    "tt.make_range": make_range,
    "tt.splat": remapped(_splat),
    "tt.broadcast": remapped(_broadcast, grows=True),
    "tt.expand_dims": remapped(_expand),
    "tt.trans": remapped(_transpose),
    "tt.reshape": reshape,
    "tt.addptr": add_pointer,
    "tt.bitcast": cast,
    "tt.join": join,
    "tt.split": split,
    "gpu.barrier": nothing,
    "ttg.barrier": nothing,
    "llvm.intr.assume": nothing,
}
