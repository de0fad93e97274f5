"""Sums of products of two float64 matrices: code that all kernels of a CPU share, one block of the result at a time.

Kernels call it, so that LLVM optimises these loops once, and not in every kernel.  Products of float32 numbers are
exact in float64, so a fused multiply-add equals a product and a sum.
"""

from typing import NamedTuple

from harness.engines.virtual.native.lane_values import intrinsic_suffix, splat, vector_type
from harness.engines.virtual.native.llvm_text import Assembly, plus

ROWS = 4
"""Rows of a register block on CPUs with 512-bit vectors; half as many on others."""
_PARAMETERS = "ptr %left, ptr %right, ptr %sums, i64 %rows, i64 %inner, i64 %columns"


class ProductBlock(NamedTuple):
    """The extents of a register block: a few rows, and some neighbouring columns as one vector."""

    rows: int
    columns: int

    @classmethod
    def of(cls, rows: int, columns: int, width: int) -> "ProductBlock":
        """The block for a result of these extents, powers of two, on a CPU with vectors of `width` float32."""
        return cls(min(ROWS if width >= 16 else ROWS // 2, rows), min(2 * width, columns))

    @property
    def symbol(self) -> str:
        """The name of the function that computes a result by such blocks."""
        return f"harness_products_{self.rows}_{self.columns}"


def text(block: ProductBlock, *, has_fma: bool) -> str:
    """A module with the function of `block.symbol`.

    Its parameters are the addresses of the left matrix (rows, inner), the right one (inner, columns) and the result,
    all in row-major order, and these three extents.
    """
    code = Assembly()
    rows = code.value(f"udiv i64 %rows, {block.rows}")
    columns = code.value(f"udiv i64 %columns, {block.columns}")
    with code.loop(rows) as row, code.loop(columns) as column:
        first_row = code.value(f"mul i64 {row}, {block.rows}")
        first_column = code.value(f"mul i64 {column}, {block.columns}")
        _write_block(code, block, first_row, first_column, has_fma=has_fma)
    code.do("ret void")
    return code.text(f"void @{block.symbol}({_PARAMETERS})")


def _write_block(code: Assembly, block: ProductBlock, first_row: str, first_column: str, *, has_fma: bool) -> None:
    """Write the loop over the inner axis, which keeps the block's sums in registers, and store them."""
    vector = vector_type("double", block.columns)
    rows = [plus(code, first_row, str(row)) for row in range(block.rows)]
    slots = [code.stack_slot(vector) for _ in rows]
    for slot in slots:
        code.do(f"store {vector} zeroinitializer, ptr {slot}")
    with code.loop("%inner") as at:
        right = code.value(f"load {vector}, ptr {_address(code, '%right', at, '%columns', first_column)}, align 8")
        for row, slot in zip(rows, slots, strict=True):
            left = code.value(f"load double, ptr {_address(code, '%left', row, '%inner', at)}, align 8")
            factors = splat(code, "double", left, block.columns), right
            sum_so_far = code.value(f"load {vector}, ptr {slot}")
            code.do(f"store {vector} {_step(code, vector, factors, sum_so_far, has_fma=has_fma)}, ptr {slot}")
    for row, slot in zip(rows, slots, strict=True):
        total = code.value(f"load {vector}, ptr {slot}")
        code.do(f"store {vector} {total}, ptr {_address(code, '%sums', row, '%columns', first_column)}, align 8")


def _address(code: Assembly, matrix: str, row: str, length: str, column: str) -> str:
    at = plus(code, code.value(f"mul i64 {row}, {length}"), column)
    return code.value(f"getelementptr double, ptr {matrix}, i64 {at}")


def _step(code: Assembly, vector: str, factors: tuple[str, str], sum_so_far: str, *, has_fma: bool) -> str:
    if has_fma:
        width = int(vector[1:].partition(" ")[0])
        name = f"llvm.fma.{intrinsic_suffix('double', width)}"
        return code.call(vector, name, (vector, factors[0]), (vector, factors[1]), (vector, sum_so_far))
    product = code.value(f"fmul {vector} {factors[0]}, {factors[1]}")
    return code.value(f"fadd {vector} {sum_so_far}, {product}")
