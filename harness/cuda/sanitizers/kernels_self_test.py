"""Kernels with one mistake each, for compute-sanitizer to report: each is the least that shows that it watches."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# Triton reads annotations as its own.
import torch
import triton
import triton.language as tl

from harness.model.compute_sanitizer_report import Tool

LANES = 128
FAR = 1 << 24
"""Elements: far beyond the allocation and its padding."""


@triton.jit
def harness_witness_memcheck(y, far, lanes: tl.constexpr):
    """One lane stores far beyond."""
    lane = tl.arange(0, lanes)
    tl.store(y + far + lane, lane, mask=lane == 0)


@triton.jit
def harness_witness_initcheck(x, y, lanes: tl.constexpr):
    """One lane reads what nobody has written."""
    lane = tl.arange(0, lanes)
    tl.store(y + lane, tl.load(x + lane, mask=lane == 0, other=0) + 1)


@triton.jit
def harness_witness_racecheck(x, y, lanes: tl.constexpr):
    """Every thread stores its number to one cell of the shared memory that the sum needs."""
    lane = tl.arange(0, lanes)
    total = tl.sum(tl.load(x + lane), 0)
    raced = tl.inline_asm_elementwise(
        "{ .reg .u32 t, a; mov.u32 t, %tid.x; mov.u32 a, 4; st.shared.u32 [a], t; ld.shared.u32 $0, [a]; }",
        "=r,r",
        [lane],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(y + lane, raced + total)


def err(tool: Tool) -> None:
    """Launch the tool's kernel and wait for it; after memcheck's, the process has no CUDA context any more.

    No mistake is made for synccheck: what it looks for may hang.
    """
    x = torch.empty(LANES, dtype=torch.int32, device="cuda")
    y = torch.zeros(LANES, dtype=torch.int32, device="cuda")
    match tool:
        case Tool.MEMCHECK:
            harness_witness_memcheck[(1,)](y, FAR, lanes=LANES)
        case Tool.INITCHECK:
            harness_witness_initcheck[(1,)](x, y, lanes=LANES)
        case Tool.RACECHECK:
            harness_witness_racecheck[(1,)](y, x, lanes=LANES)
        case Tool.SYNCCHECK:
            pass
    torch.cuda.synchronize()
