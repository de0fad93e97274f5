"""`tt.dot`: products and sums in float64, one block of the result in registers at a time, rounded once at the end.

Products of float32 numbers are exact in float64, so a fused multiply-add equals a product and a sum.
"""

from collections.abc import Mapping

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native.lane_values import LaneValues, intrinsic_suffix, lanewise, splat, vector_type
from harness.engines.virtual.native.llvm_text import Assembly, plus, times
from harness.engines.virtual.native.lowering import Lower, Lowering
from harness.engines.virtual.native.rounding import resized, rounded
from harness.engines.virtual.native.tiles import ArenaBuffer, Index, Scope, Tile, new_buffer
from harness.errors import CannotExecute

ROWS = 4
"""Rows of a register block on CPUs with 512-bit vectors; half as many on others."""
_FLOATS = frozenset({"f32", "f16", "bf16", "f64"})


def dot(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.dot` of floats and rank two."""
    left, right, addend = (lowering.tile(slot) for slot in operation.operands)
    kinds = operation.operand_types
    result_type = operation.result_types[0]
    if not {kinds[0].element, kinds[1].element, result_type.element} <= _FLOATS or len(result_type.shape) != 2:
        raise CannotExecute("a dot of these types in native code")
    precision = str(operation.attributes.get("inputPrecision", "ieee"))
    is_tf32 = kinds[0].element == "f32" and precision == "tf32"
    if kinds[0].element == "f32" and not is_tf32 and precision != "ieee":
        raise CannotExecute(f"input precision {precision}")
    operands = [_packed_operand(lowering, tile, is_tf32=is_tf32) for tile in (left, right)]
    result = new_buffer(lowering.arena, result_type.shape, result_type.element)
    _write_blocks(lowering, operands, addend, result)
    return result.tile()


def _packed_operand(lowering: Lowering, tile: Tile, *, is_tf32: bool) -> ArenaBuffer:
    """The operand in float64, in row-major order."""
    buffer = new_buffer(lowering.arena, tile.shape, "f64")

    def body(index: Index) -> None:
        lanes = Scope(lowering.code).at(tile, index)
        if is_tf32:
            lanes = lanewise(lowering.code, [lanes], _tf32, "float")
        buffer.write(lowering.code, index, resized(lowering.code, lanes, "double"))

    lowering.loop_over(tile.shape, body)
    return buffer


def _write_blocks(lowering: Lowering, operands: list[ArenaBuffer], addend: Tile, result: ArenaBuffer) -> None:
    """Write the loops over the result's register blocks."""
    element = result.element
    (rows, inner), (_, columns) = operands[0].shape, operands[1].shape
    code = lowering.code
    block_rows = min(ROWS if lowering.target.width >= 16 else ROWS // 2, rows)
    block_columns = min(2 * lowering.target.width, columns)
    width = min(lowering.target.width, block_columns)
    with code.loop(rows // block_rows) as row, code.loop(columns // block_columns) as column:
        first_row, first_column = times(code, row, block_rows), times(code, column, block_columns)
        block = _RegisterBlock(lowering, operands, inner, (block_rows, block_columns))
        sums = block.sums(first_row, first_column)
        for at, total in enumerate(sums):
            row_number = LaneValues("i64", plus(code, first_row, str(at)))
            for part in range(0, block_columns, width):
                lanes = LaneValues("double", _part(code, total, block_columns, part, width), width)
                index = (row_number, LaneValues("i64", plus(code, first_column, str(part)), width, 1))
                if width == 1:
                    index = (row_number, LaneValues("i64", index[1].name))
                    lanes = LaneValues("double", code.value(f"extractelement <1 x double> {lanes.name}, i64 0"))
                scope = Scope(code)
                more = resized(code, scope.at(addend, index), "double")
                total_lanes = lanewise(code, [lanes, more], _add, "double")
                kind = "double" if element == "f64" else "float"
                result.write(code, index, rounded(code, resized(code, total_lanes, kind), element))


class _RegisterBlock:
    """Sums of a few rows and some neighbouring columns, kept in registers during the loop over the inner axis."""

    def __init__(self, lowering: Lowering, operands: list[ArenaBuffer], inner: int, extents: tuple[int, int]) -> None:
        self.code = lowering.code
        self.has_fma = lowering.target.has_fma and all(buffer.element == "f64" for buffer in operands)
        self.left, self.right = operands
        self.inner = inner
        self.block_rows, self.block_columns = extents
        self.columns = operands[1].shape[1]

    def sums(self, first_row: str, first_column: str) -> list[str]:
        """Write the loop over the inner axis; returns the names of the rows' sums, vectors of float64."""
        code, vector = self.code, vector_type("double", self.block_columns)
        begins = self.left.address(code), self.right.address(code)
        slots = [code.stack_slot(vector) for _ in range(self.block_rows)]
        for slot in slots:
            code.do(f"store {vector} zeroinitializer, ptr {slot}")
        with code.loop(self.inner) as at:
            column = plus(code, times(code, at, self.columns), first_column)
            row_address = code.value(f"getelementptr double, ptr {begins[1]}, i64 {column}")
            right_row = code.value(f"load {vector}, ptr {row_address}, align 8")
            for row, slot in enumerate(slots):
                number = plus(code, times(code, plus(code, first_row, str(row)), self.inner), at)
                value_address = code.value(f"getelementptr double, ptr {begins[0]}, i64 {number}")
                value = code.value(f"load double, ptr {value_address}, align 8")
                left_value = splat(code, "double", value, self.block_columns)
                sum_so_far = code.value(f"load {vector}, ptr {slot}")
                code.do(f"store {vector} {self._step(left_value, right_row, sum_so_far)}, ptr {slot}")
        return [code.value(f"load {vector}, ptr {slot}") for slot in slots]

    def _step(self, left: str, right: str, sum_so_far: str) -> str:
        code, vector = self.code, vector_type("double", self.block_columns)
        if self.has_fma:
            name = f"llvm.fma.{intrinsic_suffix('double', self.block_columns)}"
            return code.call(vector, name, (vector, left), (vector, right), (vector, sum_so_far))
        product = code.value(f"fmul {vector} {left}, {right}")
        return code.value(f"fadd {vector} {sum_so_far}, {product}")


def _part(code: Assembly, vector: str, block_columns: int, first: int, width: int) -> str:
    if width == block_columns:
        return vector
    lanes = ", ".join(f"i32 {first + lane}" for lane in range(width))
    integer = vector_type("double", block_columns)
    return code.value(f"shufflevector {integer} {vector}, {integer} poison, <{width} x i32> <{lanes}>")


def _add(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    return code.value(f"fadd {vector_type(kind, width)} {', '.join(names)}")


def _tf32(code: Assembly, kind: str, width: int, names: list[str]) -> str:
    """Cut to tf32's ten mantissa bits, toward zero; a NaN is unchanged."""
    bits, own = vector_type("i32", width), vector_type(kind, width)
    integer = code.value(f"bitcast {own} {names[0]} to {bits}")
    kept = code.value(f"and {bits} {integer}, {_literal(-8192, width)}")
    cut = code.value(f"bitcast {bits} {kept} to {own}")
    nan = code.value(f"fcmp uno {own} {names[0]}, {names[0]}")
    return code.value(f"select {vector_type('i1', width)} {nan}, {own} {names[0]}, {own} {cut}")


def _literal(number: int, width: int) -> str:
    return f"splat (i32 {number})" if width else str(number)


HANDLERS: Mapping[str, Lower] = {"tt.dot": dot}
