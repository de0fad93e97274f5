"""The sum of x in a loop over tiles of autotuned size; a host option chooses the stride of the loop."""

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})], key=[])
@triton.jit
def total_kernel(x, y, T, STRIDES_BY_BLOCK: tl.constexpr, BLOCK: tl.constexpr):
    STRIDE: tl.constexpr = BLOCK if STRIDES_BY_BLOCK else 32
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, T, STRIDE):
        o = start + tl.arange(0, BLOCK)
        b_sum += tl.load(x + o, mask=o < T, other=0.0)
    tl.store(y, tl.sum(b_sum, axis=0))


def total(x: torch.Tensor, *, strides_by_block: bool) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty(1, dtype=x.dtype, device=x.device)
    total_kernel[(1,)](x, y, x.shape[0], STRIDES_BY_BLOCK=strides_by_block)
    return y
