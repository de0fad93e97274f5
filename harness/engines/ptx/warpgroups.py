"""Tensor cores of a warpgroup: `wgmma`, whose operands lie in shared memory and whose sums land at a wait."""

from harness.engines.ptx.ir import Instruction
from harness.engines.ptx.wave import Effect, Rows
from harness.errors import CannotExecute


def warpgroup_effect(instruction: Instruction, rows: Rows) -> Effect:
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")
