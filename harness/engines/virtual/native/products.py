"""`tt.dot`: products and sums in float64, rounded once.  `product_code` has the loops over the inner axis."""

from collections.abc import Mapping

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native.lane_values import lanewise, vector_type
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.lowering import Lower, Lowering
from harness.engines.virtual.native.product_code import ProductBlock
from harness.engines.virtual.native.rounding import resized, rounded
from harness.engines.virtual.native.tiles import ArenaBuffer, Index, Scope, Tile, new_buffer
from harness.errors import CannotExecute

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
    sums = new_buffer(lowering.arena, result_type.shape, "f64")
    _sum_products(lowering, operands, sums)
    result = new_buffer(lowering.arena, result_type.shape, result_type.element)
    _add_and_round(lowering, sums.tile(), addend, result)
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


def _sum_products(lowering: Lowering, operands: list[ArenaBuffer], sums: ArenaBuffer) -> None:
    """Call the code that sums the products of two operands."""
    (rows, inner), (_, columns) = operands[0].shape, operands[1].shape
    block = ProductBlock.of(rows, columns, lowering.target.width)
    lowering.products.add(block)
    code = lowering.code
    addresses = [("ptr", buffer.address(code)) for buffer in (*operands, sums)]
    code.call("void", block.symbol, *addresses, *(("i64", str(extent)) for extent in (rows, inner, columns)))


def _add_and_round(lowering: Lowering, sums: Tile, addend: Tile, result: ArenaBuffer) -> None:
    element = result.element
    kind = "double" if element == "f64" else "float"

    def body(index: Index) -> None:
        scope = Scope(lowering.code)
        code = scope.code
        more = resized(code, scope.at(addend, index), "double")
        total = lanewise(code, [scope.at(sums, index), more], _add, "double")
        result.write(code, index, rounded(code, resized(code, total, kind), element))

    lowering.loop_over(result.shape, body)


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
