"""Lowers a run of straight instructions to the text of an LLVM module."""

from collections.abc import Callable, Sequence

from harness.engines.ptx.native import warp_code
from harness.engines.ptx.native.access_lowering import lower_access
from harness.engines.ptx.native.copy_lowering import lower_copy
from harness.engines.ptx.native.lane_lowering import lower_lanes
from harness.engines.ptx.native.matrix_lowering import lower_matrices
from harness.engines.ptx.native.warp_code import NotLowered, WarpCode, vector
from harness.engines.ptx.native.warp_lowering import lower_warp
from harness.engines.ptx.ptx_kernel import PtxInstruction, Register
from harness.engines.ptx.threads import WARP
from harness.engines.ptx.wave import RegisterRows
from harness.errors import CannotExecute

SYMBOL = "run_of_instructions"
_LOWERINGS = (lower_lanes, lower_access, lower_warp, lower_matrices, lower_copy)


def is_lowered(instruction: PtxInstruction, rows: RegisterRows) -> bool:
    """Return True if native code can execute an instruction."""
    code = WarpCode(rows, masked=True, cell_bytes=4)
    code.warp = "%warp"
    try:
        return _lower(code, instruction)
    except (NotLowered, CannotExecute, KeyError, ValueError):
        return False


def lowered(
    instructions: Sequence[PtxInstruction],
    rows: RegisterRows,
    is_live: Callable[[Register], bool],
    *,
    masked: bool,
    cell_bytes: int,
) -> str:
    """Return the module of a run.

    Args:
        instructions: those that `is_lowered` takes.
        rows: the register file.
        is_live: returns True for registers that are read after the run.
        masked: the code acts on the threads of a mask.
        cell_bytes: the size of a cell of the shadow of shared memory; 0 for none.
    """
    out = WarpCode(rows, masked=masked, cell_bytes=cell_bytes)
    ir = out.code
    with ir.loop(out.slot(warp_code.WARPS)) as warp:
        out.warp = warp
        after = ir.fresh("after")
        if masked:
            _read_mask(out, after)
        for number, instruction in enumerate(instructions):
            out.number = number
            _lower(out, instruction)
        out.finish(is_live)
        ir.jump(after)
        ir.start(after)
    ir.do("ret i64 0")
    ir.start("failed")
    ir.do("ret i64 1")
    text = ir.text(f"i64 @{SYMBOL}(ptr %context)")
    text = text.replace("\nentry:\n", "\nentry:\n" + "\n".join(out.head()) + "\n", 1)
    return "\n".join((text, *out.functions.values(), '!0 = !{!"branch_weights", i32 1000, i32 1}', ""))


def _read_mask(out: WarpCode, after: str) -> None:
    """Read the active lanes; a warp without any is left out."""
    first = out.code.value(f"mul i64 {out.warp}, {WARP}")
    at = out.offset(out.slot(warp_code.MASK), first)
    raw = out.code.value(f"load {vector('u8')}, ptr {at}, align 1")
    out.lanes = out.compare("ne", "u8", raw, "zeroinitializer")
    some = out.code.fresh("some")
    out.code.branch(out.any_of(out.lanes), some, after)
    out.code.start(some)


def _lower(out: WarpCode, instruction: PtxInstruction) -> bool:
    out.guard = None
    if instruction.guard is not None:
        holds = out.read(instruction.guard, "pred")
        out.guard = out.binary("and", "pred", holds, out.lanes) if out.masked else holds
    return any(lower(out, instruction) for lower in _LOWERINGS)
