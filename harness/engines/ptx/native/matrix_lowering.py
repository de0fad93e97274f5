"""Lowers `mma.sync` on floating-point numbers, `ldmatrix` and `stmatrix`, as `matrices` executes them.

A product goes through memory of the function: both operands as float64, the left one in blocks as the registers hold
it, the right one with a row of eight columns for each step of the depth.  A sum adds the steps in ascending order.
"""

import re
from collections.abc import Sequence

from harness.engines.ptx.flow import results_of, sources_of
from harness.engines.ptx.matrices import matrix_form
from harness.engines.ptx.native import warp_code
from harness.engines.ptx.native.access_lowering import (
    address,
    checked,
    gathered,
    pointers,
    scattered,
    shadowed,
    shared_places,
)
from harness.engines.ptx.native.shadow_lowering import LOAD, STORE
from harness.engines.ptx.native.warp_code import NotLowered, WarpCode, splat, vector
from harness.engines.ptx.native.warp_lowering import whole_warp
from harness.engines.ptx.ptx_kernel import PtxInstruction, parts
from harness.engines.ptx.threads import WARP

_SHAPE = re.compile(r"m16n8k(\d+)$")
_BITS = {"f16": 16, "bf16": 16, "tf32": 32}
HEIGHT, WIDTH = 16, 8
ROW_BYTES = 16
"""The bytes of a row of an 8 x 8 matrix of `ldmatrix`."""
_TENSOR_FLOAT_MASK = 0xFFFFE000


def lower_matrices(code: WarpCode, instruction: PtxInstruction) -> bool:
    """Write an instruction on matrices of one warp; False for another instruction.

    Raises:
        NotLowered: it has a form that stays with the interpreter.
    """
    match instruction.root:
        case "mma":
            _multiply(code, instruction)
        case "ldmatrix":
            _load_matrices(code, instruction)
        case "stmatrix":
            _store_matrices(code, instruction)
        case _:
            return False
    return True


# --- products --------------------------------------------------------------------------------------------------------


