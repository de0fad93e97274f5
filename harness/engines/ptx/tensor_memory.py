"""Tensor memory."""

from harness.engines.ptx.ir import Instruction
from harness.engines.ptx.wave import Effect, Rows
from harness.errors import CannotExecute


def tensor_memory_effect(instruction: Instruction, rows: Rows) -> Effect | None:
    if instruction.root != "tcgen05":
        return None
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")
