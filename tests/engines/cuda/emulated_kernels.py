"""A kernel for `emulated`; imported only in workers, after they emulate a device."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false

import triton
import triton.language as tl


@triton.jit
def sm_of_each_program(numbers):
    """Stores the SM of each program, after enough work that every SM gets a program."""
    program = tl.program_id(0)
    total = 0
    for step in range(2000):
        total += step * program
    sm = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r,r", [program], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(numbers + program, tl.where(total == -1, -1, sm))
