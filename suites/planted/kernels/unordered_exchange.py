"""Swaps the halves of each block: every thread stores its number in shared memory and loads that of another warp."""

import torch
import triton
import triton.language as tl

BLOCK = 128
"""One number for each thread of four warps."""


EXCHANGE = """
{
.reg .b32 own, other;
.shared .align 4 .b8 exchanged[512];
mov.u32 own, %tid.x;
shl.b32 own, own, 2;
xor.b32 other, own, 256;
mov.b32 $0, exchanged;
add.s32 own, own, $0;
add.s32 other, other, $0;
st.shared.b32 [own], $1;
BARRIER
ld.shared.b32 $0, [other];
}
"""


@triton.jit
def exchange_kernel(x, y, T, EXCHANGE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + o, mask=o < T, other=0.0)
    swapped = tl.inline_asm_elementwise(EXCHANGE, "=&r,r", [value], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(y + o, swapped)


def exchange(x: torch.Tensor, *, waits: bool) -> torch.Tensor:
    x = x.contiguous()
    programs = triton.cdiv(x.shape[0], BLOCK)
    y = torch.empty(programs * BLOCK, dtype=x.dtype, device=x.device)
    text = EXCHANGE.replace("BARRIER", "bar.sync 0;" if waits else "")
    exchange_kernel[(programs,)](x, y, x.shape[0], EXCHANGE=text, BLOCK=BLOCK, num_warps=4)
    return y
