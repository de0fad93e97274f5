"""Bulk copies."""

from harness.engines.ptx.ir import Instruction
from harness.engines.ptx.wave import Effect, Rows
from harness.errors import CannotExecute


def bulk_effect(instruction: Instruction, rows: Rows) -> Effect:
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")
