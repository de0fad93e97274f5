"""`tt.dot`: float64 products and sums, a block of the result in registers, rounded once at the end.

Products of float32 are exact in float64, so a fused multiply-add is the same as a product and a sum.
"""

from collections.abc import Mapping

from harness.errors import CannotExecute
from harness.virtual.native.lane_values import LaneValues, of, splat, spread, suffix
from harness.virtual.native.llvm_text import Assembly, plus, times
from harness.virtual.native.lowering import Lower, Lowering
from harness.virtual.native.rounding import resized, rounded
from harness.virtual.native.tiles import ArenaBuffer, Index, Scope, Tile, new_buffer
from harness.virtual.ttir.ir import Operation

ROWS = 4
"""Rows of a block that is held in registers."""
_FLOATS = frozenset({"f32", "f16", "bf16", "f64"})


def dot(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.dot` of floats, rank two."""
    left, right, addend = (lowering.tile(slot) for slot in operation.operands)
    kinds = operation.operand_types
    result = operation.result_types[0]
    if not {kinds[0].element, kinds[1].element, result.element} <= _FLOATS or len(result.shape) != 2:
        raise CannotExecute("a dot of these types in native code")
    precision = str(operation.attributes.get("inputPrecision", "ieee"))
    narrow = kinds[0].element == "f32" and precision == "tf32"
    if kinds[0].element == "f32" and not narrow and precision != "ieee":
        raise CannotExecute(f"input precision {precision}")
    packed = [_packed(lowering, tile, narrow=narrow) for tile in (left, right)]
    made = new_buffer(lowering.arena, result.shape, result.element)
    _blocks(lowering, packed, (addend, made), result.element)
    return made.tile()


def _packed(lowering: Lowering, tile: Tile, *, narrow: bool) -> ArenaBuffer:
    """The operand in float64, row by row."""
    buffer = new_buffer(lowering.arena, tile.shape, "f64")

    def body(index: Index) -> None:
        lanes = Scope(lowering.code).at(tile, index)
        if narrow:
            lanes = spread(lowering.code, [lanes], _tf32, "float")
        buffer.write(lowering.code, index, resized(lowering.code, lanes, "double"))

    lowering.nest(tile.shape, body)
    return buffer


def _blocks(lowering: Lowering, packed: list[ArenaBuffer], ends: tuple[Tile, ArenaBuffer], element: str) -> None:
    """Every block of rows and columns of the result."""
    addend, made = ends
    (rows, inner), (_, columns) = packed[0].shape, packed[1].shape
    code = lowering.code
    tall = min(ROWS if lowering.target.width >= 16 else ROWS // 2, rows)
    wide = min(2 * lowering.target.width, columns)
    piece = min(lowering.target.width, wide)
    with code.loop(rows // tall) as row, code.loop(columns // wide) as column:
        first_row, first_column = times(code, row, tall), times(code, column, wide)
        block = _Block(lowering, packed, inner, (tall, wide))
        sums = block.sums(first_row, first_column)
        for at, total in enumerate(sums):
            row_number = LaneValues("i64", plus(code, first_row, str(at)))
            for part in range(0, wide, piece):
                lanes = LaneValues("double", _part(code, total, wide, part, piece), piece)
                index = (row_number, LaneValues("i64", plus(code, first_column, str(part)), piece, 1))
                if piece == 1:
                    index = (row_number, LaneValues("i64", index[1].name))
                    lanes = LaneValues("double", code.value(f"extractelement <1 x double> {lanes.name}, i64 0"))
                scope = Scope(code)
                more = resized(code, scope.at(addend, index), "double")
                total_lanes = spread(code, [lanes, more], _add, "double")
                kind = "double" if element == "f64" else "float"
                made.write(code, index, rounded(code, resized(code, total_lanes, kind), element))


class _Block:
    """The sums of a few rows and some neighbouring columns, kept in registers while the inner axis runs."""

    def __init__(self, lowering: Lowering, packed: list[ArenaBuffer], inner: int, extents: tuple[int, int]) -> None:
        self.code = lowering.code
        self.has_fma = lowering.target.has_fma and all(buffer.element == "f64" for buffer in packed)
        self.left, self.right = packed
        self.inner = inner
        self.tall, self.wide = extents
        self.columns = packed[1].shape[1]

    def sums(self, first_row: str, first_column: str) -> list[str]:
        """The names of the rows' sums, vectors of float64."""
        code, vector = self.code, of("double", self.wide)
        begins = self.left.address(code), self.right.address(code)
        slots = [code.slot(vector) for _ in range(self.tall)]
        for slot in slots:
            code.do(f"store {vector} zeroinitializer, ptr {slot}")
        with code.loop(self.inner) as at:
            column = plus(code, times(code, at, self.columns), first_column)
            where = code.value(f"getelementptr double, ptr {begins[1]}, i64 {column}")
            other = code.value(f"load {vector}, ptr {where}, align 8")
            for row, slot in enumerate(slots):
                number = plus(code, times(code, plus(code, first_row, str(row)), self.inner), at)
                place = code.value(f"getelementptr double, ptr {begins[0]}, i64 {number}")
                one = splat(code, "double", code.value(f"load double, ptr {place}, align 8"), self.wide)
                held = code.value(f"load {vector}, ptr {slot}")
                code.do(f"store {vector} {self._step(one, other, held)}, ptr {slot}")
        return [code.value(f"load {vector}, ptr {slot}") for slot in slots]

    def _step(self, left: str, right: str, held: str) -> str:
        code, vector = self.code, of("double", self.wide)
        if self.has_fma:
            name = f"llvm.fma.{suffix('double', self.wide)}"
            return code.call(vector, name, (vector, left), (vector, right), (vector, held))
        product = code.value(f"fmul {vector} {left}, {right}")
        return code.value(f"fadd {vector} {held}, {product}")


def _part(code: Assembly, vector: str, wide: int, first: int, width: int) -> str:
    if width == wide:
        return vector
    lanes = ", ".join(f"i32 {first + lane}" for lane in range(width))
    whole = of("double", wide)
    return code.value(f"shufflevector {whole} {vector}, {whole} poison, <{width} x i32> <{lanes}>")


def _add(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    return code.value(f"fadd {of(kind, width)} {', '.join(names)}")


def _tf32(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    """Ten mantissa bits, toward zero; a NaN stays as it is."""
    bits, own = of("i32", width), of(kind, width)
    whole = code.value(f"bitcast {own} {names[0]} to {bits}")
    kept = code.value(f"and {bits} {whole}, {_all(-8192, width)}")
    cut = code.value(f"bitcast {bits} {kept} to {own}")
    nan = code.value(f"fcmp uno {own} {names[0]}, {names[0]}")
    return code.value(f"select {of('i1', width)} {nan}, {own} {names[0]}, {own} {cut}")


def _all(number: int, width: int) -> str:
    return f"splat (i32 {number})" if width else str(number)


HANDLERS: Mapping[str, Lower] = {"tt.dot": dot}