def _multiply(code: WarpCode, instruction: PtxInstruction) -> None:
    words = instruction.words
    shape = next((found for word in words if (found := _SHAPE.match(word))), None)
    kinds = [word for word in words if word in {*_BITS, "f32"}]
    if shape is None or len(kinds) != 4 or not {"row", "col"} <= set(words) or "sp" in words or "satfinite" in words:
        raise NotLowered
    depth, (out, left, right, addend) = int(shape[1]), kinds
    if left != right or left not in _BITS or {out, addend} - {"f16", "f32"}:
        raise NotLowered
    bits = _BITS[left]
    each = 4 * (32 // bits)
    operands = [[code.read(part, "b32") for part in parts(operand)] for operand in instruction.operands[1:4]]
    if len(operands[0]) != HEIGHT * depth * bits // 32 // WARP or len(operands[1]) * 2 != len(operands[0]):
        raise NotLowered
    with code.slow_unless(whole_warp(code), sources_of(instruction), results_of(instruction)):
        first = _stored(code, "left", [_numbers(code, value, left) for value in operands[0]])
        second = _stored(code, "right", [_numbers(code, value, right) for value in operands[1]])
        sums = _stored(code, "sums", _sums(code, operands[2], addend))
        name, row = f"product_{depth}_{each}", _doubles(WIDTH)
        code.code.declare(row, f"llvm.fma.v{WIDTH}f64", (row, row, row))
        code.functions[name] = _product_function(name, depth, each)
        code.code.do(f"call void @{name}(ptr {first}, ptr {second}, ptr {sums})")
        for part, value in zip(parts(instruction.operands[0]), _registers(code, sums, out), strict=True):
            code.write(part, value, "b32")


def _doubles(lanes: int) -> str:
    return f"<{lanes} x double>"


def _numbers(code: WarpCode, value: str, kind: str) -> tuple[str, int]:
    """Return the elements of a register of all lanes as float64, and how many there are."""
    ir = code.code
    if kind == "tf32":
        cut = code.binary("and", "b32", value, splat("b32", _TENSOR_FLOAT_MASK))
        return ir.value(f"fpext {vector('f32')} {code.cast('bitcast', 'b32', cut, 'f32')} to {_doubles(WARP)}"), WARP
    lanes = 2 * WARP
    if kind == "f16":
        halves = ir.value(f"bitcast {vector('b32')} {value} to {vector('f16', lanes)}")
        return ir.value(f"fpext {vector('f16', lanes)} {halves} to {_doubles(lanes)}"), lanes
    halves = ir.value(f"bitcast {vector('b32')} {value} to {vector('b16', lanes)}")
    wide = ir.value(f"zext {vector('b16', lanes)} {halves} to {vector('b32', lanes)}")
    wide = ir.value(f"shl {vector('b32', lanes)} {wide}, {splat('b32', 16)}")
    single = ir.value(f"bitcast {vector('b32', lanes)} {wide} to {vector('f32', lanes)}")
    return ir.value(f"fpext {vector('f32', lanes)} {single} to {_doubles(lanes)}"), lanes


def _stored(code: WarpCode, role: str, blocks: Sequence[tuple[str, int]]) -> str:
    """Put blocks of float64 into memory of the function one after the other."""
    ir = code.code
    memory = code.scratch(role, sum(lanes for _, lanes in blocks))
    at = 0
    for value, lanes in blocks:
        place = ir.value(f"getelementptr double, ptr {memory}, i64 {at}")
        ir.do(f"store {_doubles(lanes)} {value}, ptr {place}, align 64")
        at += lanes
    return memory


def _sums(code: WarpCode, registers: Sequence[str], kind: str) -> list[tuple[str, int]]:
    """Return the addend as two blocks of 8 x 8."""
    if kind == "f16":
        return [_numbers(code, value, "f16") for value in registers]
    ir = code.code
    singles = [code.cast("bitcast", "b32", value, "f32") for value in registers]
    order = code.constants("b32", [lane + WARP * at for lane in range(WARP) for at in (0, 1)])
    blocks: list[tuple[str, int]] = []
    for first, second in (singles[:2], singles[2:]):
        both = ir.value(f"shufflevector {vector('f32')} {first}, {vector('f32')} {second}, <{2 * WARP} x i32> {order}")
        blocks.append((ir.value(f"fpext {vector('f32', 2 * WARP)} {both} to {_doubles(2 * WARP)}"), 2 * WARP))
    return blocks


def _registers(code: WarpCode, sums: str, kind: str) -> list[str]:
    """Return the registers that hold the sums."""
    ir, lanes = code.code, 2 * WARP
    registers: list[str] = []
    for block in range(2):
        place = ir.value(f"getelementptr double, ptr {sums}, i64 {lanes * block}")
        value = ir.value(f"load {_doubles(lanes)}, ptr {place}, align 64")
        single = ir.value(f"fptrunc {_doubles(lanes)} {value} to {vector('f32', lanes)}")
        if kind == "f16":
            half = ir.value(f"fptrunc {vector('f32', lanes)} {single} to {vector('f16', lanes)}")
            registers.append(ir.value(f"bitcast {vector('f16', lanes)} {half} to {vector('b32')}"))
            continue
        for first in range(2):
            order = code.constants("b32", range(first, lanes, 2))
            part = ir.value(
                f"shufflevector {vector('f32', lanes)} {single}, {vector('f32', lanes)} poison, <{WARP} x i32> {order}"
            )
            registers.append(code.cast("bitcast", "f32", part, "b32"))
    return registers


def _product_function(name: str, depth: int, each: int) -> str:
    """Return a function that adds the product of a 16 x depth and a depth x 8 matrix to a sum.

    Args:
        name: its name.
        depth: the columns of the left operand.
        each: the columns of a block; blocks have eight rows, and the right operand's are transposed.
    """
    row, whole = f"<{WIDTH} x double>", depth * WIDTH
    lines = [
        f"define internal void @{name}(ptr noalias %left, ptr noalias %right, ptr noalias %sums) noinline {{",
        "entry:",
        f"  %turned = alloca [{whole} x double], align 64",
        "  br label %turn",
        "turn:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %turn ]",
        f"  %column.whole = udiv i64 %i, {each}",
        f"  %block = udiv i64 %column.whole, {WIDTH}",
        f"  %column = urem i64 %column.whole, {WIDTH}",
        f"  %inner = urem i64 %i, {each}",
        f"  %step.first = mul i64 %block, {each}",
        "  %step = add i64 %step.first, %inner",
        f"  %row.first = mul i64 %step, {WIDTH}",
        "  %to = add i64 %row.first, %column",
        "  %from.at = getelementptr double, ptr %right, i64 %i",
        "  %moved = load double, ptr %from.at",
        "  %to.at = getelementptr double, ptr %turned, i64 %to",
        "  store double %moved, ptr %to.at",
        "  %i.next = add i64 %i, 1",
        f"  %more = icmp ult i64 %i.next, {whole}",
        "  br i1 %more, label %turn, label %loop",
        "loop:",
        "  %r = phi i64 [ 0, %turn ], [ %r.next, %loop ]",
        f"  %left.first = mul i64 %r, {each}",
    ]
    total = "zeroinitializer"
    for step in range(depth):
        block, inner = divmod(step, each)
        lines += [
            f"  %left.at{step} = getelementptr double, ptr %left, i64 {block * HEIGHT * each + inner}",
            f"  %left.row{step} = getelementptr double, ptr %left.at{step}, i64 %left.first",
            f"  %a{step} = load double, ptr %left.row{step}",
            f"  %b.at{step} = getelementptr double, ptr %turned, i64 {step * WIDTH}",
            f"  %b{step} = load {row}, ptr %b.at{step}, align 64",
            f"  %one{step} = insertelement {row} poison, double %a{step}, i64 0",
            f"  %all{step} = shufflevector {row} %one{step}, {row} poison, <{WIDTH} x i32> zeroinitializer",
            f"  %t{step} = call {row} @llvm.fma.v{WIDTH}f64({row} %all{step}, {row} %b{step}, {row} {total})",
        ]
        total = f"%t{step}"
    lines += [
        f"  %sum.first = mul i64 %r, {WIDTH}",
        "  %sum.at = getelementptr double, ptr %sums, i64 %sum.first",
        f"  %sum = load {row}, ptr %sum.at, align 64",
        f"  %added = fadd {row} {total}, %sum",
        f"  store {row} %added, ptr %sum.at, align 64",
        "  %r.next = add i64 %r, 1",
        f"  %again = icmp ult i64 %r.next, {HEIGHT}",
        "  br i1 %again, label %loop, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


# --- matrices in shared memory ---------------------------------------------------------------------------------------


def _row_places(code: WarpCode, instruction: PtxInstruction, count: int) -> tuple[str, str]:
    """Return an i1 that holds if all rows are in place, and the places of the rows by lane."""
    operand = instruction.operands[1 if instruction.root == "ldmatrix" else 0]
    addresses = address(code, operand)
    low = code.binary("and", "b64", addresses, splat("b64", ROW_BYTES - 1))
    fine = code.compare("eq", "b64", low, "zeroinitializer")
    fine, places = shared_places(code, addresses, ROW_BYTES, fine)
    unused = code.constants("pred", [int(lane >= 8 * count) for lane in range(WARP)])
    fine = code.all_of(code.binary("or", "pred", fine, unused))
    sure = code.code.value(f"and i1 {fine}, {whole_warp(code)}")
    if code.cell_bytes:
        used = code.constants("pred", [int(lane < 8 * count) for lane in range(WARP)])
        name = LOAD if instruction.root == "ldmatrix" else STORE
        sure = checked(code, sure, lambda: shadowed(code, name, places, (used, used), ROW_BYTES))
    return sure, places


def _of_lanes(code: WarpCode, places: str, lanes: Sequence[int], offsets: Sequence[int]) -> str:
    """Return for each lane the place of another lane, plus an offset."""
    order = code.constants("b32", lanes)
    taken = code.code.value(f"shufflevector {vector('b64')} {places}, {vector('b64')} poison, {vector('b32')} {order}")
    return code.binary("add", "b64", taken, code.constants("b64", offsets))


def _row_pairs(code: WarpCode, places: str, number: int) -> str:
    """Return for each lane the place of its two neighbours of a row of a matrix."""
    rows = [8 * number + lane // 4 for lane in range(WARP)]
    return _of_lanes(code, places, rows, [4 * (lane % 4) for lane in range(WARP)])


def _column_halves(code: WarpCode, places: str, number: int, side: int) -> str:
    """Return for each lane the place of one of its two neighbours of a column of a matrix."""
    rows = [8 * number + 2 * (lane % 4) + side for lane in range(WARP)]
    return _of_lanes(code, places, rows, [2 * (lane // 4) for lane in range(WARP)])


def _load_matrices(code: WarpCode, instruction: PtxInstruction) -> None:
    count, transposed = matrix_form(instruction, "m8n8", "b16")
    sure, places = _row_places(code, instruction, count)
    with code.slow_unless(sure, sources_of(instruction), results_of(instruction)):
        base, lanes = code.slot(warp_code.SHARED), splat("pred", 1)
        for number, part in enumerate(parts(instruction.operands[0])):
            if not transposed:
                own = _row_pairs(code, places, number)
                value = gathered(code, pointers(code, base, own), "b32", lanes)
            else:
                halves: list[str] = []
                for side in range(2):
                    own = _column_halves(code, places, number, side)
                    half = gathered(code, pointers(code, base, own), "b16", lanes)
                    halves.append(code.resized(half, "b16", "b32"))
                upper = code.binary("shl", "b32", halves[1], splat("b32", 16))
                value = code.binary("or", "b32", halves[0], upper)
            code.write(part, value, "b32")


def _store_matrices(code: WarpCode, instruction: PtxInstruction) -> None:
    if "b8" in instruction.words:
        raise NotLowered
    count, transposed = matrix_form(instruction, "m8n8", "b16")
    sure, places = _row_places(code, instruction, count)
    values = [code.read(part, "b32") for part in parts(instruction.operands[1])]
    with code.slow_unless(sure, sources_of(instruction), results_of(instruction)):
        base, written, lanes = code.slot(warp_code.SHARED), code.slot(warp_code.WRITTEN), splat("pred", 1)
        for number, value in enumerate(values):
            if not transposed:
                own = _row_pairs(code, places, number)
                scattered(code, pointers(code, base, own), "b32", lanes, value)
                scattered(code, pointers(code, written, own), "b32", lanes, splat("b32", 0x01010101))
                continue
            for side in range(2):
                own = _column_halves(code, places, number, side)
                half = code.binary("lshr", "b32", value, splat("b32", 16)) if side else value
                half = code.resized(half, "b32", "b16")
                scattered(code, pointers(code, base, own), "b16", lanes, half)
                scattered(code, pointers(code, written, own), "b16", lanes, splat("b16", 0x0101))
