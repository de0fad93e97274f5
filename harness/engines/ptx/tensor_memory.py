"""Tensor memory."""

from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.wave import Effect, RegisterRows
from harness.errors import CannotExecute


def tensor_memory_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    del rows
    if instruction.root != "tcgen05":
        return None
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")
