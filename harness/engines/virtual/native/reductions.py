"""Reductions and scans in the machine's order, which decides rounding: pair by pair, and by doubling distances."""

from collections.abc import Callable, Mapping

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native.arith import RULES
from harness.engines.virtual.native.lane_values import LaneValues, as_vector, vector_type
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.lowering import Lower, Lowering
from harness.engines.virtual.native.tiles import ArenaBuffer, Index, Scope, Tile, new_buffer
from harness.errors import CannotExecute

Lanes = list[LaneValues]
Combine = Callable[[Scope, Lanes, Lanes], Lanes]


def combine_of(lowering: Lowering, operation: Operation) -> Combine:
    """Return the operation's combine region as a function on lanes."""
    block = operation.regions[0].entry
    if len(operation.regions[0].blocks) > 1:
        raise CannotExecute("branches in a combine region in native code")
    for inner in block.operations[:-1]:
        if inner.name not in RULES:
            raise CannotExecute(f"{inner.name} in a combine region in native code")

    def combine(scope: Scope, left: Lanes, right: Lanes) -> Lanes:
        held = dict(zip(block.arguments, (*left, *right), strict=True))

        def lanes(slot: int) -> LaneValues:
            return held[slot] if slot in held else scope.at(lowering.tile(slot), ())

        for inner in block.operations[:-1]:
            (result,) = inner.results
            held[result] = RULES[inner.name](scope.code, inner, [lanes(slot) for slot in inner.operands])
        return [lanes(slot) for slot in block.operations[-1].operands]

    return combine


def reduce(lowering: Lowering, operation: Operation) -> list[Tile]:
    """`tt.reduce` along one axis of one or several blocks."""
    axis = int(operation.attributes["axis"])  # type: ignore[arg-type]
    tiles = [lowering.tile(slot) for slot in operation.operands]
    combine = combine_of(lowering, operation)
    shape = tiles[0].shape
    while shape[axis] > 1:
        long_axes = [at for at, extent in enumerate(shape) if extent > 1]
        if shape[axis] % 2:
            raise CannotExecute("a reduction of an odd length in native code")
        if axis != long_axes[-1]:
            tiles = _pairs_of_rows(lowering, tiles, axis, combine)
        elif shape[axis] > lowering.target.width:
            tiles = _pairs_in_rows(lowering, tiles, axis, combine)
        else:
            tiles = _last_pairs(lowering, tiles, axis, combine)
        shape = tiles[0].shape
    return [_squeezed(lowering, tile, axis) for tile in tiles]


def _squeezed(lowering: Lowering, tile: Tile, axis: int) -> Tile:
    """The tile without an axis of length 1."""
    shape = tile.shape[:axis] + tile.shape[axis + 1 :]
    result = lowering.buffered(tile).reshaped(shape)
    return lowering.materialize_if_costly(result) if not shape else result


def _buffers(lowering: Lowering, tiles: list[Tile], shape: tuple[int, ...], pad: int = 0) -> list[ArenaBuffer]:
    return [new_buffer(lowering.arena, shape, tile.element, pad=pad) for tile in tiles]


