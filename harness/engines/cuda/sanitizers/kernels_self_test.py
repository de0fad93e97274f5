"""Self-test kernels for compute-sanitizer: each makes one mistake, whose report proves that the tool works."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# Triton reads annotations as its own.
import torch
import triton
import triton.language as tl

from harness.model.compute_sanitizer_report import Tool

LANES = 128
FAR = 1 << 24
"""In elements: far beyond the allocation and its padding."""


@triton.jit
def harness_self_test_memcheck(y, far, lanes: tl.constexpr):
    """One lane stores far out of bounds."""
    lane = tl.arange(0, lanes)
    tl.store(y + far + lane, lane, mask=lane == 0)


@triton.jit
def harness_self_test_initcheck(x, y, lanes: tl.constexpr):
    """One lane reads uninitialised memory."""
    lane = tl.arange(0, lanes)
    tl.store(y + lane, tl.load(x + lane, mask=lane == 0, other=0) + 1)


@triton.jit
def harness_self_test_racecheck(x, y, lanes: tl.constexpr):
    """All threads store to one cell of the shared memory that the sum needs."""
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


def launch_mistake(tool: Tool) -> None:
    """Launch the tool's kernel and wait for it.  Memcheck's destroys the CUDA context of the process.

    Synccheck has no kernel, because the mistakes that it finds may hang.
    """
    x = torch.empty(LANES, dtype=torch.int32, device="cuda")
    y = torch.zeros(LANES, dtype=torch.int32, device="cuda")
    match tool:
        case Tool.MEMCHECK:
            harness_self_test_memcheck[(1,)](y, FAR, lanes=LANES)
        case Tool.INITCHECK:
            harness_self_test_initcheck[(1,)](x, y, lanes=LANES)
        case Tool.RACECHECK:
            harness_self_test_racecheck[(1,)](y, x, lanes=LANES)
        case Tool.SYNCCHECK:
            pass
    torch.cuda.synchronize()
