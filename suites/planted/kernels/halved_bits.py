"""Halves numbers by their bits: the exponent is one less."""

import torch
import triton
import triton.language as tl

BLOCK = 16
EXPONENT = tl.constexpr(0x00800000)


@triton.jit
def halve_kernel(x, y, T, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < T, other=1.0)
    bits = b_x.to(tl.int32, bitcast=True) - STEPS * EXPONENT
    tl.store(y + o, bits.to(tl.float32, bitcast=True), mask=o < T)


def halved(x: torch.Tensor, steps: int = 1) -> torch.Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    halve_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x.contiguous(), y, x.shape[0], STEPS=steps, BLOCK=BLOCK)
    return y