def _halved(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


def _replace_position(index: Index, axis: int, position: LaneValues) -> Index:
    return (*index[:axis], position, *index[axis + 1 :])


def _doubled(code: Assembly, position: LaneValues, offset: int) -> LaneValues:
    doubled = code.value(f"mul i64 {position.name}, 2")
    return LaneValues("i64", code.value(f"add i64 {doubled}, {offset}"), position.width, position.step)


def _pairs_of_rows(lowering: Lowering, tiles: list[Tile], axis: int, combine: Combine) -> list[Tile]:
    """One reduction step along an axis other than the vector axis."""
    shape = _halved(tiles[0].shape, axis)
    result = _buffers(lowering, tiles, shape)

    def body(index: Index) -> None:
        scope = Scope(lowering.code)
        even, odd = (_replace_position(index, axis, _doubled(scope.code, index[axis], offset)) for offset in (0, 1))
        sides = [[scope.at(tile, position) for tile in tiles] for position in (even, odd)]
        for buffer, lanes in zip(result, combine(scope, *sides), strict=True):
            buffer.write(scope.code, index, lanes)

    lowering.loop_over(shape, body)
    return [buffer.tile() for buffer in result]


def _pairs_in_rows(lowering: Lowering, tiles: list[Tile], axis: int, combine: Combine) -> list[Tile]:
    """One reduction step along the vector axis: combines the even and odd lanes of two vectors into one vector."""
    shape = _halved(tiles[0].shape, axis)
    result = _buffers(lowering, tiles, shape)
    width = min(lowering.target.width, shape[axis])

    def body(index: Index) -> None:
        scope = Scope(lowering.code)
        begin = _doubled(scope.code, index[axis], 0)
        pairs: list[tuple[LaneValues, LaneValues]] = []
        for tile in tiles:
            vectors: list[str] = []
            for offset in (0, width):
                lanes = scope.at(tile, _replace_position(index, axis, lowering.advanced(begin, offset)))
                vectors.append(as_vector(scope.code, lanes, width))
                kind = lanes.kind
            pairs.append(_every_other(scope.code, kind, vectors, width))
        sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        for buffer, lanes in zip(result, combine(scope, *sides), strict=True):
            buffer.write(scope.code, index, lanes)

    lowering.loop_over(shape, body)
    return [buffer.tile() for buffer in result]


def _every_other(code: Assembly, kind: str, vectors: list[str], width: int) -> tuple[LaneValues, LaneValues]:
    """The even and the odd lanes of two consecutive vectors."""
    vector = vector_type(kind, width)

    def pick(first: int) -> LaneValues:
        lanes = ", ".join(f"i32 {first + 2 * lane}" for lane in range(width))
        picked = f"shufflevector {vector} {vectors[0]}, {vector} {vectors[1]}, <{width} x i32> <{lanes}>"
        return LaneValues(kind, code.value(picked), width)

    return pick(0), pick(1)


def _last_pairs(lowering: Lowering, tiles: list[Tile], axis: int, combine: Combine) -> list[Tile]:
    """All remaining steps of a row that fits one vector, in registers."""
    before = tiles[0].shape
    shape = (*before[:axis], 1, *before[axis + 1 :])
    result = _buffers(lowering, tiles, shape)

    def body(index: Index) -> None:
        scope = Scope(lowering.code)
        width = before[axis]
        row = _replace_position(index, axis, LaneValues("i64", "0", width, 1))
        held = [scope.at(tile, row) for tile in tiles]
        held = [LaneValues(lanes.kind, as_vector(scope.code, lanes, width), width) for lanes in held]
        while width > 1:
            sides = [[_half(scope.code, lanes, side) for lanes in held] for side in (0, 1)]
            width //= 2
            combined = combine(scope, *sides)
            held = [LaneValues(lanes.kind, as_vector(scope.code, lanes, width), width) for lanes in combined]
        for buffer, lanes in zip(result, held, strict=True):
            scalar = scope.code.value(f"extractelement {vector_type(lanes.kind, 1)} {lanes.name}, i64 0")
            buffer.write(scope.code, index, LaneValues(lanes.kind, scalar))

    lowering.loop_over(shape, body, vectors=False)
    return [buffer.tile() for buffer in result]


def _half(code: Assembly, lanes: LaneValues, side: int) -> LaneValues:
    """The even (0) or odd (1) lanes of one vector."""
    half = lanes.width // 2
    picked = ", ".join(f"i32 {side + 2 * lane}" for lane in range(half))
    vector = vector_type(lanes.kind, lanes.width)
    name = code.value(f"shufflevector {vector} {lanes.name}, {vector} poison, <{half} x i32> <{picked}>")
    return LaneValues(lanes.kind, name, half)


def scan(lowering: Lowering, operation: Operation) -> list[Tile]:
    """`tt.scan`: inclusive; `reverse` scans from the end."""
    axis = int(operation.attributes["axis"])  # type: ignore[arg-type]
    backwards = bool(operation.attributes.get("reverse", False))
    combine = combine_of(lowering, operation)
    tiles = [lowering.tile(slot) for slot in operation.operands]
    shape, pad = tiles[0].shape, lowering.target.width
    held = _buffers(lowering, tiles, shape, pad)
    for buffer, tile in zip(held, tiles, strict=True):
        lowering.fill(buffer, tile)
    distance = 1
    while distance < shape[axis]:
        following = _buffers(lowering, tiles, shape, pad)
        _scan_step(lowering, (held, following), axis, -distance if not backwards else distance, combine)
        held = following
        distance *= 2
    return [buffer.tile() for buffer in held]


def _scan_step(
    lowering: Lowering, buffers: tuple[list[ArenaBuffer], list[ArenaBuffer]], axis: int, distance: int, combine: Combine
) -> None:
    """Combine each element with the one at `distance`; elements without one are copied."""
    held, following = buffers
    shape = held[0].shape
    length = shape[axis]
    code = lowering.code

    def body(index: Index) -> None:
        scope = Scope(code)
        at = index[axis]
        own = [scope.at(tile, index) for tile in tiles]
        if at.uniform:
            low, high = (-distance, length) if distance < 0 else (0, length - distance)
            inside = _between(code, at.name, low, high)
            clamped = code.value(f"select i1 {inside}, i64 {lowering.advanced(at, distance).name}, i64 {at.name}")
            has_partner = LaneValues("i1", inside)
            position = LaneValues("i64", clamped)
        else:
            position, has_partner = _shifted(lowering, at, distance, length)
        neighbours = [scope.at(tile, _replace_position(index, axis, position)) for tile in tiles]
        combined = combine(scope, neighbours, own)
        for buffer, own_lanes, combined_lanes in zip(following, own, combined, strict=True):
            buffer.write(code, index, _select(code, has_partner, combined_lanes, own_lanes))

    tiles = [buffer.tile() for buffer in held]
    lowering.loop_over(shape, body)


def _between(code: Assembly, name: str, low: int, high: int) -> str:
    above = code.value(f"icmp sge i64 {name}, {low}")
    return code.value(f"and i1 {above}, {code.value(f'icmp slt i64 {name}, {high}')}")


def _shifted(lowering: Lowering, at: LaneValues, distance: int, length: int) -> tuple[LaneValues, LaneValues]:
    """The positions of the lanes' partners, and the mask of lanes that have one.

    Lanes without a partner get a position that is safe to read.
    """
    code, width = lowering.code, at.width
    numbers = as_vector(code, at, width)
    low, high = (-distance, length) if distance < 0 else (0, length - distance)
    above = code.value(f"icmp sge <{width} x i64> {numbers}, splat (i64 {low})")
    below = code.value(f"icmp slt <{width} x i64> {numbers}, splat (i64 {high})")
    has_partner = LaneValues("i1", code.value(f"and <{width} x i1> {above}, {below}"), width)
    if abs(distance) < width:
        return lowering.advanced(at, distance), has_partner  # the buffer is padded by one vector on both sides
    inside = _between(code, at.name, low, high)  # powers of two: all lanes have a partner, or none
    first = code.value(f"select i1 {inside}, i64 {lowering.advanced(at, distance).name}, i64 {at.name}")
    return LaneValues("i64", first, width, at.step), has_partner


def _select(code: Assembly, condition: LaneValues, left: LaneValues, right: LaneValues) -> LaneValues:
    width = max(condition.width, left.width, right.width)
    if not width:
        return LaneValues(
            left.kind,
            code.value(f"select i1 {condition.name}, {left.kind} {left.name}, {left.kind} {right.name}"),
        )
    vector = vector_type(left.kind, width)
    votes = f"i1 {condition.name}" if condition.uniform else f"{vector_type('i1', width)} {condition.name}"
    sides = [as_vector(code, lanes, width) for lanes in (left, right)]
    return LaneValues(left.kind, code.value(f"select {votes}, {vector} {sides[0]}, {vector} {sides[1]}"), width)


HANDLERS: Mapping[str, Lower] = {"tt.reduce": reduce, "tt.scan": scan}
