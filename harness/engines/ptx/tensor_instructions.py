"""The instructions of tensor memory (`tcgen05`)."""

from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.tensor_accesses import load_effect, store_effect, wait_effect
from harness.engines.ptx.tensor_allocation import allocation_effect
from harness.engines.ptx.tensor_commits import commit_effect
from harness.engines.ptx.tensor_copies import copy_effect
from harness.engines.ptx.tensor_products import product_effect
from harness.engines.ptx.wave import Effect, RegisterRows
from harness.errors import CannotExecute


def tensor_memory_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return the effect of an instruction of tensor memory; None for another instruction."""
    if instruction.root != "tcgen05":
        return None
    match instruction.words[1]:
        case "alloc" | "dealloc" | "relinquish_alloc_permit":
            return allocation_effect(instruction, rows)
        case "ld":
            return load_effect(instruction, rows)
        case "st":
            return store_effect(instruction, rows)
        case "wait::ld" | "wait::st":
            return wait_effect(instruction)
        case "cp":
            return copy_effect(instruction, rows)
        case "mma":
            return product_effect(instruction, rows)
        case "commit":
            return commit_effect(instruction, rows)
        case "fence::before_thread_sync" | "fence::after_thread_sync":
            return lambda _: None
        case _:
            raise CannotExecute(f"the PTX instruction {instruction.opcode}")
